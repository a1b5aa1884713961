package effective_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

func siteDefaults(t testing.TB, name, spec string) *policyv1alpha1.VirtualMachineDefaults {
	t.Helper()
	object := &policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: name}}
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
		objects = append(objects, *siteDefaults(t, string(rune('a'+i)), "template: "+template))
	}
	site, notes := mutators.NewSite(objects...)
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	return site.For(nil)
}

// ofSite are the paths that the site filled, without the root.
func ofSite(changes []provenance.Change) []string {
	var found []string
	for _, c := range changes {
		if mutators.IsSiteLayer(c.Layer) {
			found = append(found, strings.TrimPrefix(strings.TrimPrefix(c.Path, "spec.template."), "spec."))
		}
	}
	return found
}

// everything is a template with something of each kind.
const everything = `{
	schedulerName: site, terminationGracePeriodSeconds: 60,
	nodeSelector: {pool: vms}, tolerations: [{key: vms}], affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}},
	domain: {cpu: {sockets: 2, model: host-passthrough}, memory: {guest: 2Gi}, ioThreadsPolicy: auto, machine: {type: q35}, devices: {rng: {}}}}`

// bareVMI says nothing of its size.
func bareVMI() *build.VMIBuilder {
	return build.VMI("db").With(func(spec *v1.VirtualMachineInstanceSpec) { spec.Domain.Memory = nil })
}

// scheduling are the fields of it that a VMI does not get without its VM.
var scheduling = []string{
	"nodeSelector",
	"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
	"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey",
	"tolerations[0].key",
}

func fieldsOf(groups ...[]string) map[string]bool {
	all := map[string]bool{}
	for _, group := range groups {
		for _, name := range group {
			all[name] = true
		}
	}
	return all
}

func TestWhatTheSitePersists(t *testing.T) {
	small := &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "small"}
	small.Spec = instancetypev1beta1.VirtualMachineInstancetypeSpec{
		CPU: instancetypev1beta1.CPUInstancetype{Guest: 1}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("1Gi")},
	}
	pinned := &instancetypes.Instancetype{Kind: small.Kind, Name: "pinned", Spec: *small.Spec.DeepCopy()}
	pinned.Spec.NodeSelector = map[string]string{"size": "small"}
	patient := &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "patient"}
	seconds := int64(300)
	patient.Spec.PreferredTerminationGracePeriodSeconds = &seconds
	patient.Spec.Machine = &instancetypev1beta1.MachinePreferences{PreferredMachineType: "pc-q35-rhel9"}

	own := []string{"schedulerName", "terminationGracePeriodSeconds"}
	sized := []string{"domain.cpu.sockets", "domain.memory.guest"}
	determined := []string{"domain.cpu.model", "domain.ioThreadsPolicy"}
	devices := []string{"domain.machine.type", "domain.devices.rng"}
	bare := func() *build.VMBuilder { return build.VMOf(bareVMI()) }

	for name, test := range map[string]struct {
		vm     *v1.VirtualMachine
		change func(*effective.Input)
		// persisted are the fields in the VM, started those that only its VMI gets.
		persisted, started map[string]bool
	}{
		"a new VM": {vm: bare().Obj(), persisted: fieldsOf(own, scheduling, sized, determined, devices)},
		"a VM that arrived": {
			vm: bare().Obj(), change: func(in *effective.Input) { in.PostMutation = true },
			started: fieldsOf(own, sized, determined, []string{"domain.devices.rng"}),
		},
		"a VM of the cluster": {
			vm: bare().Obj(), change: func(in *effective.Input) { in.VM.ResourceVersion = "1" },
			started: fieldsOf(own, sized, determined, []string{"domain.devices.rng"}),
		},
		"an update": {
			vm: bare().Obj(), change: func(in *effective.Input) { in.OldVM = in.VM.DeepCopy() },
			started: fieldsOf(own, sized, determined, []string{"domain.devices.rng"}),
		},
		"a VM with an instancetype": {
			vm: bare().Instancetype("small").Obj(), change: func(in *effective.Input) { in.Instancetype = small },
			persisted: fieldsOf([]string{"terminationGracePeriodSeconds"}, scheduling, devices),
			started:   fieldsOf([]string{"schedulerName"}, determined),
		},
		"a VM whose instancetype has a nodeSelector": {
			vm: bare().Instancetype("pinned").Obj(), change: func(in *effective.Input) { in.Instancetype = pinned },
			persisted: fieldsOf([]string{"terminationGracePeriodSeconds"}, scheduling[1:], devices),
			started:   fieldsOf([]string{"schedulerName"}, determined),
		},
		"a VM whose instancetype is missing": {
			vm: bare().Instancetype("small").Obj(), persisted: fieldsOf([]string{"terminationGracePeriodSeconds"}, scheduling[1:], devices),
		},
		"a VM with a preference": {
			vm: bare().Preference("patient").Obj(), change: func(in *effective.Input) { in.Preference = patient },
			persisted: fieldsOf([]string{"schedulerName"}, scheduling, sized, determined, []string{"domain.devices.rng"}),
		},
		"a VM whose preference is missing": {
			vm:        bare().Preference("patient").Obj(),
			persisted: fieldsOf([]string{"schedulerName"}, scheduling, []string{"domain.memory.guest", "domain.ioThreadsPolicy"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := effective.Input{VM: test.vm, Site: siteOf(t, everything)}
			if test.change != nil {
				test.change(&in)
			}
			verdict := evaluate(t, in)
			if len(verdict.Conflicts) > 0 {
				t.Errorf("conflicts: %v", verdict.Conflicts)
			}
			short := func(paths []string) map[string]bool {
				found := map[string]bool{}
				for _, p := range paths {
					found[strings.TrimPrefix(p, "spec.")] = true
				}
				return found
			}
			persisted, all := short(ofSite(verdict.Persist)), short(ofSite(verdict.Changes))
			if diff := cmp.Diff(orNone(test.persisted), persisted); diff != "" {
				t.Errorf("persisted (-want +got):\n%s", diff)
			}
			for name := range persisted {
				delete(all, name)
			}
			if diff := cmp.Diff(orNone(test.started), all); diff != "" {
				t.Errorf("only in the VMI (-want +got):\n%s", diff)
			}
			checkThatKubeVirtTakes(t, in, verdict)
		})
	}
}

