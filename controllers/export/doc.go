// Package export keeps the native forms of policies in the API server: a ValidatingAdmissionPolicy and its binding
// for each VirtualMachinePolicy that asks for it by exportTo.
//
// What enters: the policies active, the facts of the cluster, and the native forms that there are. What leaves: the
// native forms, created, brought up to date and deleted; and of each policy's status the condition Exported, the
// enforcer APIServer, and the notes. The rest of the status is another controller's. Both write by server-side apply,
// each what is its own.
//
// It is a reconciler with a key for each policy. The status is written last, also when the API server rejected the native
// form.
//
// A native form belongs to its policy, by an owner reference, and is garbage once that is gone. One whose name is
// taken by something else is never made, and what is there is left alone: so that nobody has Virtward change a policy
// of theirs by giving one of ours its name. That is why the native forms are created and updated rather than applied,
// with the version that was looked at as a precondition: an apply does not tell the two apart.
package export
