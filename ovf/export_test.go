package ovf

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/randomness"
)

// tideTemplate has a part of each kind that is exported, and one of each kind that is not.
const tideTemplate = `
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: tide-table, namespace: shop, labels: {app: tide}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
spec:
  message: |
    Tide for ${NAME} <&> "quoted"
  parameters:
  - {name: NAME, generate: expression, from: "tide-[a-z0-9]{8}", description: The name}
  - {name: SIZE, value: "20Gi", type: quantity, enum: [20Gi, 40Gi], displayName: Size}
  - {name: CORES, value: "2", type: integer, minimum: "1", maximum: "8", required: true}
  - {name: ADMIN_PASSWORD, value: hunter2}
  - {name: ZONE, required: true}
  virtualMachine:
    apiVersion: kubevirt.io/v1
    kind: VirtualMachine
    metadata: {name: "${NAME}", namespace: shop, labels: {zone: "${ZONE}"}, annotations: {note: "é\uffff<"}}
    spec:
      runStrategy: Halted
      preference: {name: ubuntu, revisionName: ubuntu-1}
      dataVolumeTemplates:
      - metadata: {name: "${NAME}-root"}
        spec:
          sourceRef: {kind: DataSource, name: ubuntu, namespace: images}
          storage: {storageClassName: fast, accessModes: [ReadWriteMany], resources: {requests: {storage: "${SIZE}"}}}
      - metadata: {name: "${NAME}-data"}
        spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 5Gi}}}}
      template:
        metadata: {labels: {app: tide}}
        spec:
          architecture: amd64
          hostname: "${NAME}"
          priorityClassName: high
          accessCredentials: [{sshPublicKey: {source: {secret: {secretName: keys}}, propagationMethod: {noCloud: {}}}}]
          networks: [{name: front, pod: {}}, {name: sea, multus: {networkName: lab/sea}}]
          domain:
            cpu: {sockets: 2, cores: "${{CORES}}", threads: 1}
            memory: {guest: 3Gi}
            firmware: {uuid: 6a1a24a1-4061-4607-8bf4-a3963d0c5895, serial: "7", bootloader: {efi: {secureBoot: true}}}
            features: {smm: {enabled: true}}
            devices:
              tpm: {}
              disks:
              - {name: root, bootOrder: 2, serial: S1, disk: {bus: virtio}}
              - {name: data, bootOrder: 1, disk: {bus: scsi}}
              - {name: tools, cdrom: {bus: sata}}
              - {name: scratch, disk: {}}
              - {name: cloud, disk: {}}
              - {name: settings, disk: {}}
              interfaces:
              - {name: front, masquerade: {}, macAddress: "02:00:00:00:00:01"}
              - {name: sea, bridge: {}, model: e1000e}
          volumes:
          - {name: root, dataVolume: {name: "${NAME}-root"}}
          - {name: data, dataVolume: {name: "${NAME}-data"}}
          - {name: tools, persistentVolumeClaim: {claimName: tools}}
          - {name: scratch, emptyDisk: {capacity: 2Gi}}
          - name: cloud
            cloudInitNoCloud:
              secretRef: {name: cloud}
              userData: |
                #cloud-config
                hostname: ${NAME}
                password: hunter2
                ssh_pwauth: true
                users:
                - name: admin
                  hashed_passwd: $6$x
                  lock_passwd: false
                - name: ops
                  passwd: ${ADMIN_PASSWORD}
                write_files:
                - path: /etc/key
                  content: |
                    -----BEGIN OPENSSH PRIVATE KEY-----
                    x
          - {name: settings, configMap: {name: settings}}
`

func templateOf(t testing.TB, text string) *v1beta1.VirtualMachineTemplate {
	t.Helper()
	found := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(text), found); err != nil {
		t.Fatal(err)
	}
	return found
}

func exportOf(t testing.TB, template *v1beta1.VirtualMachineTemplate, options ExportOptions) (*Export, []byte) {
	t.Helper()
	e, err := NewExport(template, options)
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]Image{}
	for i, c := range e.Contents {
		images[c.Volume] = Image{Size: int64(1000 + i), Capacity: max(c.Requested, 1<<30)}
	}
	written, err := e.Write(images)
	if err != nil {
		t.Fatal(err)
	}
	return e, written
}