func orNone(fields map[string]bool) map[string]bool {
	if fields == nil {
		return map[string]bool{}
	}
	return fields
}

// checkThatKubeVirtTakes expands what was persisted as KubeVirt will: nothing may be in conflict, and nothing is
// left for the site to fill in the VM.
func checkThatKubeVirtTakes(t *testing.T, in effective.Input, verdict *effective.Verdict) {
	t.Helper()
	stored := in
	stored.VM = verdict.VM
	again := evaluate(t, stored)
	if len(again.Conflicts) > 0 {
		t.Errorf("what was persisted is in conflict: %v", again.Conflicts)
	}
	if left := ofSite(again.Persist); len(left) > 0 {
		t.Errorf("completing twice persists %v", left)
	}
	if diff := cmp.Diff(verdict.Spec, again.Spec); diff != "" {
		t.Errorf("what runs differs once it is persisted (-before +after):\n%s", diff)
	}
}

func TestVMIGetsTheSite(t *testing.T) {
	owned := func(apiVersion, kind string) *v1.VirtualMachineInstance {
		vmi := bareVMI().Obj()
		yes := true
		vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "db", Controller: &yes}}
		return vmi
	}
	rest := []string{
		"schedulerName", "terminationGracePeriodSeconds", "domain.cpu.sockets", "domain.cpu.model", "domain.memory.guest",
		"domain.ioThreadsPolicy", "domain.machine.type", "domain.devices.rng",
	}
	for name, test := range map[string]struct {
		vmi  *v1.VirtualMachineInstance
		want map[string]bool
	}{
		"by itself":        {bareVMI().Obj(), fieldsOf(rest, scheduling)},
		"of a VM":          {owned("kubevirt.io/v1", "VirtualMachine"), fieldsOf(rest)},
		"of a replica set": {owned("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet"), fieldsOf(rest, scheduling)},
		"of another VM":    {owned("example.com/v1", "VirtualMachine"), fieldsOf(rest, scheduling)},
	} {
		t.Run(name, func(t *testing.T) {
			in := effective.Input{VMI: test.vmi, Site: siteOf(t, everything)}
			verdict := evaluate(t, in)
			if diff := cmp.Diff(test.want, fieldsOf(ofSite(verdict.Changes))); diff != "" {
				t.Errorf("filled (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(verdict.Changes, verdict.Persist); diff != "" {
				t.Errorf("a VMI persists its whole completion (-changes +persist):\n%s", diff)
			}
			if layers := effective.Layers(verdict.Changes); layers[0] != "site/a" {
				t.Errorf("the layers are %v: the site comes first", layers)
			}
			if got := verdict.Spec.Domain.CPU; got.Model != "host-passthrough" || got.Cores != 0 || got.Sockets != 2 {
				t.Errorf("the built-in layers wrote over the site: %+v", got)
			}
			in.VMI = verdict.VMI
			if again := evaluate(t, in); len(again.Changes) > 0 {
				t.Errorf("completing twice changes %v", again.Changes)
			}
		})
	}
}

