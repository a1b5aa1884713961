package mutators_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/build"
)

// complete fills a VMI for kvm, and returns what changed as "path=value" under the layer that did it.
func complete(t *testing.T, vmi *v1.VirtualMachineInstance, facts *platform.Facts) map[string]string {
	t.Helper()
	architecture := vmi.Spec.Architecture
	if architecture == "" {
		architecture = facts.DefaultArchitecture
	}
	provider, err := mutators.NewBaseDefaults(architecture, mutators.Layer{Name: "test"}, mutators.Layer{Name: "test/" + architecture})
	if err != nil {
		t.Fatal(err)
	}
	rec := provenance.NewRecorder("")
	if errs := provider.SetDefaultVirtualMachineInstance(facts, vmi, rec); len(errs) > 0 {
		t.Fatal(errs)
	}
	changes := map[string]string{}
	for _, c := range rec.Changes() {
		changes[c.Path] = text(c.Value)
	}
	return changes
}

func text(value any) string {
	switch v := value.(type) {
	case resource.Quantity:
		return v.String()
	case *resource.Quantity:
		return v.String()
	case *bool:
		return fmt.Sprint(*v)
	case *uint32:
		return fmt.Sprint(*v)
	case *v1.EvictionStrategy:
		return string(*v)
	}
	return fmt.Sprint(value)
}

func defaults() *platform.Facts { return platform.Defaults(platform.Settings{}) }

