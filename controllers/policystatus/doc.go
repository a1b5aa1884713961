// Package policystatus keeps the status of each VirtualMachinePolicy: a reconciler with a key for each of them.
//
// What enters: the compiled policies, and the counts of the last audit. What leaves: the status, by server-side apply
// and only if it changes, and an event on a policy that starts or stops to compile. It never changes a spec. The status
// has no effect on the webhook.
package policystatus
