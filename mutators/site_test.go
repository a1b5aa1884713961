package mutators_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// siteDefaults are a VirtualMachineDefaults, whose spec is given in YAML.
func siteDefaults(t testing.TB, name, spec string) policyv1alpha1.VirtualMachineDefaults {
	t.Helper()
	object := policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: name}}
	data, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &object.Spec); err != nil {
		t.Fatal(err)
	}
	return object
}

// siteOf compiles templates, whose names are a, b, c and so on.
func siteOf(t testing.TB, templates ...string) []mutators.SiteDefaults {
	t.Helper()
	var objects []policyv1alpha1.VirtualMachineDefaults
	for i, template := range templates {
		objects = append(objects, siteDefaults(t, string(rune('a'+i)), "template: "+template))
	}
	site, notes := mutators.NewSite(objects...)
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	return site.For(nil)
}

func specOf(t testing.TB, text string) *v1.VirtualMachineInstanceSpec {
	t.Helper()
	spec := &v1.VirtualMachineInstanceSpec{}
	if err := yaml.Unmarshal([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// filled lists changes as PATH = VALUE (LAYER).
func filled(t testing.TB, changes []provenance.Change) []string {
	t.Helper()
	var lines []string
	for _, c := range changes {
		value, err := json.Marshal(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, c.Path+" = "+string(value)+" ("+c.Layer+")")
	}
	return lines
}

func TestFillSite(t *testing.T) {
	for name, test := range map[string]struct {
		written   string
		templates []string
		want      []string
	}{
		"fields that are left out": {
			written:   `{domain: {machine: {type: q35}}}`,
			templates: []string{`{domain: {machine: {type: pc}, cpu: {model: Skylake-Server}}, terminationGracePeriodSeconds: 30, evictionStrategy: LiveMigrate}`},
			want:      []string{`domain.cpu.model = "Skylake-Server" (site/a)`, `evictionStrategy = "LiveMigrate" (site/a)`, `terminationGracePeriodSeconds = 30 (site/a)`},
		},
		"false in a field that differs from one that is left out": {
			written:   `{}`,
			templates: []string{`{domain: {devices: {autoattachMemBalloon: false}}}`},
			want:      []string{`domain.devices.autoattachMemBalloon = false (site/a)`},
		},
		"what the author wrote is false": {
			written:   `{domain: {devices: {autoattachMemBalloon: false}}}`,
			templates: []string{`{domain: {devices: {autoattachMemBalloon: true}}}`},
		},
		"the first of two": {
			written:   `{}`,
			templates: []string{`{schedulerName: first}`, `{schedulerName: second, priorityClassName: high}`},
			want:      []string{`schedulerName = "first" (site/a)`, `priorityClassName = "high" (site/b)`},
		},
		"maps key by key": {
			written:   `{nodeSelector: {disk: hdd}}`,
			templates: []string{`{nodeSelector: {disk: ssd, zone: a}}`, `{nodeSelector: {zone: b, rack: "7"}}`},
			want:      []string{`nodeSelector[zone] = "a" (site/a)`, `nodeSelector[rack] = "7" (site/b)`},
		},
		"a map that is not there, as a whole": {
			written:   `{}`,
			templates: []string{`{nodeSelector: {"1": x, disk: ssd}}`},
			want:      []string{`nodeSelector = {"1":"x","disk":"ssd"} (site/a)`},
		},
		"lists that are empty, named field by field": {
			written:   `{tolerations: []}`,
			templates: []string{`{tolerations: [{key: vm, operator: Exists}, {effect: NoSchedule}]}`},
			want: []string{
				`tolerations[0].key = "vm" (site/a)`, `tolerations[0].operator = "Exists" (site/a)`,
				`tolerations[1].effect = "NoSchedule" (site/a)`,
			},
		},
		"no list that has an element": {
			written:   `{tolerations: [{key: own}], dnsConfig: {nameservers: [192.0.2.1]}}`,
			templates: []string{`{tolerations: [{key: vm, operator: Exists}], dnsConfig: {nameservers: [192.0.2.2], searches: [example.com]}}`},
			want:      []string{`dnsConfig.searches[0] = "example.com" (site/a)`},
		},
		"an object that says something by being there": {
			written:   `{domain: {devices: {tpm: {}}}}`,
			templates: []string{`{domain: {devices: {rng: {}, tpm: {persistent: true}}}}`},
			want:      []string{`domain.devices.rng = {} (site/a)`, `domain.devices.tpm.persistent = true (site/a)`},
		},
		"elements that are objects without fields": {
			written:   `{}`,
			templates: []string{`{networks: [{name: default, pod: {}}], domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}}`},
			want: []string{
				`domain.devices.interfaces[0].name = "default" (site/a)`, `domain.devices.interfaces[0].masquerade = {} (site/a)`,
				`networks[0].name = "default" (site/a)`, `networks[0].pod = {} (site/a)`,
			},
		},
		"empty values that an element needs": {
			written:   `{}`,
			templates: []string{`{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}, domain: {devices: {inputs: [{name: i}]}}, readinessProbe: {httpGet: {port: 80, httpHeaders: [{name: X, value: ""}]}}}`},
			want: []string{
				`domain.devices.inputs[0].name = "i" (site/a)`,
				`affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight = 1 (site/a)`,
				`affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference = {} (site/a)`,
				`readinessProbe.httpGet.port = 80 (site/a)`, `readinessProbe.httpGet.httpHeaders[0].name = "X" (site/a)`, `readinessProbe.httpGet.httpHeaders[0].value = "" (site/a)`,
			},
		},
		"CPUs all or none": {
			written:   `{domain: {resources: {requests: {cpu: "4"}}}}`,
			templates: []string{`{domain: {cpu: {sockets: 2, model: host-model}, resources: {limits: {cpu: "8"}}}}`},
			want:      []string{`domain.cpu.model = "host-model" (site/a)`},
		},
		"CPUs of the first that has some": {
			written:   `{}`,
			templates: []string{`{domain: {resources: {requests: {cpu: "1"}, limits: {cpu: "2"}}}}`, `{domain: {cpu: {cores: 8}}}`},
			want:      []string{`domain.resources.requests = {"cpu":"1"} (site/a)`, `domain.resources.limits = {"cpu":"2"} (site/a)`},
		},
		"memory all or none": {
			written:   `{domain: {resources: {requests: {memory: 1Gi}}}}`,
			templates: []string{`{domain: {memory: {guest: 2Gi, hugepages: {pageSize: 2Mi}}, resources: {limits: {memory: 3Gi, "example.com/key": "1"}}}}`},
			want:      []string{`domain.resources.limits = {"example.com/key":"1"} (site/a)`, `domain.memory.hugepages.pageSize = "2Mi" (site/a)`},
		},
		"no network where there is one, or none is wanted": {
			written:   `{domain: {devices: {autoattachPodInterface: false}}}`,
			templates: []string{`{networks: [{name: lan, multus: {networkName: lan}}], domain: {devices: {interfaces: [{name: lan, bridge: {}}]}}}`},
		},
		"no disk where there is a volume": {
			written:   `{volumes: [{name: root, containerDisk: {image: a}}]}`,
			templates: []string{`{volumes: [{name: tools, containerDisk: {image: b}}], domain: {devices: {disks: [{name: tools}]}}}`},
		},
		"no probe beside a probe": {
			written:   `{livenessProbe: {guestAgentPing: {}}}`,
			templates: []string{`{livenessProbe: {tcpSocket: {port: 22}, periodSeconds: 30}, readinessProbe: {tcpSocket: {port: ssh}}}`},
			want:      []string{`readinessProbe.tcpSocket.port = "ssh" (site/a)`},
		},
		"not EFI beside BIOS": {
			written:   `{domain: {firmware: {bootloader: {bios: {}}}}}`,
			templates: []string{`{domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}`},
		},
		"what goes with the author's EFI": {
			written:   `{domain: {firmware: {bootloader: {efi: {}}}, clock: {utc: {}}}}`,
			templates: []string{`{domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, clock: {timezone: Europe/Berlin, timer: {hyperv: {}}}}}`},
			want:      []string{`domain.firmware.bootloader.efi.secureBoot = false (site/a)`, `domain.clock.timer.hyperv = {} (site/a)`},
		},
		"no enlightenments beside those of the host": {
			written:   `{domain: {features: {hypervPassthrough: {enabled: true}}}}`,
			templates: []string{`{domain: {features: {hyperv: {relaxed: {}}, smm: {}}}}`},
			want:      []string{`domain.features.smm = {} (site/a)`},
		},
		"bounds that fit": {
			written:   `{domain: {cpu: {sockets: 2}, memory: {guest: 2Gi}}}`,
			templates: []string{`{domain: {cpu: {maxSockets: 8}, memory: {maxGuest: 8Gi}}}`},
			want:      []string{`domain.cpu.maxSockets = 8 (site/a)`, `domain.memory.maxGuest = "8Gi" (site/a)`},
		},
		"no bounds below what there is": {
			written:   `{domain: {resources: {requests: {cpu: "16", memory: 16Gi}}}}`,
			templates: []string{`{domain: {cpu: {maxSockets: 8}, memory: {maxGuest: 8Gi}}}`},
		},
		"no bounds below what another layer gives": {
			written:   `{}`,
			templates: []string{`{domain: {cpu: {maxSockets: 2}, memory: {maxGuest: 1Gi}}}`, `{domain: {cpu: {sockets: 4}, memory: {guest: 4Gi}}}`},
			want:      []string{`domain.cpu.sockets = 4 (site/b)`, `domain.memory.guest = "4Gi" (site/b)`},
		},
		"no memory to grow to on arm64": {
			written:   `{architecture: arm64, domain: {memory: {guest: 2Gi}}}`,
			templates: []string{`{domain: {memory: {maxGuest: 8Gi}}}`},
		},
		"nothing made for nothing": {
			written:   `{domain: {resources: {limits: {cpu: "1"}}}}`,
			templates: []string{`{domain: {cpu: {sockets: 4}}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			site, spec, rec := siteOf(t, test.templates...), specOf(t, test.written), provenance.NewRecorder("")
			before := spec.DeepCopy()
			fill := mutators.SiteFill{Facts: platform.Defaults(platform.Settings{}), Spec: spec, Recorder: rec}
			mutators.FillSite(site, fill)
			if diff := cmp.Diff(test.want, filled(t, rec.Changes())); diff != "" {
				t.Errorf("filled (-want +got):\n%s", diff)
			}
			if len(test.want) == 0 {
				if diff := cmp.Diff(before, spec); diff != "" {
					t.Errorf("the spec was changed (-before +after):\n%s", diff)
				}
			}
			again := provenance.NewRecorder("")
			fill.Recorder = again
			mutators.FillSite(site, fill)
			if len(again.Changes()) > 0 {
				t.Errorf("filling twice fills %v", filled(t, again.Changes()))
			}
		})
	}
}

func TestFillSiteKeepsItsTemplate(t *testing.T) {
	site := siteOf(t, `{tolerations: [{key: vm}], nodeSelector: {a: b}, domain: {devices: {rng: {}, tpm: {}}}}`)
	for range 2 {
		spec, rec := &v1.VirtualMachineInstanceSpec{}, provenance.NewRecorder("")
		mutators.FillSite(site, mutators.SiteFill{Facts: platform.Defaults(platform.Settings{}), Spec: spec, Recorder: rec})
		want := []string{
			`domain.devices.rng = {} (site/a)`, `domain.devices.tpm = {} (site/a)`, `nodeSelector = {"a":"b"} (site/a)`, `tolerations[0].key = "vm" (site/a)`,
		}
		if diff := cmp.Diff(want, filled(t, rec.Changes())); diff != "" {
			t.Fatalf("filled (-want +got):\n%s", diff)
		}
		spec.Tolerations[0].Key, spec.NodeSelector["a"] = "changed", "changed"
		enabled := true
		spec.Domain.Devices.TPM.Persistent = &enabled
	}
}

func TestFillSiteSelects(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	for name, test := range map[string]struct {
		match        string
		namespace    labels.Set
		object       labels.Set
		architecture string
		want         bool
	}{
		"everything":                {want: true},
		"a namespace":               {match: `{namespaceSelector: {matchLabels: {env: prod}}}`, namespace: labels.Set{"env": "prod"}, want: true},
		"another namespace":         {match: `{namespaceSelector: {matchLabels: {env: prod}}}`, namespace: labels.Set{"env": "test"}},
		"what is in no namespace":   {match: `{namespaceSelector: {matchExpressions: [{key: env, operator: DoesNotExist}]}}`},
		"an empty selector":         {match: `{namespaceSelector: {}, objectSelector: {}}`, want: true},
		"the machine's labels":      {match: `{objectSelector: {matchLabels: {app: db}}}`, object: labels.Set{"app": "db"}, want: true},
		"other labels":              {match: `{objectSelector: {matchLabels: {app: db}}}`, object: labels.Set{"app": "web"}},
		"no labels":                 {match: `{objectSelector: {matchLabels: {app: db}}}`},
		"the hypervisor":            {match: `{hypervisors: [mshv, kvm]}`, want: true},
		"another hypervisor":        {match: `{hypervisors: [mshv]}`},
		"the cluster's":             {match: `{architectures: [amd64]}`, want: true},
		"the author's architecture": {match: `{architectures: [arm64]}`, architecture: "arm64", want: true},
		"another architecture":      {match: `{architectures: [amd64]}`, architecture: "arm64"},
		"all but one":               {match: `{architectures: [amd64], hypervisors: [kvm], objectSelector: {matchLabels: {app: db}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := "template: {schedulerName: own}"
			if test.match != "" {
				spec = "match: " + test.match + "\n" + spec
			}
			site, notes := mutators.NewSite(siteDefaults(t, "a", spec))
			if len(notes) > 0 {
				t.Fatal(notes)
			}
			got := &v1.VirtualMachineInstanceSpec{Architecture: test.architecture}
			mutators.FillSite(site.For(test.namespace), mutators.SiteFill{
				Facts: facts, Spec: got, Labels: test.object, Recorder: provenance.NewRecorder(""),
			})
			if filled := got.SchedulerName == "own"; filled != test.want {
				t.Errorf("selected: %v, want %v", filled, test.want)
			}
		})
	}
}

func TestSiteOrder(t *testing.T) {
	prod := `match: {namespaceSelector: {matchLabels: {env: prod}}}` + "\n"
	site, notes := mutators.NewSite(
		siteDefaults(t, "b-everywhere", `template: {schedulerName: s}`),
		siteDefaults(t, "z-prod", prod+`template: {schedulerName: s}`),
		siteDefaults(t, "a-everywhere", `template: {schedulerName: s}`),
		siteDefaults(t, "y-prod", prod+`template: {schedulerName: s}`),
		siteDefaults(t, "broken", `template: {scheduler: s, domain: {cpu: {cores: "4"}}}`),
	)
	wantNotes := []string{"VirtualMachineDefaults broken has no effect: spec.template.domain.cpu.cores: Invalid value: is the text \"4\" where a whole number from 0 up is expected; " +
		"spec.template.scheduler: Invalid value: there is no such field in the spec of a virtual machine instance"}
	if diff := cmp.Diff(wantNotes, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if !site.SelectsNamespaces() {
		t.Error("no namespaces are selected")
	}
	for name, test := range map[string]struct {
		namespace labels.Set
		want      []string
	}{
		"no namespace":      {nil, []string{"site/a-everywhere", "site/b-everywhere"}},
		"another namespace": {labels.Set{}, []string{"site/a-everywhere", "site/b-everywhere"}},
		"selected":          {labels.Set{"env": "prod"}, []string{"site/y-prod", "site/z-prod", "site/a-everywhere", "site/b-everywhere"}},
	} {
		var got []string
		for _, s := range site.For(test.namespace) {
			got = append(got, s.Layer())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var none *mutators.Site
	if none.For(labels.Set{}) != nil || none.SelectsNamespaces() {
		t.Error("without a site there are defaults")
	}
}

func TestSiteArchitecture(t *testing.T) {
	site, notes := mutators.NewSite(
		siteDefaults(t, "a", `{match: {architectures: [arm64]}, template: {schedulerName: arm}}`),
		siteDefaults(t, "b", `{match: {objectSelector: {matchLabels: {no: one}}}, template: {architecture: s390x}}`),
		siteDefaults(t, "c", `{template: {architecture: arm64}}`),
	)
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	rec := provenance.NewRecorder("")
	mutators.FillSite(site.For(nil), mutators.SiteFill{Facts: platform.Defaults(platform.Settings{}), Spec: &v1.VirtualMachineInstanceSpec{}, Recorder: rec})
	want := []string{`schedulerName = "arm" (site/a)`, `architecture = "arm64" (site/c)`}
	if diff := cmp.Diff(want, filled(t, rec.Changes())); diff != "" {
		t.Errorf("filled (-want +got):\n%s", diff)
	}
}

func TestNewSiteDefaults(t *testing.T) {
	const nothing = "fills nothing: it is what a field that is left out means"
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"no template":     {`{}`, []string{"spec.template: Required value: give some fields of the spec of a virtual machine instance"}},
		"an empty one":    {`{template: {}}`, []string{"spec.template: Required value: give some fields of the spec of a virtual machine instance"}},
		"a list":          {`{template: [1]}`, []string{"spec.template: Required value: give some fields of the spec of a virtual machine instance"}},
		"too large a one": {`{template: {hostname: ` + strings.Repeat("a", 40_000) + `}}`, []string{"spec.template: Too long: may not be more than 32768 bytes"}},
		"unknown fields": {`{template: {domain: {devices: {Rng: {}, disks: [{name: a, disk: {buss: sata}}]}}}}`, []string{
			"spec.template.domain.devices.Rng: Invalid value: there is no such field in the spec of a virtual machine instance",
			"spec.template.domain.devices.disks[0].disk.buss: Invalid value: there is no such field in the spec of a virtual machine instance",
		}},
		"wrong types": {`{template: {nodeSelector: {a: 1}, tolerations: {}, domain: {cpu: 4, memory: {guest: lots}, devices: {autoattachMemBalloon: "yes", disks: [a]}}, terminationGracePeriodSeconds: 1.5, livenessProbe: {tcpSocket: {port: []}}, schedulerName: null}}`, []string{
			"spec.template.domain.cpu: Invalid value: is the number 4 where an object is expected",
			`spec.template.domain.devices.autoattachMemBalloon: Invalid value: is the text "yes" where true or false is expected`,
			`spec.template.domain.devices.disks[0]: Invalid value: is the text "a" where an object is expected`,
			`spec.template.domain.memory.guest: Invalid value: is the text "lots" where a quantity such as 500m or 4Gi is expected`,
			"spec.template.livenessProbe.tcpSocket.port: Invalid value: is a list where a number or a text is expected",
			"spec.template.nodeSelector[a]: Invalid value: is the number 1 where a text is expected",
			"spec.template.schedulerName: Invalid value: is nothing where a text is expected",
			"spec.template.terminationGracePeriodSeconds: Invalid value: is the number 1.5 where a whole number is expected",
			"spec.template.tolerations: Invalid value: is an object where a list is expected",
		}},
		"a quantity with a huge exponent": {`{template: {domain: {memory: {guest: 1e99999999}}}}`, []string{
			`spec.template.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`,
		}},
		"what is missing": {`{template: {domain: {machine: {}, devices: {watchdog: {i6300esb: {}}}}, volumes: [{persistentVolumeClaim: {}}], topologySpreadConstraints: [{maxSkew: 1}]}}`, []string{
			"spec.template.domain.devices.watchdog.name: Required value: a virtual machine without it is rejected",
			"spec.template.topologySpreadConstraints[0].topologyKey: Required value: a virtual machine without it is rejected",
			"spec.template.topologySpreadConstraints[0].whenUnsatisfiable: Required value: a virtual machine without it is rejected",
			"spec.template.volumes[0].persistentVolumeClaim.claimName: Required value: a virtual machine without it is rejected",
			"spec.template.volumes[0].name: Required value: a virtual machine without it is rejected",
		}},
		"what fills nothing": {`{template: {domain: {cpu: {dedicatedCpuPlacement: false, cores: 0, model: ""}}, tolerations: [], nodeSelector: {}}}`, []string{
			"spec.template.domain.cpu.cores: Invalid value: " + nothing,
			"spec.template.domain.cpu.dedicatedCpuPlacement: Invalid value: " + nothing,
			"spec.template.domain.cpu.model: Invalid value: " + nothing,
			"spec.template.nodeSelector: Invalid value: " + nothing,
			"spec.template.tolerations: Invalid value: " + nothing,
		}},
		"zeroes that count": {`{template: {terminationGracePeriodSeconds: 0, tolerations: [{key: ""}], nodeSelector: {a: ""}, domain: {devices: {autoattachMemBalloon: false}}}}`, nil},
		"identities": {`{template: {hostname: a, domain: {firmware: {uuid: b, serial: c}, chassis: {serial: d}, devices: {interfaces: [{name: e, macAddress: "02:00:00:00:00:01"}]}}}}`, []string{
			"spec.template.hostname: Forbidden: every virtual machine needs one of its own",
			"spec.template.domain.firmware.uuid: Forbidden: every virtual machine needs one of its own",
			"spec.template.domain.firmware.serial: Forbidden: every virtual machine needs one of its own",
			"spec.template.domain.chassis.serial: Forbidden: every virtual machine needs one of its own",
			"spec.template.domain.devices.interfaces[0].macAddress: Forbidden: every virtual machine needs one of its own",
		}},
		"an architecture for architectures": {`{match: {architectures: [arm64]}, template: {architecture: arm64}}`, []string{
			"spec.template.architecture: Forbidden: defaults for some architectures cannot choose the architecture: leave out spec.match.architectures",
		}},
		"selectors that there cannot be": {`{match: {namespaceSelector: {matchLabels: {"a b": c}}, objectSelector: {matchExpressions: [{key: a, operator: Near}]}}, template: {schedulerName: s}}`, []string{
			`spec.match.namespaceSelector: Invalid value: key: Invalid value: "a b": `,
			`spec.match.objectSelector: Invalid value: "Near" is not a valid label selector operator`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			object := siteDefaults(t, "a", test.spec)
			defaults, errs := mutators.NewSiteDefaults(&object)
			if (defaults == nil) != (len(errs) > 0) {
				t.Errorf("defaults %v with errors %v", defaults, errs)
			}
			checkErrors(t, test.want, errs)
		})
	}
}

// checkErrors compares errors with how they begin.
func checkErrors(t *testing.T, want []string, got field.ErrorList) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("want %d errors, got %d: %v", len(want), len(got), got)
		return
	}
	for i := range want {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			t.Errorf("want the error\n%s\ngot\n%s", want[i], got[i])
		}
	}
}