func TestFieldByField(t *testing.T) {
	const absent = "<absent>"
	watchdog := func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Devices.Watchdog = &v1.Watchdog{Name: "w"} }
	noMemory := func(s *v1.VirtualMachineInstanceSpec) { s.Domain.Memory = nil }
	for _, test := range []struct {
		name  string
		vmi   *build.VMIBuilder
		facts func(*platform.Facts)
		path  string
		want  string
	}{
		{"machine on amd64", build.VMI("a"), nil, "domain.machine.type", "q35"},
		{"machine on arm64", build.VMI("a").Architecture("arm64"), nil, "domain.machine.type", "virt"},
		{"machine on s390x", build.VMI("a").Architecture("s390x"), nil, "domain.machine.type", "s390-ccw-virtio"},
		{"architecture of the cluster", build.VMI("a"), func(f *platform.Facts) { f.DefaultArchitecture = "arm64" }, "architecture", "arm64"},
		{"the user's architecture stays", build.VMI("a").Architecture("arm64"), nil, "architecture", absent},

		{"disk bus on amd64", build.VMI("a").Disk("d", ""), nil, "domain.devices.disks[0].disk.bus", "sata"},
		{"disk bus on arm64", build.VMI("a").Architecture("arm64").Disk("d", ""), nil, "domain.devices.disks[0].disk.bus", "virtio"},
		{"disk bus on s390x", build.VMI("a").Architecture("s390x").Disk("d", ""), nil, "domain.devices.disks[0].disk.bus", "virtio"},
		{"the user's bus stays", build.VMI("a").Disk("d", "scsi"), nil, "domain.devices.disks[0].disk.bus", absent},
		{"a volume without a disk gets one", build.VMI("a").Volume("v", "x:1"), nil, "domain.devices.disks[0].name", "v"},
		{"on the default bus", build.VMI("a").Volume("v", "x:1"), nil, "domain.devices.disks[0].disk.bus", "sata"},
		{"a CD-ROM is read-only", build.VMI("a").With(cdrom), nil, "domain.devices.disks[0].cdrom.readonly", "true"},
		{"and its tray closed", build.VMI("a").With(cdrom), nil, "domain.devices.disks[0].cdrom.tray", "closed"},

		{"CPU model", build.VMI("a"), nil, "domain.cpu.model", "host-model"},
		{"CPU model of the cluster", build.VMI("a"), func(f *platform.Facts) { f.CPUModel = "EPYC" }, "domain.cpu.model", "EPYC"},
		{"CPU model on arm64 ignores the cluster's", build.VMI("a").Architecture("arm64"), func(f *platform.Facts) { f.CPUModel = "EPYC" }, "domain.cpu.model", "host-passthrough"},

		{"EFI on arm64", build.VMI("a").Architecture("arm64"), nil, "domain.firmware.bootloader.efi.secureBoot", "false"},
		{"no EFI beside BIOS on arm64", build.VMI("a").Architecture("arm64").With(bios), nil, "domain.firmware.bootloader.efi.secureBoot", absent},
		{"no firmware on amd64", build.VMI("a"), nil, "domain.firmware", absent},
		{"ACPI on amd64", build.VMI("a"), nil, "domain.features.acpi.enabled", "true"},
		{"no ACPI on s390x", build.VMI("a").Architecture("s390x"), nil, "domain.features.acpi.enabled", "false"},
		{"watchdog on amd64", build.VMI("a").With(watchdog), nil, "domain.devices.watchdog.i6300esb.action", "reset"},
		{"watchdog on s390x", build.VMI("a").Architecture("s390x").With(watchdog), nil, "domain.devices.watchdog.diag288.action", "reset"},

		{"sockets from the CPU limit", build.VMI("a").Limit("cpu", "2500m"), nil, "domain.cpu.sockets", "3"},
		{"the CPU request follows the limit", build.VMI("a").Limit("cpu", "2"), nil, "domain.resources.requests[cpu]", "2"},
		{"no memory request", build.VMI("a").Limit("memory", "2Gi"), nil, "domain.resources.requests[memory]", absent},
		{"the cluster's CPU request", build.VMI("a"), func(f *platform.Facts) { q := resource.MustParse("250m"); f.CPURequest = &q }, "domain.resources.requests[cpu]", "250m"},
		{"not with dedicated CPUs", build.VMI("a").With(dedicated), func(f *platform.Facts) { q := resource.MustParse("250m"); f.CPURequest = &q }, "domain.resources.requests[cpu]", absent},
		{"no topology beside the user's", build.VMI("a").Topology(0, 2, 0), nil, "domain.cpu.sockets", absent},

		{"guest memory from the limit", build.VMI("a").With(noMemory).Limit("memory", "3Gi"), nil, "domain.memory.guest", "3Gi"},
		{"guest memory from a huge page", build.VMI("a").With(hugepages("2Mi")), nil, "domain.memory.guest", "2Mi"},
		{"a page size with a huge exponent", build.VMI("a").With(hugepages("1e99999999")), nil, "domain.memory.guest", absent},
		{"a page size that is none", build.VMI("a").With(hugepages("big")), nil, "domain.memory.guest", absent},

		{"a moving tag is pulled always", build.VMI("a").Volume("v", "fedora"), nil, "volumes[0].containerDisk.imagePullPolicy", "Always"},
		{"latest too", build.VMI("a").Volume("v", "fedora:latest"), nil, "volumes[0].containerDisk.imagePullPolicy", "Always"},
		{"a fixed one if absent", build.VMI("a").Volume("v", "fedora@sha256:0"), nil, "volumes[0].containerDisk.imagePullPolicy", "IfNotPresent"},
		{"eviction strategy", build.VMI("a"), nil, "evictionStrategy", "None"},
		{"no network by itself", build.VMI("a").With(func(s *v1.VirtualMachineInstanceSpec) { no := false; s.Domain.Devices.AutoattachPodInterface = &no }), nil, "networks", absent},
		{"no network beside the user's", build.VMI("a").Interface("n", ""), nil, "networks", absent},

		{"room for sockets", build.VMI("a").Topology(2, 1, 1), nil, "domain.cpu.maxSockets", "8"},
		{"room for sockets on s390x", build.VMI("a").Architecture("s390x"), nil, "domain.cpu.maxSockets", "4"},
		{"none on arm64", build.VMI("a").Architecture("arm64"), nil, "domain.cpu.maxSockets", absent},
		{"none when staged", build.VMI("a"), func(f *platform.Facts) { f.LiveUpdate = false }, "domain.cpu.maxSockets", absent},
		{"the cluster's bound", build.VMI("a"), func(f *platform.Facts) { f.MaxCPUSockets = 10 }, "domain.cpu.maxSockets", "10"},
		{"the cluster's bound, raised to what is there", build.VMI("a").Topology(12, 1, 1), func(f *platform.Facts) { f.MaxCPUSockets = 10 }, "domain.cpu.maxSockets", "12"},
		{"512 vCPUs at most", build.VMI("a").Topology(8, 16, 2), nil, "domain.cpu.maxSockets", "16"},
		{"but not below what is there", build.VMI("a").Topology(40, 16, 2), nil, "domain.cpu.maxSockets", "40"},
		{"without overflow", build.VMI("a").Topology(2, 65536, 65536), nil, "domain.cpu.maxSockets", "2"},

		{"room for memory", build.VMI("a").Memory("2Gi"), nil, "domain.memory.maxGuest", "8Gi"},
		{"none on s390x", build.VMI("a").Architecture("s390x").Memory("2Gi"), nil, "domain.memory.maxGuest", absent},
		{"none on arm64", build.VMI("a").Architecture("arm64").Memory("2Gi"), nil, "domain.memory.maxGuest", absent},
		{"none below 1Gi", build.VMI("a").Memory("1022Mi"), nil, "domain.memory.maxGuest", absent},
		{"none when unaligned", build.VMI("a").Memory("1025Mi"), nil, "domain.memory.maxGuest", absent},
		{"none for realtime", build.VMI("a").Memory("2Gi").With(realtime), nil, "domain.memory.maxGuest", absent},
		{"none with launch security", build.VMI("a").Memory("2Gi").With(func(s *v1.VirtualMachineInstanceSpec) { s.Domain.LaunchSecurity = &v1.LaunchSecurity{} }), nil, "domain.memory.maxGuest", absent},
		{"the cluster's bound for memory", build.VMI("a").Memory("2Gi"), func(f *platform.Facts) { q := resource.MustParse("64Gi"); f.MaxGuest = &q }, "domain.memory.maxGuest", "64Gi"},
		{"which is too low for this guest", build.VMI("a").Memory("2Gi"), func(f *platform.Facts) { q := resource.MustParse("1Gi"); f.MaxGuest = &q }, "domain.memory.maxGuest", absent},

		{"a synthetic timer needs the synthetic interrupt controller", build.VMI("a").With(hypervOf(func(h *v1.FeatureHyperv) { h.SyNICTimer = &v1.SyNICTimer{} })), nil, "domain.features.hyperv.synic.enabled", "true"},
		{"which needs the virtual processor index", build.VMI("a").With(hypervOf(func(h *v1.FeatureHyperv) { h.SyNICTimer = &v1.SyNICTimer{} })), nil, "domain.features.hyperv.vpindex.enabled", "true"},
		{"an enlightened VMCS needs vmx", build.VMI("a").With(hypervOf(func(h *v1.FeatureHyperv) { h.EVMCS = &v1.FeatureState{} })), nil, "domain.cpu.features[0].policy", "require"},
		{"a requirement that was switched off stays off", build.VMI("a").With(hypervOf(func(h *v1.FeatureHyperv) {
			off := false
			h.EVMCS, h.VAPIC = &v1.FeatureState{}, &v1.FeatureState{Enabled: &off}
		})), nil, "domain.features.hyperv.vapic.enabled", absent},
		{"and its dependencies do not change", build.VMI("a").With(hypervOf(func(h *v1.FeatureHyperv) {
			off := false
			h.EVMCS, h.VAPIC = &v1.FeatureState{}, &v1.FeatureState{Enabled: &off}
		})), nil, "domain.cpu.features[0].name", absent},
		{"spinlocks have retries", build.VMI("a").With(hypervOf(func(h *v1.FeatureHyperv) { h.Spinlocks = &v1.FeatureSpinlocks{} })), nil, "domain.features.hyperv.spinlocks.spinlocks", "4096"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := defaults()
			if test.facts != nil {
				test.facts(facts)
			}
			got, ok := complete(t, test.vmi.Obj(), facts)[test.path]
			if !ok {
				got = absent
			}
			if got != test.want {
				t.Errorf("%s = %s, want %s", test.path, got, test.want)
			}
		})
	}
}

