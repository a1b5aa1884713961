package rollouts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
)

// WithUUID gives a VM the firmware UUID that KubeVirt writes into one without it.
func WithUUID(vm *v1.VirtualMachine) {
	domain := &vm.Spec.Template.Spec.Domain
	if domain.Firmware == nil {
		domain.Firmware = &v1.Firmware{}
	}
	if domain.Firmware.UUID == "" {
		domain.Firmware.UUID = types.UID(DerivedUUID(vm.Name))
	}
}

// Start returns an instance as KubeVirt starts it of a VM with an effective spec, for plans without a cluster. It runs, can be migrated,
// and belongs to the VM.
func Start(vm *v1.VirtualMachine, spec *v1.VirtualMachineInstanceSpec) *v1.VirtualMachineInstance {
	running := *spec.DeepCopy()
	running.Domain.Firmware = vm.Spec.Template.Spec.Domain.Firmware.DeepCopy()
	instance := &v1.VirtualMachineInstance{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.VirtualMachineInstanceGroupVersionKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: vm.Name, Namespace: vm.Namespace, Labels: vm.Spec.Template.ObjectMeta.Labels, Annotations: vm.Spec.Template.ObjectMeta.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)},
		},
		Spec: running,
		Status: v1.VirtualMachineInstanceStatus{
			Phase:      v1.Running,
			Conditions: []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}},
		},
	}
	if memory := running.Domain.Memory; memory != nil {
		instance.Status.Memory = &v1.MemoryStatus{GuestAtBoot: memory.Guest, GuestCurrent: memory.Guest, GuestRequested: memory.Guest}
	}
	return instance
}
