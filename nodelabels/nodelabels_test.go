package nodelabels_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/platform"
)

const (
	domainKVM = `<domainCapabilities><domain>kvm</domain><arch>x86_64</arch><vcpu max='710'/>
<os supported='yes'><enum name='firmware'><value>bios</value><value>efi</value></enum><loader supported='yes'><enum name='secure'><value>no</value><value>yes</value></enum></loader></os>
<cpu><mode name='host-passthrough' supported='yes'/><mode name='host-model' supported='yes'><model fallback='forbid'>Skylake</model><vendor>Intel</vendor></mode>
<mode name='custom' supported='yes'><model usable='yes'>Penryn</model><model usable='no'>EPYC</model></mode></cpu>
<devices><tpm supported='yes'><enum name='backendModel'><value>emulator</value></enum></tpm><filesystem supported='no'><enum name='driverType'><value>virtiofs</value></enum></filesystem></devices>
<features><hyperv supported='yes'/><sev supported='yes'><maxESGuests>0</maxESGuests></sev></features></domainCapabilities>`
	hostAMD64 = `<capabilities><host><cpu><arch>x86_64</arch></cpu></host><guest><arch name='x86_64'><machine>q35</machine></arch></guest><guest><arch name='aarch64'><machine>virt</machine></arch></guest></capabilities>`
	baseline  = `<cpu><feature policy='require' name='vmx'/><feature policy='disable' name='mpx'/></cpu>`
)