// imported is the template that an import of a descriptor makes.
func imported(t testing.TB, written []byte) (*Mapping, *Template) {
	t.Helper()
	d, err := Parse(written)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Map(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	networks := map[string]string{}
	for _, n := range m.Networks {
		networks[n.Name] = n.Name
	}
	template, err := m.Template(TemplateOptions{Namespace: "shop", Networks: networks})
	if err != nil {
		t.Fatal(err)
	}
	if findings := templates.Check(&template.Spec, randomness.Source{}); templates.Denied(findings) {
		t.Fatalf("the template is not valid: %v", findings)
	}
	return m, template
}

// flat are the values of a template by their paths.
func flat(t testing.TB, template *v1beta1.VirtualMachineTemplate) map[string]string {
	t.Helper()
	raw, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	var tree object
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "status")
	found := map[string]string{}
	var walk func(value any, at string)
	walk = func(value any, at string) {
		switch v := value.(type) {
		case object:
			for key, below := range v {
				if strings.ContainsAny(key, "./") {
					walk(below, at+"["+key+"]")
				} else {
					walk(below, strings.TrimPrefix(at+"."+key, "."))
				}
			}
		case []any:
			for i, below := range v {
				walk(below, fmt.Sprintf("%s[%d]", at, i))
			}
		default:
			if v != nil {
				found[at] = fmt.Sprint(v)
			}
		}
	}
	walk(tree, "")
	return found
}

// holdsRoundTrip exports and imports a template. Each field that differs must be named by a warning, or be the source of a volume.
func holdsRoundTrip(t *testing.T, template *v1beta1.VirtualMachineTemplate) []Warning {
	t.Helper()
	e, written := exportOf(t, template, ExportOptions{})
	if _, again := exportOf(t, template, ExportOptions{}); string(again) != string(written) {
		t.Error("two exports differ")
	}
	m, back := imported(t, written)
	for _, w := range m.Warnings {
		if w.Code == TemplateIgnored {
			t.Fatalf("the template is not read: %s", w.Message)
		}
	}
	before, after := flat(t, template), flat(t, back.VirtualMachineTemplate)
	var different []string
	for at, value := range before {
		if after[at] != value {
			different = append(different, at)
		}
	}
	for at := range after {
		if _, exists := before[at]; !exists {
			different = append(different, at)
		}
	}
	slices.Sort(different)
	for _, at := range different {
		named := strings.Contains(at, "].spec.source.") || strings.HasSuffix(at, "resources.requests.storage")
		for _, w := range e.Warnings {
			named = named || w.Code == FieldRemoved && strings.HasPrefix(at, w.Element)
			if w.Code == FieldRemoved && strings.Contains(w.Message, "not exported") || strings.Contains(w.Message, "each virtual machine gets its own copy") {
				named = named || strings.Contains(at, "devices.disks[") || strings.Contains(at, "dataVolumeTemplates[") // of the volume
			}
		}
		if !named && at != "spec.virtualMachine.metadata.namespace" {
			t.Errorf("%s differs without a warning: %q became %q", at, before[at], after[at])
		}
	}
	// What was imported is exported without a loss.
	second, rewritten := exportOf(t, back.VirtualMachineTemplate, ExportOptions{KeepUserData: true})
	for _, w := range second.Warnings {
		if w.Code == FieldRemoved && !strings.HasSuffix(w.Element, ".source") {
			t.Errorf("the second export removes %s", w.Element)
		}
	}
	_, third := imported(t, rewritten)
	if diff := cmp.Diff(flat(t, back.VirtualMachineTemplate), flat(t, third.VirtualMachineTemplate)); diff != "" {
		t.Errorf("the second round trip changes the template: %s", diff)
	}
	return e.Warnings
}

