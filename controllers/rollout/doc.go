// Package rollout takes the changes of VirtualMachineRollouts through virtual machines.
//
// What enters: a rollout, the virtual machines that it selects with their instances, migrations and PodDisruptionBudgets,
// all read live and in pages. What leaves: a patch and an annotation of a virtual machine, a call of its subresource
// restart, migrations, and the status of the rollout. Package rollouts/fleet decides; this package observes and applies.
//
// The status is written before the writes that it records, with the version that was read. So a process that is killed,
// or that is no longer the leader, leaves work that the next one completes, and nothing is restarted twice. Before each
// write, a SubjectAccessReview reports whether the requester of the rollout still has the permission.
//
// Memory has a small record of each virtual machine during a reconciliation, and what the change does to it afterwards.
package rollout