func cdrom(s *v1.VirtualMachineInstanceSpec) {
	s.Domain.Devices.Disks = []v1.Disk{{Name: "c", DiskDevice: v1.DiskDevice{CDRom: &v1.CDRomTarget{}}}}
}

func bios(s *v1.VirtualMachineInstanceSpec) {
	s.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{BIOS: &v1.BIOS{}}}
}

func dedicated(s *v1.VirtualMachineInstanceSpec) {
	s.Domain.CPU = &v1.CPU{Cores: 2, DedicatedCPUPlacement: true}
}

func realtime(s *v1.VirtualMachineInstanceSpec) { s.Domain.CPU = &v1.CPU{Realtime: &v1.Realtime{}} }

func hugepages(size string) func(*v1.VirtualMachineInstanceSpec) {
	return func(s *v1.VirtualMachineInstanceSpec) {
		s.Domain.Memory = &v1.Memory{Hugepages: &v1.Hugepages{PageSize: size}}
	}
}

func hypervOf(change func(*v1.FeatureHyperv)) func(*v1.VirtualMachineInstanceSpec) {
	return func(s *v1.VirtualMachineInstanceSpec) {
		s.Domain.Features = &v1.Features{Hyperv: &v1.FeatureHyperv{}}
		change(s.Domain.Features.Hyperv)
	}
}

