package simulators

import (
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// step is what virt-controller does next with the VMI of a VM.
type step int

const (
	nothing step = iota
	starting
	stopping
)

// next decides by the run strategy of a VM and the requests in its status.
func next(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, strategy kubevirtv1.VirtualMachineRunStrategy) step {
	requests := vm.Status.StateChangeRequests
	starts := len(requests) > 0 && requests[0].Action == kubevirtv1.StartRequest
	first := vm.Status.RunStrategy != strategy // the VM has not run with this strategy yet
	if vmi == nil {
		switch strategy {
		case kubevirtv1.RunStrategyAlways:
			return starting
		case kubevirtv1.RunStrategyRerunOnFailure:
			return stepIf(starts || first, starting)
		case kubevirtv1.RunStrategyOnce:
			return stepIf(first, starting)
		case kubevirtv1.RunStrategyManual:
			return stepIf(starts, starting)
		}
		return nothing
	}
	if vmi.DeletionTimestamp != nil {
		return nothing
	}
	stops, final := stopRequested(vm, vmi), vmi.IsFinal()
	switch strategy {
	case kubevirtv1.RunStrategyHalted:
		return stopping
	case kubevirtv1.RunStrategyAlways:
		return stepIf(stops || final, stopping)
	case kubevirtv1.RunStrategyRerunOnFailure:
		if vmi.Status.Phase == kubevirtv1.Failed && len(requests) == 0 {
			vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StopRequest, UID: &vmi.UID}, {Action: kubevirtv1.StartRequest}}
			return stopping
		}
		return stepIf(stops, stopping)
	case kubevirtv1.RunStrategyManual:
		return stepIf(stops, stopping)
	}
	return nothing
}

func stepIf(condition bool, s step) step {
	if condition {
		return s
	}
	return nothing
}

func stopRequested(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) bool {
	requests := vm.Status.StateChangeRequests
	return len(requests) > 0 && requests[0].Action == kubevirtv1.StopRequest && requests[0].UID != nil && *requests[0].UID == vmi.UID
}

// outstanding are the requests without the first one, if that one is done.
func outstanding(requests []kubevirtv1.VirtualMachineStateChangeRequest, vmi *kubevirtv1.VirtualMachineInstance) []kubevirtv1.VirtualMachineStateChangeRequest {
	if len(requests) == 0 {
		return nil
	}
	done := false
	switch first := &requests[0]; first.Action {
	case kubevirtv1.StopRequest:
		done = vmi == nil || first.UID == nil || *first.UID != vmi.UID
	case kubevirtv1.StartRequest:
		done = vmi != nil && vmi.DeletionTimestamp == nil
	}
	if done {
		return requests[1:]
	}
	return requests
}