func documents(t testing.TB, texts ...string) nodelabels.Documents {
	t.Helper()
	var d nodelabels.Documents
	for _, text := range texts {
		document, err := nodelabels.ParseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Add(document); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func facts(t *testing.T, gates ...string) *platform.Facts {
	t.Helper()
	f := platform.Defaults(platform.Settings{})
	configuration := f.Configuration.DeepCopy()
	configuration.DeveloperConfiguration.FeatureGates = gates
	changed := *f
	changed.Configuration = configuration
	return &changed
}

func TestKubeVirt(t *testing.T) {
	node := &nodelabels.Node{Architecture: "amd64", Documents: documents(t, domainKVM, hostAMD64, baseline), RealtimeRuntime: "-1"}
	got, err := nodelabels.KubeVirt(node, facts(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"cpu-feature.node.kubevirt.io/vmx", "cpu-model-migration.node.kubevirt.io/EPYC", "cpu-model-migration.node.kubevirt.io/Penryn",
		"cpu-model.node.kubevirt.io/Penryn", "cpu-vendor.node.kubevirt.io/Intel", "host-model-cpu.node.kubevirt.io/Skylake",
		"kubevirt.io/realtime", "kubevirt.io/sev", "machine-type.node.kubevirt.io/q35", "machine-type.node.kubevirt.io/virt",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got.Labels))); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	remarks := []nodelabels.Remark{{Subject: "machine-type.node.kubevirt.io/virt", Text: "the machine type is of another architecture: the node runs no virtual machine of amd64 with it"}}
	if diff := cmp.Diff(remarks, got.Remarks); diff != "" {
		t.Errorf("remarks (-want +got):\n%s", diff)
	}
}

// TestInvalidKeys holds that labels which no API server accepts have a remark.
func TestInvalidKeys(t *testing.T) {
	changed := strings.Replace(domainKVM, "<vendor>Intel</vendor>", "<vendor>Zhaoxin Shanghai</vendor>", 1)
	got, err := nodelabels.KubeVirt(&nodelabels.Node{Architecture: "amd64", Documents: documents(t, changed, hostAMD64, baseline)}, facts(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Remarks) != 2 || got.Remarks[1].Subject != "cpu-vendor.node.kubevirt.io/Zhaoxin Shanghai" || !strings.Contains(got.Remarks[1].Text, "no label on this node at all") {
		t.Errorf("remarks %+v", got.Remarks)
	}
}

func TestKubeVirtErrors(t *testing.T) {
	for _, tc := range []struct{ name, domain, host, baseline, want string }{
		{"no domain capabilities", "", hostAMD64, baseline, "no domain capabilities"},
		{"no capabilities", domainKVM, "", baseline, "no capabilities of the host"},
		{"no baseline", domainKVM, hostAMD64, "", "no baseline of the CPU"},
		{"no host model", strings.Replace(domainKVM, "<model fallback='forbid'>Skylake</model>", "", 1), hostAMD64, baseline, "cpu/mode: the mode host-model has no model"},
		{"guests of SEV-ES", strings.Replace(domainKVM, "<maxESGuests>0", "<maxESGuests>many", 1), hostAMD64, baseline, `features/sev/maxESGuests: "many" is no number`},
		{"frequency", domainKVM, strings.Replace(hostAMD64, "</arch></cpu>", "</arch><counter name='tsc' frequency='fast'/></cpu>", 1), baseline, `the frequency "fast" is no number`},
		{"scaling", domainKVM, strings.Replace(hostAMD64, "</arch></cpu>", "</arch><counter name='tsc' frequency='1' scaling='maybe'/></cpu>", 1), baseline, `the scaling "maybe" is neither`},
	} {
		node := &nodelabels.Node{Architecture: "amd64"}
		for _, text := range []string{tc.domain, tc.host, tc.baseline} {
			if text == "" {
				continue
			}
			document, err := nodelabels.ParseDocument([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := node.Add(document); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := nodelabels.KubeVirt(node, facts(t)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestOn holds what KubeVirt does to labels that exist.
func TestOn(t *testing.T) {
	computed := &nodelabels.KubeVirtLabels{Labels: map[string]string{"kubevirt.io/tdx": "true"}}
	before := map[string]string{"a": "b", "kubevirt.io/sev-custom": "mine", "cpu-vendor.node.kubevirt.io/Old": "true", "kvm.node.virtward.io/tpm": "true"}
	for _, tc := range []struct {
		name                string
		before, annotations map[string]string
		want                map[string]string
	}{
		{"own and foreign ones", before, nil, map[string]string{"a": "b", "cpu-vendor.node.kubevirt.io/Old": "true", "kvm.node.virtward.io/tpm": "true", "kubevirt.io/tdx": "true"}},
		{"a node to skip", before, map[string]string{"node-labeller.kubevirt.io/skip-node": "false"}, before},
		{"a node without labels", nil, nil, nil},
	} {
		got, err := computed.On(tc.before, tc.annotations)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != (tc.want == nil) {
			t.Errorf("%s: error %v, labels (-want +got):\n%s", tc.name, err, diff)
		}
	}
}

func TestDocuments(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"another root", "<domain/>", "the element <domain> is none of libvirt's"},
		{"no element", "", "the document has no element"},
		{"no end", "<cpu>", "not an XML document"},
		{"too large", strings.Repeat(" ", nodelabels.MaxDocument+1), "more than 1048576"},
	} {
		if _, err := nodelabels.ParseDocument([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
	d := documents(t, domainKVM, `<domainCapabilities><arch>aarch64</arch></domainCapabilities>`)
	if d.Foreign["aarch64"] == nil {
		t.Error("domain capabilities of another architecture are not foreign")
	}
	again, _ := nodelabels.ParseDocument([]byte(domainKVM))
	if err := d.Add(again); err == nil || err.Error() != "two documents have the element <domainCapabilities>" {
		t.Errorf("error %v", err)
	}
}

// labellers are those of the registry, of one form for each hypervisor.
func labellers(t testing.TB, architecture string) []nodelabels.Named {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	named, err := registry.Labellers(architecture)
	if err != nil {
		t.Fatal(err)
	}
	return named
}

func TestOwn(t *testing.T) {
	one := resource.MustParse("1k")
	ready := func() *nodelabels.Facts {
		return &nodelabels.Facts{
			Architecture: "amd64",
			Devices:      map[string]nodelabels.Device{"kvm": {Present: true, Access: nodelabels.Works}, "tun": {Present: true}},
			Allocatable:  corev1.ResourceList{"devices.kubevirt.io/kvm": one, "devices.kubevirt.io/vhost-net": one},
			Documents:    documents(t, domainKVM),
			CPU:          nodelabels.ParseCPUInfo([]byte("processor : 0\nflags : fpu vmx hypervisor\n\nprocessor : 1\nflags : svm\n")),
		}
	}
	all := map[string]string{
		"hypervisor.node.virtward.io/kvm": "ready", "hypervisor.node.virtward.io/mshv": "no-device",
		"device.node.virtward.io/kvm": "ready", "device.node.virtward.io/mshv": "no-device", "device.node.virtward.io/tun": "no-resource",
		"device.node.virtward.io/vhost-net": "no-device", "device.node.virtward.io/vhost-vsock": "no-device",
		"kvm.node.virtward.io/max-vcpus": "710", "kvm.node.virtward.io/host-passthrough": "true", "kvm.node.virtward.io/host-model": "true",
		"kvm.node.virtward.io/efi": "true", "kvm.node.virtward.io/tpm": "true", "kvm.node.virtward.io/secure-boot": "true",
		"kvm.node.virtward.io/sev": "true", "kvm.node.virtward.io/hyperv": "true",
		"cpu.node.virtward.io/virtualization": "vmx", "cpu.node.virtward.io/nested": "true",
	}
	got := nodelabels.Own(ready(), labellers(t, "amd64"))
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	for key := range got {
		if !nodelabels.IsOwn(key) {
			t.Errorf("%s is not below the prefix", key)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*nodelabels.Facts)
		want   string
	}{
		{"without the device", func(f *nodelabels.Facts) { delete(f.Devices, "kvm") }, "no-device"},
		{"with a device that fails", func(f *nodelabels.Facts) {
			f.Devices["kvm"] = nodelabels.Device{Present: true, Access: nodelabels.Fails}
		}, "no-driver"},
		{"without a device plugin", func(f *nodelabels.Facts) { f.Allocatable = corev1.ResourceList{} }, "no-resource"},
		{"with domains of QEMU only", func(f *nodelabels.Facts) {
			f.Documents = documents(t, strings.Replace(domainKVM, "<domain>kvm", "<domain>qemu", 1))
		}, "no-domains"},
		{"without libvirt", func(f *nodelabels.Facts) { f.Documents = nodelabels.Documents{} }, "ready"},
	} {
		node := ready()
		tc.change(node)
		got := nodelabels.Own(node, labellers(t, "amd64"))
		if got["hypervisor.node.virtward.io/kvm"] != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got["hypervisor.node.virtward.io/kvm"], tc.want)
		}
		for key := range got {
			if strings.HasPrefix(key, "kvm.") {
				t.Errorf("%s: the label %s", tc.name, key)
			}
		}
	}
}

// TestArchitectures holds that each architecture has its own capabilities.
func TestArchitectures(t *testing.T) {
	const gic = `<domainCapabilities><domain>kvm</domain><arch>aarch64</arch><features><gic supported='yes'><enum name='version'><value>2</value><value>3</value></enum></gic><s390-pv supported='yes'/><tdx supported='yes'/></features></domainCapabilities>`
	for architecture, want := range map[string]map[string]string{
		"amd64": {"kvm.node.virtward.io/tdx": "true"}, "arm64": {"kvm.node.virtward.io/gic": "3"}, "s390x": {"kvm.node.virtward.io/secure-execution": "true"},
	} {
		node := &nodelabels.Facts{Architecture: architecture, Devices: map[string]nodelabels.Device{"kvm": {Present: true}}, Documents: documents(t, gic)}
		got := nodelabels.Own(node, labellers(t, architecture))
		maps.DeleteFunc(got, func(key, _ string) bool { return !strings.HasPrefix(key, "kvm.") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", architecture, diff)
		}
	}
}

// TestLayers holds that a row of a more specific layer replaces, and that one without a function removes.
func TestLayers(t *testing.T) {
	form, _ := platform.HypervisorByName("kvm")
	labeller := nodelabels.NewBaseLabeller(form, "amd64", nil, nodelabels.Layer{Capabilities: []nodelabels.Capability{
		{Name: "efi", Of: func(*nodelabels.Facts) string { return "mine" }}, {Name: "tpm"}, {Name: "new", Of: func(*nodelabels.Facts) string { return "x y" }},
	}})
	node := &nodelabels.Facts{Documents: documents(t, domainKVM), Devices: map[string]nodelabels.Device{"kvm": {Present: true}}}
	got := labeller.Capabilities(node)
	if _, found := got["tpm"]; found || got["efi"] != "mine" || got["new"] != "x y" {
		t.Errorf("capabilities %v", got)
	}
	if labels := nodelabels.Own(node, []nodelabels.Named{{Hypervisor: "kvm", Labeller: labeller}}); labels["kvm.node.virtward.io/new"] != "" {
		t.Error("a value that no label can have is not left out")
	}
}

func TestBoundOfLabels(t *testing.T) {
	form, _ := platform.HypervisorByName("kvm")
	var layer nodelabels.Layer
	for i := range 2 * nodelabels.MaxLabels {
		layer.Capabilities = append(layer.Capabilities, nodelabels.Capability{Name: fmt.Sprintf("c%03d", i), Of: func(*nodelabels.Facts) string { return "1" }})
	}
	node := &nodelabels.Facts{Documents: documents(t, domainKVM), Devices: map[string]nodelabels.Device{"kvm": {Present: true}}}
	if got := nodelabels.Own(node, []nodelabels.Named{{Hypervisor: "kvm", Labeller: nodelabels.NewBaseLabeller(form, "amd64", nil, layer)}}); len(got) != nodelabels.MaxLabels {
		t.Errorf("%d labels", len(got))
	}
}

// TestThisMachine reads the processor of the machine that runs the test.
func TestThisMachine(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	if cpu := nodelabels.ParseCPUInfo(text); len(cpu.Flags) == 0 {
		t.Error("no flags")
	}
}

// FuzzDocuments holds that no document panics, and that labels are valid.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(domainKVM), []byte(hostAMD64), []byte(baseline), []byte("flags: vmx"))
	all := labellers(f, "amd64")
	f.Fuzz(func(t *testing.T, domain, host, baseline, cpu []byte) {
		node := &nodelabels.Node{Architecture: "amd64"}
		for _, text := range [][]byte{domain, host, baseline} {
			if document, err := nodelabels.ParseDocument(text); err == nil {
				_ = node.Add(document)
			}
		}
		_, _ = node.Documents.Architecture()
		_, _ = nodelabels.KubeVirt(node, platform.Defaults(platform.Settings{}))
		own := &nodelabels.Facts{
			Architecture: "amd64", Documents: node.Documents, CPU: nodelabels.ParseCPUInfo(cpu),
			Devices: map[string]nodelabels.Device{"kvm": {Present: true}},
		}
		labels := nodelabels.Own(own, all)
		if len(labels) > nodelabels.MaxLabels {
			t.Fatalf("%d labels", len(labels))
		}
		for key, value := range labels {
			if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 || !nodelabels.IsOwn(key) {
				t.Fatalf("%q=%q", key, value)
			}
		}
	})
}