func TestVMIThatArrivesWithoutTheSite(t *testing.T) {
	site := siteOf(t, `{domain: {devices: {rng: {}}}, nodeSelector: {pool: vms}}`)
	complete := evaluate(t, effective.Input{VMI: build.VMI("db").Obj()}).VMI
	verdict := evaluate(t, effective.Input{VMI: complete, PostMutation: true, Site: site})
	want := map[string]string{
		"spec.domain.devices.rng": "the layer site/a sets this field, but the request does not have it",
		"spec.nodeSelector":       "the layer site/a sets this field, but the request does not have it",
	}
	got := map[string]string{}
	for _, f := range verdict.Findings {
		if f.Rule == "vmi-complete" {
			got[f.Error.Field] = f.Error.Detail
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if verdict.Allowed() {
		t.Error("it is allowed")
	}
	whole := evaluate(t, effective.Input{VMI: complete, Site: site}).VMI
	if verdict := evaluate(t, effective.Input{VMI: whole, PostMutation: true, Site: site}); !verdict.Allowed() {
		t.Errorf("with everything it is rejected: %v", verdict.Findings)
	}
}

// What a finding says of a value that the site wrote names the layer, and stays at the field.
func TestFindingsNameTheSite(t *testing.T) {
	site := siteOf(t, `{domain: {firmware: {bootloader: {bios: {}}}}}`)
	vm := build.VMOf(build.VMI("db").Architecture("arm64")).Obj()
	for _, arrived := range []bool{false, true} {
		verdict := evaluate(t, effective.Input{VM: vm, Site: site, PostMutation: arrived})
		found := false
		for _, f := range verdict.Findings {
			if f.Rule == "arm64-bios" {
				found = true
				if f.Layer != "site/a" || f.Error.Field != "spec.template.spec.domain.firmware.bootloader.bios" {
					t.Errorf("arrived %v: layer %q at %s", arrived, f.Layer, f.Error.Field)
				}
			}
		}
		if !found {
			t.Errorf("arrived %v: no finding: %v", arrived, verdict.Findings)
		}
	}
}

func TestSiteSelectsByTheLabelsOfTheTemplate(t *testing.T) {
	site, notes := mutators.NewSite(*siteDefaults(t, "a", `{match: {objectSelector: {matchLabels: {app: db}}}, template: {schedulerName: site}}`))
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	vm := build.VM("db").Obj()
	vm.Labels = map[string]string{"app": "db"}
	if got := evaluate(t, effective.Input{VM: vm, Site: site.For(nil)}).Spec.SchedulerName; got != "" {
		t.Errorf("selected by the VM's own labels: %q", got)
	}
	vm.Spec.Template.ObjectMeta.Labels = vm.Labels
	if got := evaluate(t, effective.Input{VM: vm, Site: site.For(nil)}).Spec.SchedulerName; got != "site" {
		t.Errorf("not selected by the labels of its template: %q", got)
	}
}

func TestSiteChoosesTheArchitecture(t *testing.T) {
	site := siteOf(t, `{architecture: arm64}`)
	verdict := evaluate(t, effective.Input{VM: build.VM("db").Obj(), Site: site})
	if verdict.Architecture != "arm64" || verdict.Spec.Domain.Machine.Type != "virt" {
		t.Errorf("completed for %s as %s", verdict.Architecture, verdict.Spec.Domain.Machine.Type)
	}
	want := map[string]string{"spec.template.spec.architecture": "site/a", "spec.template.spec.domain.machine.type": "arm64"}
	if diff := cmp.Diff(want, layersOf(verdict.Persist)); diff != "" {
		t.Errorf("persisted (-want +got):\n%s", diff)
	}
}

func TestCheckDefaults(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	for name, test := range map[string]struct {
		spec       string
		severities validators.Severities
		want       []string
	}{
		"in order":        {spec: `{template: {schedulerName: site, domain: {devices: {rng: {}}}, nodeSelector: {a: b}, tolerations: [{operator: Exists}]}}`},
		"what most set":   {spec: `{template: {domain: {cpu: {sockets: 1, maxSockets: 4}, memory: {guest: 2Gi, maxGuest: 8Gi}}, evictionStrategy: LiveMigrate, terminationGracePeriodSeconds: 60}}`},
		"only on its own": {spec: `{match: {architectures: [amd64]}, template: {domain: {firmware: {bootloader: {bios: {}}}}}}`},
		"not on every one": {spec: `{template: {domain: {firmware: {bootloader: {bios: {}}}}}}`, want: []string{
			"spec.template.domain.firmware.bootloader.bios: Invalid value: the rule arm64-bios rejects a virtual machine that gets this on kvm/arm64, mshv/arm64: Unsupported value: arm64 boots from EFI only",
		}},
		"with the rule off": {spec: `{template: {domain: {firmware: {bootloader: {bios: {}}}}}}`, severities: validators.Severities{"arm64-bios": validators.Warn}},
		"never": {spec: `{match: {hypervisors: [kvm], architectures: [amd64]}, template: {dnsPolicy: Somehow, domain: {devices: {inputs: [{name: a, type: tablet, bus: ps2}]}}}}`, want: []string{
			`spec.template.dnsPolicy: Invalid value: the rule dns-policy rejects a virtual machine that gets this on kvm/amd64: Unsupported value: "Somehow": `,
			`spec.template.domain.devices.inputs[0].bus: Invalid value: the rule device-input-bus rejects a virtual machine that gets this on kvm/amd64: Invalid value: "ps2": `,
		}},
		"half of a pair": {spec: `{match: {hypervisors: [kvm], architectures: [amd64]}, template: {networks: [{name: lan, pod: {}}]}}`, want: []string{
			"spec.template.networks[0].name: Invalid value: the rule ",
		}},
		"platforms that there are not": {spec: `{match: {hypervisors: [xen], architectures: [riscv64]}, template: {schedulerName: site}}`, want: []string{
			`spec.match.hypervisors[0]: Unsupported value: "xen": supported values: "kvm", "mshv"`,
			`spec.match.architectures[0]: Unsupported value: "riscv64": supported values: "amd64", "arm64", "s390x"`,
		}},
		"everything wrong at once": {spec: `{match: {hypervisors: [xen], namespaceSelector: {matchLabels: {a: "b c"}}}, template: {hostname: a}}`, want: []string{
			"spec.match.namespaceSelector.matchLabels: Invalid value: \"b c\": ",
			`spec.match.hypervisors[0]: Unsupported value: "xen": supported values: "kvm", "mshv"`,
			"spec.template.hostname: Forbidden: every virtual machine needs one of its own",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			object := siteDefaults(t, "a", test.spec)
			errs, err := pipeline(t).CheckDefaults(object, facts, test.severities)
			if err != nil {
				t.Fatal(err)
			}
			if len(errs) != len(test.want) {
				t.Fatalf("want %d errors, got %v", len(test.want), errs)
			}
			for i, want := range test.want {
				if got := errs[i].Error(); !strings.HasPrefix(got, want) {
					t.Errorf("want the error\n%s\ngot\n%s", want, got)
				}
			}
		})
	}
}

// FuzzSite holds the promises of completing for any defaults that can be read, and expects of the others no more than
// errors at their fields.
func FuzzSite(f *testing.F) {
	for _, template := range []string{
		everything, `{"architecture":"arm64","volumes":[{"name":"a","emptyDisk":{"capacity":"1Gi"}}]}`, `{"domain":{"cpu":{"maxSockets":1,"sockets":2}}}`,
		`{"domain":{"devices":{"inputs":[{"name":"a"}],"gpus":[{"name":"a","deviceName":"b"}],"hostDevices":[{"name":"c","claimName":"d"}]}}}`,
		`{"domain":{"firmware":{"bootloader":{"efi":{},"bios":{}}},"clock":{"utc":{},"timezone":"a"}},"livenessProbe":{"exec":{"command":["a",""]}}}`,
		`{"dnsConfig":{"nameservers":["a"],"options":[{"name":"a"}]},"affinity":{"nodeAffinity":{}},"accessCredentials":[{}]}`,
		`{"domain":{"memory":{"maxGuest":"1Gi","guest":"1","hugepages":{"pageSize":"2Mi"}},"resources":{"overcommitGuestOverhead":true}}}`,
	} {
		data, err := yaml.YAMLToJSON([]byte(template))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0))
	}
	p := pipeline(f)
	f.Fuzz(func(t *testing.T, template []byte, choice uint8) {
		object := &policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		object.Spec.Template.Raw = template
		facts := factsOf(t, choice)
		errs, err := p.CheckDefaults(object, facts, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range errs {
			if !strings.HasPrefix(err.Field, "spec.template") {
				t.Errorf("an error beside the template: %v", err)
			}
		}
		defaults, errs := mutators.NewSiteDefaults(object)
		if len(errs) > 0 {
			return
		}
		site := []mutators.SiteDefaults{*defaults}
		for _, vmi := range []*build.VMIBuilder{bareVMI(), build.Typical("db"), build.VMI("db").Topology(2, 1, 1)} {
			checkVMI(t, p, facts, site, vmi.Obj())
			checkVM(t, p, facts, site, build.VMOf(vmi).Obj())
		}
	})
}
