package domain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/platform"
)

const small = `
metadata: {name: db, namespace: shop, uid: u}
spec:
  architecture: amd64
  domain:
    cpu: {cores: 2, sockets: 1, threads: 1, maxSockets: 2, model: host-model}
    memory: {guest: 1Gi}
    devices:
      disks: [{name: root, disk: {bus: virtio}, cache: writeback}]
      interfaces: [{name: default, masquerade: {}}]
  networks: [{name: default, pod: {}}]
  volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]
`

func instance(t testing.TB, text string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict([]byte(text), vmi); err != nil {
		t.Fatal(err)
	}
	return vmi
}

func convert(vmi *v1.VirtualMachineInstance, host *domain.Assumptions) (*domain.Result, error) {
	in := &domain.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{}), Host: host, Trace: true}
	return domain.NewBaseConverter(domain.ArchitectureOf(in)).Convert(in)
}

// TestSources holds that values have the field or the assumption that they are made from.
func TestSources(t *testing.T) {
	vmi, host, err := domain.Preview(instance(t, small), &domain.Assumptions{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := convert(vmi, host)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	result.Element().Walk(func(path, _ string, source domain.Source) { got[path] = source.Field + source.Assumption })
	for path, want := range map[string]string{
		"name":                                 "metadata.name",
		"cpu/topology@cores":                   "spec.domain.cpu.cores",
		"cpu/topology@sockets":                 "spec.domain.cpu.maxSockets",
		"devices/disk/driver@cache":            "spec.domain.devices.disks[0].cache",
		"devices/disk/source@file":             "spec.volumes[0]",
		"devices/interface/mac@address":        "podMACs",
		"devices/interface/model@type":         "spec.domain.devices.interfaces[0].model",
		"devices/controller[1]@model":          "spec.domain.devices.disableHotplug",
		"devices/channel/target@name":          "",
		"memory":                               "spec.domain.memory.guest",
		"devices/memballoon@freePageReporting": "spec.domain.devices.autoattachMemBalloon",
	} {
		if source, found := got[path]; !found || source != want {
			t.Errorf("the source of %s is %q (found %v), want %q", path, source, found, want)
		}
	}
}

// TestBounds holds that instances with too many elements are rejected before they are converted.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"sockets", "cpu: {sockets: 200000}", "spec.domain.cpu: 200000 sockets, 1 cores and 1 threads are more than 4096 vCPUs"},
		{"an overflow", "cpu: {sockets: 4294967295, cores: 4294967295, threads: 4294967295}", "spec.domain.cpu: 4294967295 sockets, 4294967295 cores and 4294967295 threads are more than 4096 vCPUs"},
		{"maxSockets", "cpu: {sockets: 1, cores: 2, maxSockets: 4000}", "spec.domain.cpu.maxSockets: 4000 sockets, 2 cores and 1 threads are more than 4096 vCPUs"},
		{"a CPU limit", "resources: {limits: {cpu: 5k}}", "spec.domain.cpu: 5000 sockets, 1 cores and 1 threads are more than 4096 vCPUs"},
		{"I/O threads", "{ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 4000000000}}", "spec.domain.ioThreads.supplementalPoolThreadCount: 4000000000 is more than 4096 I/O threads, or than 65536 of all disks"},
	} {
		vmi := instance(t, "spec: {domain: {devices: {}}}")
		if err := yaml.Unmarshal([]byte(c.spec), &vmi.Spec.Domain); err != nil {
			t.Fatal(err)
		}
		_, err := convert(vmi, &domain.Assumptions{})
		var failed *domain.Error
		if !errors.As(err, &failed) || failed.Stage != domain.StageBounds || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
		if _, _, err := domain.Preview(vmi, &domain.Assumptions{}); err == nil || err.Error() != c.want {
			t.Errorf("%s: the preview has the error %v", c.name, err)
		}
	}
}