func TestStatusIsWhatTheGuestStartsWith(t *testing.T) {
	vmi := build.VMI("a").Topology(2, 4, 1).Memory("2Gi").Obj()
	complete(t, vmi, defaults())
	if diff := cmp.Diff(&v1.CPUTopology{Sockets: 2, Cores: 4, Threads: 1}, vmi.Status.CurrentCPUTopology); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
	if got := vmi.Status.Memory.GuestAtBoot.String(); got != "2Gi" {
		t.Errorf("memory at boot %s", got)
	}
}

// TestMoreSpecificReplaces: a step of a more specific layer runs instead of the one below, at its own place.
func TestMoreSpecificReplaces(t *testing.T) {
	model := func(name string) mutators.Step {
		return mutators.Step{Name: "cpu-model", Writes: []string{"domain.cpu.model"}, Fill: func(c *mutators.Completion) {
			provenance.Fill(c.Recorder, "domain.cpu.model", &provenance.Ensure(&c.Spec.Domain.CPU).Model, name)
		}}
	}
	without := mutators.Step{Name: "eviction-strategy"}
	provider, err := mutators.NewBaseDefaults("amd64",
		mutators.Layer{Name: "h", Steps: []mutators.Step{model("of-h"), without}},
		mutators.Layer{Name: "h/amd64", Steps: []mutators.Step{model("of-both")}})
	if err != nil {
		t.Fatal(err)
	}
	spec, rec := &v1.VirtualMachineInstanceSpec{}, provenance.NewRecorder("spec")
	provider.SetDefaultVirtualMachineInstanceSpec(defaults(), spec, rec)
	if spec.Domain.CPU.Model != "of-both" || spec.EvictionStrategy != nil {
		t.Errorf("model %q, eviction strategy %v", spec.Domain.CPU.Model, spec.EvictionStrategy)
	}
	for _, c := range rec.Changes() {
		if c.Path == "spec.domain.cpu.model" && c.Layer != "h/amd64" {
			t.Errorf("the model is recorded under %s", c.Layer)
		}
	}
}

