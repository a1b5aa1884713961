// Package policystatus keeps the status of each VirtualMachinePolicy: a reconciler with a key for each of them.
//
// What enters: the policies as they were compiled, and what the last audit counted. What leaves: the status, by
// server-side apply and only where it changes, and an event on a policy that stops or begins to be valid. It never
// changes a spec, and decides nothing: the webhook evaluates by a policy whether or not its status says so yet.
package policystatus
