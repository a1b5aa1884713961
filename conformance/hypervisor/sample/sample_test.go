package sample_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance/hypervisor"
	"github.com/virtward/virtward/conformance/hypervisor/sample"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/nodetuning"
	"github.com/virtward/virtward/platform"
)

func TestSample(t *testing.T) {
	hypervisor.Run(t, sample.Hypervisor(), hypervisor.Named(sample.Form()), hypervisor.Cases(
		hypervisor.Case{
			Name: "a TPM", Rule: "sample-tpm", VMI: vmi("amd64", `memory: {guest: 1Gi}, devices: {tpm: {}}`),
			Want: []string{`sample-tpm: spec.domain.devices.tpm: Unsupported value: sample has no TPM`},
		},
		hypervisor.Case{Name: "no TPM", Rule: "sample-tpm", VMI: vmi("amd64", `memory: {guest: 1Gi}, cpu: {cores: 2}`)},
		hypervisor.Case{
			Name: "many cores", Rule: "sample-cores", VMI: vmi("s390x", `memory: {guest: 1Gi}, cpu: {cores: 65}`),
			Want: []string{`sample-cores: spec.domain.cpu.cores: Invalid value: 65: sample has at most 64 cores in a socket`},
		},
		hypervisor.Case{Name: "as many cores as there can be", Rule: "sample-cores", VMI: vmi("s390x", `memory: {guest: 1Gi}, cpu: {cores: 64}`)},
		hypervisor.Case{
			Name: "hugepages on arm64", Rule: "sample-arm64-hugepages", VMI: vmi("arm64", `memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}`),
			Want: []string{`sample-arm64-hugepages: spec.domain.memory.hugepages: Unsupported value: "2Mi": sample has hugepages on amd64 and s390x only`},
		},
		hypervisor.Case{Name: "hugepages on amd64", Rule: "sample-arm64-hugepages", VMI: vmi("amd64", `memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}`)},
		hypervisor.Case{Name: "no hugepages on arm64", Rule: "sample-arm64-hugepages", VMI: vmi("arm64", `memory: {guest: 1Gi}`)},
		hypervisor.Case{
			Name: "BIOS", Rule: "sample-amd64-bios", VMI: vmi("amd64", `memory: {guest: 1Gi}, firmware: {bootloader: {bios: {}}}`),
			Want: []string{`sample-amd64-bios: spec.domain.firmware.bootloader.bios: Invalid value: the next sample boots from EFI only`},
		},
		hypervisor.Case{Name: "no bootloader", Rule: "sample-amd64-bios", VMI: vmi("amd64", `memory: {guest: 1Gi}, firmware: {}`)},
		hypervisor.Case{
			Name: "realtime while the gate is off", Rule: "sample-realtime", VMI: vmi("amd64", realtime),
			Want: []string{`sample-realtime: spec.domain.cpu.realtime: Invalid value: realtime guests are an experiment on sample: it needs KubeVirt's feature gate ConfigurableHypervisor, which is off in this cluster`},
		},
		hypervisor.Case{
			Name: "realtime while the gate is on", Rule: "sample-realtime", VMI: vmi("amd64", realtime),
			Configuration: `{developerConfiguration: {featureGates: [ConfigurableHypervisor]}}`,
		},
	))
}

