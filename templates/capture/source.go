package capture

import (
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// SourceState returns the state of a VirtualMachine while it was snapshotted. KubeVirt notes it in the snapshot, until the snapshot is
// ready. An indication that is not known, such as one of a failure, means that the file systems were not frozen.
func SourceState(snapshot *snapshotv1beta1.VirtualMachineSnapshot) v1beta1.SourceState {
	if snapshot.Status == nil {
		return v1beta1.SourceStopped
	}
	indications := slices.Clone(snapshot.Status.Indications) //nolint:staticcheck // KubeVirt 1.6 has no other field
	for i := range snapshot.Status.SourceIndications {
		indications = append(indications, snapshot.Status.SourceIndications[i].Indication)
	}
	state := v1beta1.SourceStopped
	for _, indication := range indications {
		switch {
		case indication == snapshotv1beta1.VMSnapshotPartialSnapshotIndication: // it is about volumes
		case indication == snapshotv1beta1.VMSnapshotGuestAgentIndication, indication == snapshotv1beta1.VMSnapshotOnlineSnapshotIndication && slices.Contains(indications, snapshotv1beta1.VMSnapshotGuestAgentIndication):
			state = v1beta1.SourceQuiesced
		default:
			return v1beta1.SourceRunning
		}
	}
	return state
}

// CheckSource reports a source that is not in the state that a request requires. The error is an *Error.
func CheckSource(request *v1beta1.VirtualMachineTemplateRequest, snapshot *snapshotv1beta1.VirtualMachineSnapshot, source *kubevirtv1.VirtualMachineSpec) error {
	state, required := SourceState(snapshot), request.Spec.SourceState
	switch {
	case required == v1beta1.SourceQuiesced && state == v1beta1.SourceRunning:
		return fault(v1beta1.ReasonSourceNotQuiesced, "spec.sourceState is %s: the VirtualMachine ran, and its guest agent did not freeze the file systems. Install and start the guest agent, or stop the VirtualMachine", required)
	case required == v1beta1.SourceStopped && state != v1beta1.SourceStopped:
		return fault(v1beta1.ReasonSourceNotStopped, "spec.sourceState is %s: the VirtualMachine ran. Stop it, and create the request again", required)
	case required == v1beta1.SourceStopped && starts(source):
		return fault(v1beta1.ReasonSourceNotStopped, "spec.sourceState is %s: the run strategy starts the VirtualMachine at any time. Stop it, so that its run strategy is Halted, and create the request again", required)
	}
	return nil
}

// starts reports whether KubeVirt starts a VirtualMachine without a request.
func starts(source *kubevirtv1.VirtualMachineSpec) bool {
	if source.RunStrategy != nil {
		return *source.RunStrategy == kubevirtv1.RunStrategyAlways
	}
	return source.Running != nil && *source.Running
}