// TestRoundTrip holds that an import gets the template back, except for the fields that warnings name.
func TestRoundTrip(t *testing.T) {
	template := templateOf(t, tideTemplate)
	var got []string
	for _, w := range holdsRoundTrip(t, template) {
		got = append(got, string(w.Code)+" "+w.Element)
	}
	want := []string{
		"FieldRemoved spec.virtualMachine.spec.preference.revisionName",
		"FieldRemoved spec.virtualMachine.spec.template.spec.priorityClassName",
		"FieldRemoved spec.virtualMachine.spec.template.spec.accessCredentials",
		"FieldRemoved spec.virtualMachine.spec.template.spec.domain.firmware.uuid",
		"FieldRemoved spec.virtualMachine.spec.template.spec.domain.firmware.serial",
		"FieldRemoved spec.virtualMachine.spec.template.spec.domain.devices.interfaces[0].macAddress",
		"FieldRemoved spec.virtualMachine.spec.template.spec.domain.devices.disks[0].serial",
		"FieldRemoved spec.virtualMachine.spec.template.spec.volumes[2]",
		"FieldRemoved spec.virtualMachine.spec.template.spec.volumes[4].cloudInitNoCloud.secretRef",
		"FieldRemoved spec.virtualMachine.spec.template.spec.volumes[4].cloudInitNoCloud.userData",
		"FieldRemoved spec.virtualMachine.spec.template.spec.volumes[5]",
		"FieldRemoved spec.virtualMachine.spec.dataVolumeTemplates[0].spec.source",
		"FieldRemoved spec.virtualMachine.spec.dataVolumeTemplates[0].spec.storage.storageClassName",
		"FieldRemoved metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
		"FieldRemoved spec.parameters[3].value",
		"OnlyVirtward spec.virtualMachine.spec.template.spec.volumes[4]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, written := exportOf(t, template, ExportOptions{})
	for _, secret := range []string{"hunter2", "PRIVATE KEY", "hashed_passwd", "02:00:00", "6a1a24a1", "secretName", "fast", "namespace"} {
		if strings.Contains(string(written), secret) {
			t.Errorf("the descriptor has %q", secret)
		}
	}
	for _, kept := range []string{"lock_passwd", "ssh_pwauth", "passwd: ${ADMIN_PASSWORD}"} {
		if !strings.Contains(string(written), kept) {
			t.Errorf("the descriptor has no %q", kept)
		}
	}
}

// TestRoundTripProperty does the same with random templates.
func TestRoundTripProperty(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable
		template := templateOf(t, tideTemplate)
		vm, err := decodeObject(template.Spec.VirtualMachine.Raw)
		if err != nil {
			t.Fatal(err)
		}
		spec := child(vm, "spec")
		guest := child(spec, "template", "spec")
		domain := child(guest, "domain")
		sometimes := func(change func()) {
			if random.IntN(2) == 0 {
				change()
			}
		}
		sometimes(func() { delete(spec, "preference") })
		sometimes(func() { spec["preference"] = object{"name": "windows.11.virtio"} })
		sometimes(func() {
			spec["instancetype"] = object{"name": "u1.small"}
			delete(domain, "cpu")
			delete(domain, "memory")
		})
		sometimes(func() { domain["cpu"] = object{"sockets": 1 + random.IntN(8), "cores": 1 + random.IntN(8)} })
		sometimes(func() { delete(domain, "firmware"); delete(domain, "features") })
		sometimes(func() { delete(child(domain, "devices"), "tpm") })
		sometimes(func() {
			guest["networks"] = []any{object{"name": "sea", "multus": object{"networkName": "lab/sea"}}}
			child(domain, "devices")["interfaces"] = []any{object{"name": "sea", "sriov": object{}}}
		})
		sometimes(func() { guest["nodeSelector"] = object{"zone": "${ZONE}"} })
		sometimes(func() {
			disks, _ := child(domain, "devices")["disks"].([]any)
			random.Shuffle(4, func(i, j int) { disks[i], disks[j] = disks[j], disks[i] })
		})
		sometimes(func() { guest["terminationGracePeriodSeconds"] = random.IntN(1000) })
		sometimes(func() { template.Spec.Message = "" })
		sometimes(func() { template.Name = "T.with_odd-name" })
		raw, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		template.Spec.VirtualMachine = &runtime.RawExtension{Raw: raw}
		if template.Name != "tide-table" {
			template.Name = "odd"
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { holdsRoundTrip(t, template) })
	}
}

