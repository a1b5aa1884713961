package effective_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/build"
)

func pipeline(t testing.TB) *effective.Pipeline {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	return effective.NewPipeline(registry)
}

func evaluate(t testing.TB, in effective.Input) *effective.Verdict {
	t.Helper()
	if in.Facts == nil {
		in.Facts = platform.Defaults(platform.Settings{})
	}
	verdict, err := pipeline(t).Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

func layersOf(changes []provenance.Change) map[string]string {
	layers := map[string]string{}
	for _, c := range changes {
		layers[c.Path] = c.Layer
	}
	return layers
}

func TestVMIIsCompletedInLayers(t *testing.T) {
	verdict := evaluate(t, effective.Input{VMI: build.VMI("db").Disk("root", "").Obj()})
	want := map[string]string{
		"spec.architecture":                             "base",
		"spec.domain.cpu.sockets":                       "base",
		"spec.domain.cpu.cores":                         "base",
		"spec.domain.cpu.threads":                       "base",
		"spec.domain.cpu.model":                         "base",
		"spec.volumes[0].containerDisk.imagePullPolicy": "base",
		"spec.evictionStrategy":                         "base",
		"spec.domain.devices.interfaces":                "base",
		"spec.networks":                                 "base",
		"spec.domain.features.acpi.enabled":             "base",
		"spec.domain.machine.type":                      "amd64",
		"spec.domain.devices.disks[0].disk.bus":         "amd64",
		"spec.domain.cpu.maxSockets":                    "finalize",
		"spec.domain.memory.maxGuest":                   "finalize",
		"status.currentCPUTopology":                     "finalize",
		"status.memory":                                 "finalize",
	}
	if diff := cmp.Diff(want, layersOf(verdict.Changes)); diff != "" {
		t.Errorf("layers by field (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(verdict.Changes, verdict.Persist); diff != "" {
		t.Errorf("a VMI persists its whole completion (-changes +persist):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"base", "amd64", "finalize"}, effective.Layers(verdict.Changes)); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

func TestVMPersistsArchitectureAndMachineTypeOnly(t *testing.T) {
	vm := build.VM("db").Instancetype("u1.small").Preference("fedora").Obj()
	in := effective.Input{VM: vm, References: effective.References{
		Instancetype: &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "u1.small"},
		Preference:   &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "fedora"},
		Architecture: &effective.DataSourceArchitecture{DataSource: "images/fedora", Architecture: "arm64"},
	}}
	in.Instancetype.Spec.CPU.Guest = 2
	in.Instancetype.Spec.Memory.Guest = *build.VMI("x").Obj().Spec.Domain.Memory.Guest
	before := vm.DeepCopy()
	verdict := evaluate(t, in)
	if diff := cmp.Diff(before, vm); diff != "" {
		t.Errorf("the input was changed:\n%s", diff)
	}
	want := map[string]string{
		"spec.template.spec.architecture":        "datasource/images/fedora",
		"spec.template.spec.domain.machine.type": "arm64",
	}
	if diff := cmp.Diff(want, layersOf(verdict.Persist)); diff != "" {
		t.Errorf("persisted (-want +got):\n%s", diff)
	}
	if got := verdict.VM.Spec.Template.Spec.Domain.CPU; got != nil {
		t.Errorf("the persisted VM has a CPU, which only the effective spec should: %+v", got)
	}
	if got := verdict.Spec.Domain.CPU.Sockets; got != 2 {
		t.Errorf("effective sockets: %d, want the instancetype's 2", got)
	}
	if got, want := layersOf(verdict.Changes)["spec.template.spec.domain.cpu.sockets"], "instancetype/u1.small"; got != want {
		t.Errorf("sockets come from layer %q, want %q", got, want)
	}
	if verdict.Architecture != "arm64" || verdict.Spec.Domain.CPU.Model != v1.CPUModeHostPassthrough {
		t.Errorf("completed for %s with CPU model %s", verdict.Architecture, verdict.Spec.Domain.CPU.Model)
	}
}

func TestMSHV(t *testing.T) {
	for name, test := range map[string]struct {
		hypervisor, architecture, model, layer string
	}{
		"VEP 97's form on amd64":  {"mshv", "amd64", "qemu64-v1", "mshv/amd64"},
		"VEP 97's form on arm64":  {"mshv", "arm64", "host-passthrough", "arm64"},
		"KubeVirt's form":         {"hyperv-direct", "amd64", "host-model", "mshv/amd64"},
		"kvm":                     {"kvm", "amd64", "host-model", "base"},
		"an unknown architecture": {"mshv", "riscv64", "qemu64-v1", "mshv/amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := platform.HypervisorByName(test.hypervisor)
			if err != nil {
				t.Fatal(err)
			}
			verdict := evaluate(t, effective.Input{
				VMI:   build.VMI("db").Architecture(test.architecture).Obj(),
				Facts: platform.Defaults(platform.Settings{}).WithHypervisor(h),
			})
			if got := verdict.Spec.Domain.CPU.Model; got != test.model {
				t.Errorf("CPU model %q, want %q", got, test.model)
			}
			if got := layersOf(verdict.Changes)["spec.domain.cpu.model"]; got != test.layer {
				t.Errorf("set by layer %q, want %q", got, test.layer)
			}
		})
	}
}

func TestConflictsNameTheFieldThatTheUserWrote(t *testing.T) {
	vm := build.VM("db").Obj()
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "u1.small"}
	in := effective.Input{VM: vm, References: effective.References{Instancetype: &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "u1.small"}}}
	in.Instancetype.Spec.CPU.Guest = 2
	in.Instancetype.Spec.Memory.Guest = *vm.Spec.Template.Spec.Domain.Memory.Guest
	verdict := evaluate(t, in)
	want := `spec.template.spec.domain.memory.guest: Invalid value: must not be set: instancetype "u1.small" determines it`
	if len(verdict.Conflicts) != 1 || verdict.Conflicts[0].Error.Error() != want {
		t.Errorf("conflicts %v,\nwant %s", verdict.Conflicts, want)
	}
}

