package simulators

import (
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Annotations of a VM with which a test asks for a failure. They count as long as the VM has them.
const (
	// NotMigratable: the instance cannot be migrated, with the value as the message.
	NotMigratable = "simulators.virtward.io/not-migratable"
	// MigrationFails: every live migration of the instance fails, with the value as the reason.
	MigrationFails = "simulators.virtward.io/migration-fails"
	// NeverReady: the instance runs, and does not get ready. The value is the message.
	NeverReady = "simulators.virtward.io/never-ready"
	// NeverRuns: the instance stays in the phase Scheduling, with any value.
	NeverRuns = "simulators.virtward.io/never-runs"
	// NodeGone: the node of the instance is gone, with any value. The instance is not ready, it cannot be migrated, and its
	// deletion does not end.
	NodeGone = "simulators.virtward.io/node-gone"
	// NoAgent: the guest has no agent, with any value.
	NoAgent = "simulators.virtward.io/no-agent"
	// HoldVolumeRequests: the requests of the subresource addvolume wait, with any value.
	HoldVolumeRequests = "simulators.virtward.io/hold-volume-requests"
	// RestartFails: the subresource restart answers with the value as its status code, such as 409 or 500.
	RestartFails = "simulators.virtward.io/restart-fails"
)

func requested(vm *kubevirtv1.VirtualMachine, annotation string) (message string, ok bool) {
	if vm == nil {
		return "", false
	}
	message, ok = vm.Annotations[annotation]
	return message, ok
}