// TestEdited holds that what a user changes in a descriptor has priority over the template in it.
func TestEdited(t *testing.T) {
	_, written := exportOf(t, templateOf(t, tideTemplate), ExportOptions{})
	for name, c := range map[string]struct{ before, after, says string }{
		"the memory":           {"<rasd:VirtualQuantity>3072<", "<rasd:VirtualQuantity>4096<", "changed: the memory"},
		"the firmware":         {`"efi"`, `"bios"`, "changed: the firmware"},
		"a disk":               {`ovf:capacity="2147483648"`, `ovf:capacity="3221225472"`, "changed: the disks"},
		"a property":           {`ovf:value="20Gi"`, `ovf:value="40Gi"`, "changed: the properties"},
		"a network":            {"<rasd:Connection>lab/sea<", "<rasd:Connection>pod<", "changed: the network adapters"},
		"the annotation":       {"<Annotation>Tide", "<Annotation>Ebb", "changed: the annotation"},
		"a license":            {"<AnnotationSection>", "<EulaSection><Info/><License>x</License></EulaSection><AnnotationSection>", "changed: the licenses"},
		"the version":          {"template.kubevirt.io/v1beta1&#34;,&#34;metadata", "template.kubevirt.io/v9&#34;,&#34;metadata", "of template.kubevirt.io/v9"},
		"text that is no JSON": {"{&#34;kind", "{x", "cannot be read"},
		"a new field":          {"{&#34;kind", "{&#34;other&#34;:1,&#34;kind", "unknown field"},
		"an invalid template":  {"${{CORES}}", "${{GONE}}", "the template is not valid: spec.virtualMachine"},
		"a reference":          {"&#34;emptyDisk&#34;:{&#34;capacity&#34;:&#34;2Gi&#34;}", "&#34;secret&#34;:{&#34;secretName&#34;:&#34;a&#34;}", "what an export removes"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse([]byte(change(t, string(written), []string{c.before, c.after})))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Map(d, Options{})
			if err != nil || len(m.Rejections) > 0 {
				t.Fatal(err, m.Rejections)
			}
			var found string
			for _, w := range m.Warnings {
				if w.Code == TemplateIgnored {
					found = w.Message
				}
			}
			if !strings.Contains(found, c.says) || m.embedded != nil {
				t.Errorf("got %q, want %q", found, c.says)
			}
			holds(t, m)
		})
	}
}

// TestRenamedFiles holds that other names of files are no change of the template.
func TestRenamedFiles(t *testing.T) {
	_, written := exportOf(t, templateOf(t, tideTemplate), ExportOptions{})
	m, template := imported(t, []byte(strings.ReplaceAll(string(written), "tide-table-root.vmdk", "other.vmdk")))
	if m.embedded == nil || template.Claims[0].Href != "other.vmdk" {
		t.Errorf("got %+v, %+v", m.Warnings, template.Claims)
	}
}