// TestReplacedStep holds that a hypervisor can replace a step and add others.
func TestReplacedStep(t *testing.T) {
	converter := domain.NewBaseConverter("amd64")
	converter.SerialDeviceConverter = func(*domain.Build) error { return nil }
	converter.ExtraConfigurators = []domain.Configurator{func(b *domain.Build) error {
		b.Domain.Features.PMU = &domain.DomainFeatureState{State: "off"}
		return nil
	}}
	result, err := converter.Convert(&domain.Input{VMI: instance(t, small), Facts: platform.Defaults(platform.Settings{}), Host: &domain.Assumptions{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Domain.Devices.Serials) != 0 || result.Domain.Features.PMU == nil {
		t.Errorf("serial ports %v, PMU %v", result.Domain.Devices.Serials, result.Domain.Features.PMU)
	}
}

func TestDiff(t *testing.T) {
	read := func(text string) *domain.Element {
		e, err := domain.ParseElement(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	before := read(`<domain type="kvm"><metadata><x/></metadata><name>a</name><devices><disk><alias name="ua-a"/><driver cache="none"/></disk><disk><alias name="ua-b"/></disk></devices></domain>`)
	after := read(`<domain type="hyperv"> <name>a</name><devices><disk><alias name="ua-b"/></disk><disk><driver cache="writeback"/><alias name="ua-a"/></disk><tpm/></devices></domain>`)
	var got []string
	for _, d := range domain.Diff(before, after) {
		got = append(got, d.Path+" "+d.Before+" "+d.After)
	}
	want := []string{"@type kvm hyperv", "devices/disk[0]/driver@cache none writeback", "devices/tpm  present"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if same := domain.Diff(before, before); len(same) != 0 {
		t.Errorf("a document differs from itself: %v", same)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "the document has no element"},
		{"no XML", "<a", "not an XML document: XML syntax error on line 1: unexpected EOF"},
		{"depth", strings.Repeat("<a>", 40), "the document has more than 100000 elements, or a depth of more than 32"},
		{"elements", "<a>" + strings.Repeat("<b/>", 100_001), "the document has more than 100000 elements, or a depth of more than 32"},
	} {
		if _, err := domain.ParseElement(strings.NewReader(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

// FuzzConvert holds that no instance panics, and that no domain exceeds the bounds.
func FuzzConvert(f *testing.F) {
	f.Add([]byte(small), []byte("{}"))
	f.Add([]byte("spec: {domain: {devices: {disks: [{name: a}], gpus: [{}], hostDevices: [{}]}, cpu: {dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}}}}"), []byte("{cpuSet: [0, 1], numa: [{id: 0, cores: [[0, 1]]}]}"))
	f.Add([]byte("spec: {domain: {ioThreadsPolicy: supplementalPool, features: {hypervPassthrough: {}}, memory: {maxGuest: 1Gi}, devices: {}}}"), []byte("{env: {PCI_RESOURCE_: ','}}"))
	f.Fuzz(func(t *testing.T, object, assumed []byte) {
		vmi, host := &v1.VirtualMachineInstance{}, &domain.Assumptions{}
		if yaml.Unmarshal(object, vmi) != nil || yaml.Unmarshal(assumed, host) != nil {
			return
		}
		check := func(vmi *v1.VirtualMachineInstance, host *domain.Assumptions) {
			result, err := convert(vmi, host)
			if err != nil {
				return
			}
			if v := result.Domain.VCPU.Value; v > domain.MaxVCPUs || result.Domain.IOThreads > domain.MaxIOThreads+uint(len(vmi.Spec.Domain.Devices.Disks)) {
				t.Errorf("%d vCPUs, %d I/O threads", v, result.Domain.IOThreads)
			}
			result.Element().Clean()
		}
		check(vmi, host)
		if previewed, complete, err := domain.Preview(vmi, host); err == nil {
			check(previewed, complete)
		}
	})
}

// TestFromElement: the domain of a document is the one that it was made from.
func TestFromElement(t *testing.T) {
	result, err := convert(instance(t, small), &domain.Assumptions{})
	if err != nil {
		t.Fatal(err)
	}
	document := result.Domain.Element()
	document.Children = append(document.Children, &domain.Element{Name: "unknown", Text: "x"})
	if diff := cmp.Diff(result.Domain, domain.FromElement(document)); diff != "" {
		t.Error(diff)
	}
}
