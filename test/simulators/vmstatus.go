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

// writeStatus writes the status of a VM, with the error if its VMI could not be created or updated.
func (r *vmReconciler) writeStatus(ctx context.Context, before, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, failure error) error {
	vm.Status.Created = vmi != nil
	vm.Status.Ready = vmi != nil && ready(vmi)
	vm.Status.PrintableStatus = printable(vmi)
	vm.Status.DesiredGeneration = vm.Generation
	if strategy, err := vm.RunStrategy(); err == nil && failure == nil {
		vm.Status.RunStrategy = strategy
	}
	vm.Status.StateChangeRequests = outstanding(vm.Status.StateChangeRequests, vmi)
	mirror(vm, vmi)
	if message := messageOf(failure); message != "" {
		setCondition(vm, kubevirtv1.VirtualMachineFailure, true, message)
	} else {
		removeCondition(vm, kubevirtv1.VirtualMachineFailure)
	}
	base := before.DeepCopy()
	base.ObjectMeta, base.Spec = vm.ObjectMeta, vm.Spec
	if equality.Semantic.DeepEqual(base.Status, vm.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, vm, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// ready reports whether a VMI is ready, as its condition says.
func ready(vmi *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineInstanceReady && c.Status == corev1.ConditionTrue
	})
}

// mirrored are the conditions of a VMI that its VM has too.
var mirrored = []kubevirtv1.VirtualMachineInstanceConditionType{
	kubevirtv1.VirtualMachineInstanceIsMigratable, kubevirtv1.VirtualMachineInstanceIsStorageLiveMigratable, kubevirtv1.VirtualMachineInstanceAgentConnected,
}

func mirror(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) {
	setCondition(vm, kubevirtv1.VirtualMachineReady, vm.Status.Ready, "")
	for _, kind := range mirrored {
		removeUnless(vm, vmi, kind)
	}
}

func removeUnless(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) {
	if vmi != nil {
		for i := range vmi.Status.Conditions {
			if c := &vmi.Status.Conditions[i]; c.Type == kind {
				setCondition(vm, kubevirtv1.VirtualMachineConditionType(kind), c.Status == corev1.ConditionTrue, c.Message)
				return
			}
		}
	}
	removeCondition(vm, kubevirtv1.VirtualMachineConditionType(kind))
}

func removeCondition(vm *kubevirtv1.VirtualMachine, kind kubevirtv1.VirtualMachineConditionType) {
	vm.Status.Conditions = slices.DeleteFunc(vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool { return c.Type == kind })
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
	case migrating(vmi):
		return kubevirtv1.VirtualMachineStatusMigrating
	case vmi.Status.Phase == kubevirtv1.Running:
		return kubevirtv1.VirtualMachineStatusRunning
	}
	return kubevirtv1.VirtualMachineStatusStarting
}