func TestAStepGivenTwice(t *testing.T) {
	step := mutators.Step{Name: "x", Fill: func(*mutators.Completion) {}}
	_, err := mutators.NewBaseDefaults("amd64", mutators.Layer{Name: "h", Steps: []mutators.Step{step, step}}, mutators.Layer{})
	if err == nil || err.Error() != "layer h has two steps named x" {
		t.Errorf("error %v", err)
	}
}

func TestVirtualMachineDefaults(t *testing.T) {
	provider, err := mutators.NewBaseDefaults("arm64", mutators.Layer{Name: "h"}, mutators.Layer{Name: "h/arm64"})
	if err != nil {
		t.Fatal(err)
	}
	vm := build.VMOf(build.VMI("a").Architecture("arm64")).Obj()
	rec := provenance.NewRecorder("spec.template.spec")
	provider.SetVirtualMachineDefaults(vm, defaults(), rec)
	want := []provenance.Change{{Path: "spec.template.spec.domain.machine.type", Value: "virt", Layer: "arm64"}}
	if diff := cmp.Diff(want, rec.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	vm.Spec.Template = nil
	if errs := provider.SetVirtualMachineDefaults(vm, defaults(), rec); errs != nil {
		t.Errorf("a VM without a template: %v", errs)
	}
}

func TestPresets(t *testing.T) {
	preset := func(name string, change func(*v1.DomainSpec)) v1.VirtualMachineInstancePreset {
		p := v1.VirtualMachineInstancePreset{Spec: v1.VirtualMachineInstancePresetSpec{Domain: &v1.DomainSpec{}}}
		p.Name = name
		change(p.Spec.Domain)
		return p
	}
	requests := preset("b", func(d *v1.DomainSpec) {
		d.Resources.Requests = k8sv1.ResourceList{"memory": resource.MustParse("1Gi"), "cpu": resource.MustParse("2")}
	})
	watchdog := preset("a", func(d *v1.DomainSpec) { d.Devices.Watchdog = &v1.Watchdog{Name: "w"} })
	empty := v1.VirtualMachineInstancePreset{}

	spec, rec := &v1.VirtualMachineInstanceSpec{}, provenance.NewRecorder("spec")
	if conflict := mutators.ApplyPresets(spec, []v1.VirtualMachineInstancePreset{requests, watchdog, empty}, rec); conflict != "" {
		t.Fatal(conflict)
	}
	var got []string
	for _, c := range rec.Changes() {
		got = append(got, c.Layer+" "+c.Path)
	}
	want := []string{"preset/a spec.domain.devices.watchdog", "preset/b spec.domain.resources.requests[cpu]", "preset/b spec.domain.resources.requests[memory]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}

	other := preset("c", func(d *v1.DomainSpec) { d.Resources.Requests = k8sv1.ResourceList{"cpu": resource.MustParse("3")} })
	want2 := "the presets b and c want different things of spec.domain.resources.requests.cpu"
	untouched := &v1.VirtualMachineInstanceSpec{}
	if conflict := mutators.ApplyPresets(untouched, []v1.VirtualMachineInstancePreset{other, requests}, rec); conflict != want2 {
		t.Errorf("conflict %q, want %q", conflict, want2)
	}
	if untouched.Domain.Resources.Requests != nil {
		t.Error("presets that contradict each other were applied")
	}
}

// TestLayersOfArchitectures holds that every architecture of the table has a layer of its name, which sets the machine type.
func TestLayersOfArchitectures(t *testing.T) {
	for _, name := range architectures.Names() {
		layer := mutators.ForArchitecture(name)
		if layer.Name != name || len(layer.Steps) == 0 || layer.Steps[0].Name != "machine-type" {
			t.Errorf("%s has the layer %q of %d steps", name, layer.Name, len(layer.Steps))
		}
	}
	if layer := mutators.ForArchitecture("sparc64"); layer.Name != architectures.Default {
		t.Errorf("an unknown architecture has the layer %q", layer.Name)
	}
}