// TestImportedNetworks holds that the networks of an embedded template are mapped as others are.
func TestImportedNetworks(t *testing.T) {
	_, written := exportOf(t, templateOf(t, tideTemplate), ExportOptions{})
	for _, c := range []struct {
		networks   map[string]string
		want, says string
	}{
		{nil, "", "networks without a mapping: lab/sea"},
		{map[string]string{"lab/sea": "pod"}, "", "2 network adapters"},
		{map[string]string{"lab/sea": "none"}, `[{"name":"front","pod":{}}]`, ""},
		{map[string]string{"lab/sea": "a/b"}, `[{"name":"front","pod":{}},{"multus":{"networkName":"a/b"},"name":"sea"}]`, ""},
		{map[string]string{"lab/sea": "pod", "pod": "a/b"}, `[{"multus":{"networkName":"a/b"},"name":"front"},{"name":"sea","pod":{}}]`, ""},
	} {
		m, err := Map(parsed(t, string(written)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		template, err := m.Template(TemplateOptions{Namespace: "shop", Networks: c.networks})
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s", err, c.says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		vm, err := decodeObject(template.Spec.VirtualMachine.Raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(child(vm, "spec", "template", "spec")["networks"])
		if err != nil || string(got) != c.want {
			t.Errorf("got %s, %v", got, err)
		}
		if findings := templates.Check(&template.Spec, randomness.Source{}); templates.Denied(findings) {
			t.Errorf("the template is not valid: %v", findings)
		}
	}
}

// TestStandard holds what programs read that do not know the template: the standard elements.
func TestStandard(t *testing.T) {
	_, written := exportOf(t, templateOf(t, tideTemplate), ExportOptions{})
	m, err := Map(parsed(t, string(written)), Options{plain: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.System
	if len(s.Disks) != 3 || s.Disks[0].DiskID != "data" || !s.Disks[0].Blank || s.Disks[1].Href != "tide-table-root.vmdk" || s.Disks[2].CapacityBytes != 2<<30 {
		t.Errorf("got the disks %+v", s.Disks)
	}
	if s.CPU.VCPUs != 4 || s.CPU.CoresPerSocket != 2 || s.MemoryMiB != 3072 || s.Firmware != firmwareSecure || !s.TPM || s.OS.Preference != "ubuntu" {
		t.Errorf("got %+v", s)
	}
	if len(s.CDROMs) != 1 || s.CDROMs[0].Href != "tide-table-tools.iso" || len(s.NICs) != 2 || s.NICs[1].Network != "lab/sea" || s.NICs[1].Adapter != "VmxNet3" {
		t.Errorf("got %+v %+v", s.CDROMs, s.NICs)
	}
	holds(t, m)
}

// TestPreferences holds that the operating system of a preference becomes the same preference again.
func TestPreferences(t *testing.T) {
	for preference, want := range map[string]string{
		"windows.2k25": "", "windows.2k22": "", "windows.2k19": "", "windows.2k16": "", "windows.2k12": "", "windows.2k8": "", "windows.2k3": "", "windows.11": "", "windows.10": "", "windows.7": "",
		"windows.xp": "", "rhel.7": "", "rhel.9": "", "rhel.10": "", "centos.stream9": "", "ubuntu": "", "debian": "", "fedora": "", "opensuse.leap": "", "sles": "", "oraclelinux": "", "linux": "",
		"windows.11.virtio": "windows.11", "rhel.9.realtime": "rhel.9", "rhel": "legacy", "own": "legacy", "linux.efi": "linux", "rhel.9999": "legacy",
	} {
		g := guestTypeOf(preference)
		if want == "" {
			want = preference
		}
		if got := guestOf(OS{CIMID: g.cim, VMwareType: g.vmware, Description: g.description}, "", firmwareBIOS, ""); got.preference != want {
			t.Errorf("%s: got %s of %+v", preference, got.preference, g)
		}
	}
}

// TestWritten compares whole descriptors, and lets xmllint read them if it is installed.
func TestWritten(t *testing.T) {
	windows := `
metadata: {name: win}
spec:
  virtualMachine:
    spec:
      instancetype: {kind: VirtualMachineInstancetype, name: own}
      preference: {name: windows.2k22.virtio}
      dataVolumeTemplates: [{metadata: {name: win}, spec: {source: {http: {url: "http://example.com/w"}}, storage: {}}}]
      template: {spec: {domain: {devices: {disks: [{name: c, disk: {}}], interfaces: [{name: a, masquerade: {}}]}}, networks: [{name: a, pod: {}}], volumes: [{name: c, dataVolume: {name: win}}]}}
`
	for name, c := range map[string]struct {
		text    string
		options ExportOptions
	}{
		"linux":   {tideTemplate, ExportOptions{}},
		"windows": {windows, ExportOptions{Hardware: &Hardware{CPUs: 4, Memory: 8 << 30}}},
		"nothing": {"{metadata: {name: n}, spec: {virtualMachine: {spec: {template: {spec: {domain: {devices: {autoattachPodInterface: false}}}}}}}}", ExportOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			e, got := exportOf(t, templateOf(t, c.text), c.options)
			file := filepath.Join("testdata", "written", name+".ovf")
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: go test -update writes it", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
			m, _ := imported(t, got)
			if m.embedded == nil {
				t.Error("the template is ignored", m.Warnings, e.Warnings)
			}
			if tool, err := exec.LookPath("xmllint"); err == nil {
				if out, err := exec.Command(tool, "--noout", file).CombinedOutput(); err != nil {
					t.Errorf("xmllint: %s", out)
				}
			}
		})
	}
}

// TestDevices holds that volumes without a device are disks, and that file systems are not exported.
func TestDevices(t *testing.T) {
	e, written := exportOf(t, templateOf(t, `
metadata: {name: n}
spec:
  virtualMachine:
    spec:
      dataVolumeTemplates:
      - {metadata: {name: a}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {resources: {requests: {storage: 2Gi}}}}}
      - {metadata: {name: b}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}
      template:
        spec:
          domain: {devices: {filesystems: [{name: b, virtiofs: {}}]}}
          volumes: [{name: a, dataVolume: {name: a}}, {name: b, dataVolume: {name: b}}]
`), ExportOptions{})
	if len(e.Contents) != 1 || e.Contents[0].Volume != "a" || e.Contents[0].Requested != 2<<30 || strings.Contains(string(written), "virtiofs") {
		t.Errorf("got %+v", e.Contents)
	}
	if m, _ := imported(t, written); m.embedded == nil {
		t.Error(m.Warnings)
	}
}

// TestNotExported holds the errors of templates that cannot be exported.
func TestNotExported(t *testing.T) {
	nics := strings.Repeat("{name: a, bridge: {}},", 11)
	for want, text := range map[string]string{
		"the template has no VirtualMachine":                  "{metadata: {name: n}, spec: {}}",
		"has no spec.virtualMachine.spec.template":            "{metadata: {name: n}, spec: {virtualMachine: {spec: {}}}}",
		"interfaces: the virtual machine has more than 10 ne": "{metadata: {name: n}, spec: {virtualMachine: {spec: {template: {spec: {domain: {devices: {interfaces: [" + nics + "]}}}}}}}}",
		"the template is not valid: ":                         "{metadata: {name: n}, spec: {virtualMachine: {metadata: {name: '${GONE}'}, spec: {template: {spec: {domain: {}}}}}}}",
	} {
		if _, err := NewExport(templateOf(t, text), ExportOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	e, err := NewExport(templateOf(t, tideTemplate), ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(map[string]Image{"root": {Capacity: 1}}); err == nil || !strings.Contains(err.Error(), "the volume tools has no image") {
		t.Errorf("got %v", err)
	}
}

// TestSecretsOfUserData holds which texts of a #cloud-config stay.
func TestSecretsOfUserData(t *testing.T) {
	for text, want := range map[string]string{
		"apt: {proxy: http://a:b@c}\nhostname: h":                                  "hostname: h\n",
		"apt: {proxy: http://c:3128/a@b}":                                          "apt: {proxy: http://c:3128/a@b}",
		"landscape: {client: {registration_key: a, tags: b}}":                      "landscape: {client: {tags: b}}\n",
		"wireguard: {interfaces: [{name: w, content: \"[I]\\n PrivateKey = a\"}]}": "wireguard: {interfaces: [{name: w}]}\n",
		"runcmd: [date]\nold: &a x\npassword: *a":                                  "",
	} {
		data := object{"userData": "#cloud-config\n" + text}
		(&stripper{}).cloudInit(data, machineAt())
		if got := strings.TrimPrefix(strings.TrimPrefix(text0(data, "userData"), "#cloud-config\n"), "apt: {}\n"); got != want && got != "\n"+want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

// FuzzUserData holds that no text makes the removal of secrets panic, and that a second removal finds nothing.
func FuzzUserData(f *testing.F) {
	for _, text := range []string{"#cloud-config\npassword: a\n", "#!/bin/sh", "#cloud-config\n- passwd: &a x\n- *a\n", "#cloud-config\nusers: [{passwd: a}]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data := object{"userData": text}
		(&stripper{}).cloudInit(data, machineAt())
		again := &stripper{}
		if again.cloudInit(data, machineAt()); len(again.Warnings) > 0 && data["userData"] != nil {
			t.Errorf("the second time, %v is removed of %q", again.Warnings, data["userData"])
		}
	})
}

// TestExportOfUntypedParameter exports a template whose size depends on a parameter without a type and a default value.
func TestExportOfUntypedParameter(t *testing.T) {
	template := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: db}
spec:
  parameters: [{name: NAME, required: true}, {name: SIZE, required: true}]
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec:
      runStrategy: Halted
      dataVolumeTemplates:
      - metadata: {name: "${NAME}-root"}
        spec: {source: {pvc: {namespace: team, name: root}}, storage: {resources: {requests: {storage: "${SIZE}"}}}}
      template:
        spec:
          domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}
          volumes: [{name: root, dataVolume: {name: "${NAME}-root"}}]
`), template); err != nil {
		t.Fatal(err)
	}
	export, err := NewExport(template, ExportOptions{})
	if err != nil || len(export.Contents) != 1 || export.Contents[0].Volume != "root" || export.Contents[0].Requested != 0 {
		t.Errorf("%+v, %v", export, err)
	}
}
