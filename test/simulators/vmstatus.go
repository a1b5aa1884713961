package simulators

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeStatus writes the status of a VM, with the error if its VMI could not be created.
func (r *vmReconciler) writeStatus(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, failure error) error {
	base := vm.DeepCopy()
	vm.Status.Created = vmi != nil
	vm.Status.Ready = vmi != nil && vmi.Status.Phase == kubevirtv1.Running
	vm.Status.PrintableStatus = printable(vmi)
	setCondition(vm, kubevirtv1.VirtualMachineReady, vm.Status.Ready, "")
	if message := messageOf(failure); message != "" {
		setCondition(vm, kubevirtv1.VirtualMachineFailure, true, message)
	} else {
		vm.Status.Conditions = slices.DeleteFunc(vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool {
			return c.Type == kubevirtv1.VirtualMachineFailure
		})
	}
	if equality.Semantic.DeepEqual(base.Status, vm.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, vm, client.MergeFrom(base)))
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// setCondition keeps the time of a condition that has not changed.
func setCondition(vm *kubevirtv1.VirtualMachine, kind kubevirtv1.VirtualMachineConditionType, holds bool, message string) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	next := kubevirtv1.VirtualMachineCondition{Type: kind, Status: status, Message: message, LastTransitionTime: metav1.Now()}
	for i, c := range vm.Status.Conditions {
		if c.Type != kind {
			continue
		}
		if c.Status != status || c.Message != message {
			vm.Status.Conditions[i] = next
		}
		return
	}
	vm.Status.Conditions = append(vm.Status.Conditions, next)
}

func printable(vmi *kubevirtv1.VirtualMachineInstance) kubevirtv1.VirtualMachinePrintableStatus {
	switch {
	case vmi == nil:
		return kubevirtv1.VirtualMachineStatusStopped
	case vmi.DeletionTimestamp != nil:
		return kubevirtv1.VirtualMachineStatusStopping
	case vmi.Status.Phase == kubevirtv1.Running:
		return kubevirtv1.VirtualMachineStatusRunning
	}
	return kubevirtv1.VirtualMachineStatusStarting
}