// TestLauncher holds that a hypervisor can add rows to the tables of the launcher, and remove them.
func TestLauncher(t *testing.T) {
	facts := platform.Defaults(platform.Settings{}).WithHypervisor(sample.Form())
	registry, err := hypervisors.NewRegistry(sample.Hypervisor())
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := registry.Launcher(sample.Name, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	instance := &v1.VirtualMachineInstance{}
	instance.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "default"}}
	overhead := renderer.GetMemoryOverhead(instance, facts)
	if got := launcher.Readable(&overhead.Total); got != "304Mi" {
		t.Errorf("overhead %s", got)
	}
	var devices []string
	for _, request := range renderer.DeviceRequests(instance, facts) {
		devices = append(devices, string(request.Resource))
	}
	if diff := cmp.Diff([]string{"devices.kubevirt.io/tun", "devices.kubevirt.io/sample", "devices.kubevirt.io/sample-monitor"}, devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// TestDomain holds that a hypervisor can add a configurator.
func TestDomain(t *testing.T) {
	registry, err := hypervisors.NewRegistry(sample.Hypervisor())
	if err != nil {
		t.Fatal(err)
	}
	converter, err := registry.Converter(sample.Name, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	instance := &v1.VirtualMachineInstance{}
	instance.Spec.Architecture = "amd64"
	instance.Spec.Domain.Memory = &v1.Memory{Guest: new(resource.MustParse("1Gi"))}
	instance, host, err := domain.Preview(instance, &domain.Assumptions{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := converter.Convert(&domain.Input{VMI: instance, Facts: platform.Defaults(platform.Settings{}).WithHypervisor(sample.Form()), Host: host})
	if err != nil {
		t.Fatal(err)
	}
	channels := result.Domain.Devices.Channels
	if result.Domain.Type != "sample" || len(channels) == 0 || channels[len(channels)-1].Target.Name != "org.sample.monitor" {
		t.Errorf("a domain of the type %s with the channels %v", result.Domain.Type, channels)
	}
}

// TestNodes holds that a node is labelled with the devices that pods request, and that a hypervisor can add and remove capabilities.
func TestNodes(t *testing.T) {
	registry, err := hypervisors.NewRegistry(sample.Hypervisor())
	if err != nil {
		t.Fatal(err)
	}
	labellers, err := registry.Labellers("amd64", sample.Form())
	if err != nil {
		t.Fatal(err)
	}
	document, err := nodelabels.ParseDocument([]byte(`<domainCapabilities><domain>sample</domain><arch>x86_64</arch><devices><filesystem supported='yes'><enum name='driverType'><value>virtiofs</value></enum></filesystem></devices><features><snapshots supported='yes'/></features></domainCapabilities>`))
	if err != nil {
		t.Fatal(err)
	}
	node := &nodelabels.Facts{
		Documents:   nodelabels.Documents{Domain: document},
		Devices:     map[string]nodelabels.Device{"sample": {Present: true}, "sample-monitor": {Present: true}},
		Allocatable: corev1.ResourceList{"devices.kubevirt.io/sample": resource.MustParse("1k")},
	}
	want := map[string]string{
		"hypervisor.node.virtward.io/sample": "ready", "sample.node.virtward.io/snapshots": "true",
		"device.node.virtward.io/sample": "ready", "device.node.virtward.io/sample-monitor": "no-resource",
		"device.node.virtward.io/tun": "no-device", "device.node.virtward.io/vhost-vsock": "no-device",
	}
	if diff := cmp.Diff(want, nodelabels.Own(node, labellers)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestTuner holds that the memory limit has the overhead of the hypervisor, and that it knows the threads of its guests.
func TestTuner(t *testing.T) {
	registry, err := hypervisors.NewRegistry(sample.Hypervisor())
	if err != nil {
		t.Fatal(err)
	}
	tuner, err := registry.Tuner(sample.Form(), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	instance := &v1.VirtualMachineInstance{}
	guest := resource.MustParse("1Gi")
	instance.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
	instance.Spec.Domain.CPU = &v1.CPU{DedicatedCPUPlacement: true, IsolateEmulatorThread: true, Realtime: &v1.Realtime{}}
	facts := platform.Defaults(platform.Settings{}).WithHypervisor(sample.Form())
	renderer, err := registry.Launcher(sample.Name, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	overhead := renderer.GetMemoryOverhead(instance, facts)
	if limit, err := tuner.AdjustResources(instance, facts); err != nil || limit != 1<<30+overhead.Total.Value() {
		t.Errorf("limit %d, error %v", limit, err)
	}
	got := tuner.HandleHousekeeping(instance, &nodetuning.Pod{CPUs: []int{0, 1}, Threads: []nodetuning.Thread{{ID: 1, Name: "main"}, {ID: 2, Name: "vcpu-0", CPUs: []int{0}}}})
	if diff := cmp.Diff(nodetuning.Housekeeping{CPUs: []int{1}, Threads: []int{1}}, got); diff != "" {
		t.Errorf("housekeeping (-want +got):\n%s", diff)
	}
}

const realtime = `cpu: {cores: 2, dedicatedCpuPlacement: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}`

// vmi is one whose domain says something.
func vmi(architecture, domain string) string {
	return `{metadata: {name: vm, namespace: default}, spec: {architecture: ` + architecture + `, domain: {` + domain + `}}}`
}
