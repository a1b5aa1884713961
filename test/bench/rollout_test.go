package bench

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/test/build"
)

// rollout is the input of a plan: a VM with three disks and two interfaces that runs, and whose sockets grow.
func rollout(tb testing.TB) *rollouts.Input {
	tb.Helper()
	vmi := complete(tb, build.VMI("db").Memory("2Gi").Topology(2, 1, 1).
		Disk("root", v1.DiskBusVirtio).Disk("data", v1.DiskBusSCSI).Disk("logs", v1.DiskBusSCSI).
		With(func(spec *v1.VirtualMachineInstanceSpec) {
			spec.Networks = []v1.Network{*v1.DefaultPodNetwork(), {Name: "blue", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "blue"}}}}
			spec.Domain.Devices.Interfaces = []v1.Interface{
				*v1.DefaultMasqueradeNetworkInterface(),
				{Name: "blue", InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}},
			}
			spec.Domain.Firmware = &v1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"}
		}).Obj())
	vmi.Status = v1.VirtualMachineInstanceStatus{
		Phase:      v1.Running,
		Conditions: []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}},
		Memory:     &v1.MemoryStatus{GuestAtBoot: vmi.Spec.Domain.Memory.Guest, GuestCurrent: vmi.Spec.Domain.Memory.Guest},
	}
	always := v1.RunStrategyAlways
	spec := v1.VirtualMachineSpec{RunStrategy: &always, Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: *vmi.Spec.DeepCopy()}}
	facts := platform.Defaults(platform.Settings{})
	facts.WorkloadUpdateMethods = []v1.WorkloadUpdateMethod{v1.WorkloadUpdateMethodLiveMigrate}
	in := &rollouts.Input{
		LastStarted: spec.DeepCopy(), Running: vmi, Facts: facts,
		Desired: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"}, Spec: spec},
	}
	in.Desired.Spec.Template.Spec.Domain.CPU.Sockets = 4
	return in
}

func plan(b *testing.B, in *rollouts.Input) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		result := rollouts.Plan(in)
		if len(result.Changes) != 1 || result.Changes[0].Takes != rollouts.LiveOnMigration {
			b.Fatalf("%+v", result)
		}
	}
}

func BenchmarkPlan(b *testing.B) { plan(b, rollout(b)) }

// BenchmarkPlanInstancetype plans the change to another instancetype.
func BenchmarkPlanInstancetype(b *testing.B) {
	in := rollout(b)
	sized := func(name string, cpus uint32) *instancetypes.Instancetype {
		in := &instancetypes.Instancetype{Kind: apikinds.VirtualMachineInstancetype, Name: name}
		in.Spec.CPU.Guest, in.Spec.Memory.Guest = cpus, resource.MustParse("2Gi")
		return in
	}
	in.StartedKinds.Instancetype, in.DesiredKinds.Instancetype = sized("small", 2), sized("medium", 4)
	for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, &in.Desired.Spec.Template.Spec} {
		spec.Domain.CPU, spec.Domain.Memory = nil, nil
	}
	plan(b, in)
}

// BenchmarkPlanLargest plans a change of a VM with two thousand volumes.
func BenchmarkPlanLargest(b *testing.B) {
	in := rollout(b)
	for i := range 2000 {
		volume := v1.Volume{Name: "v" + resource.NewQuantity(int64(i), resource.DecimalSI).String(), VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{}}}
		for _, spec := range []*v1.VirtualMachineInstanceSpec{&in.LastStarted.Template.Spec, &in.Desired.Spec.Template.Spec, &in.Running.Spec} {
			spec.Volumes = append(spec.Volumes, volume)
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: volume.Name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}})
		}
	}
	plan(b, in)
}
