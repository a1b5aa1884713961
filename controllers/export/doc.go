// Package export keeps the exported policies in the API server: a ValidatingAdmissionPolicy and its binding for each
// VirtualMachinePolicy with exportTo.
//
// What enters: the active policies, the facts about the cluster, and the existing exported policies. What leaves: the
// exported policies, created, updated and deleted; and in the status of each policy the condition Exported, the
// enforcer APIServer, and the notes. These are a report, by server-side apply. Another controller writes the rest of the status.
//
// It is a reconciler with a key for each policy. The status is written last, also if the API server rejected the
// exported policy.
//
// An exported policy has an owner reference to its policy, and is garbage-collected with it. If another object has its
// name, it is not created, and the other object is not changed: otherwise users could overwrite the policies of others
// by the name of their own. So the exported policies are created and updated with a resource version as a precondition.
// An apply cannot distinguish the two.
package export
