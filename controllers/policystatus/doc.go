// Package policystatus keeps the status of each VirtualMachinePolicy: a reconciler with a key for each of them.
//
// What enters: the compiled policies, the counts of the last audit and those of the webhooks. What leaves: the status, by an update
// with the version that was read and only if it changes, and an event on a policy that starts or stops to compile, to be evaluated or
// to be suspended. It never changes a spec. Only the suspension in the status has an effect on the webhook.
package policystatus