func TestANetworkThatIsNotPermitted(t *testing.T) {
	facts := *platform.Defaults(platform.Settings{})
	facts.PermitBridge = false
	verdict := evaluate(t, effective.Input{VM: build.VM("db").Obj(), Facts: &facts})
	want := `spec.template.spec.domain.devices.interfaces: Invalid value: "bridge": the cluster's default interface is a bridge, which it does not permit on the pod network: name the interfaces and networks of this VM`
	if len(verdict.Conflicts) != 1 || verdict.Conflicts[0].Error.Error() != want {
		t.Errorf("conflicts %v,\nwant %s", verdict.Conflicts, want)
	}
	if verdict.Spec.Domain.Machine == nil {
		t.Error("the rest was not completed")
	}
}

func TestPresetsComeBeforeDefaults(t *testing.T) {
	preset := v1.VirtualMachineInstancePreset{}
	preset.Name = "small"
	preset.Spec.Domain = &v1.DomainSpec{CPU: &v1.CPU{Cores: 8}}
	verdict := evaluate(t, effective.Input{VMI: build.VMI("db").Obj(), References: effective.References{Presets: []v1.VirtualMachineInstancePreset{preset}}})
	if got := verdict.Spec.Domain.CPU.Cores; got != 8 {
		t.Errorf("%d cores, want the preset's 8", got)
	}
	if got := layersOf(verdict.Changes)["spec.domain.cpu"]; got != "preset/small" {
		t.Errorf("set by layer %q, want preset/small", got)
	}

	other := *preset.DeepCopy()
	other.Name, other.Spec.Domain.CPU.Cores = "large", 16
	verdict = evaluate(t, effective.Input{VMI: build.VMI("db").Obj(), References: effective.References{Presets: []v1.VirtualMachineInstancePreset{preset, other}}})
	if len(verdict.Conflicts) != 1 || verdict.Conflicts[0].Error.Detail != "the presets large and small want different things of spec.domain.cpu" {
		t.Errorf("conflicts: %v", verdict.Conflicts)
	}
}

func TestBadCalls(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	for name, in := range map[string]effective.Input{
		"nothing":               {Facts: facts},
		"both":                  {Facts: facts, VM: build.VM("a").Obj(), VMI: build.VMI("a").Obj()},
		"no facts":              {VMI: build.VMI("a").Obj()},
		"an unknown hypervisor": {VMI: build.VMI("a").Obj(), Facts: facts.WithHypervisor(platform.Hypervisor{Name: "xen"})},
	} {
		if verdict, err := pipeline(t).Decide(in); err == nil {
			t.Errorf("%s: no error, but %+v", name, verdict)
		}
	}
}
