// Package effective computes how a virtual machine will run, and validates the result. Package evaluator calls it for the
// webhooks, the CLI, the audit and the policy tests, so their results agree.
//
// A Pipeline has six functions:
//
//   - Complete expands and completes a VM or a VMI. It runs no rules and no policies.
//   - Decide also runs the rules and the policies.
//   - DecideUpdate also decides on the object before the update, if the object would be rejected: findings that both have
//     become warnings.
//   - DecideDeletion runs only the policies, on the deletion of a stored object.
//   - CheckObject runs rules on objects that are not virtual machines, such as the KubeVirt resource.
//   - CheckDefaults validates a VirtualMachineDefaults.
//
// Input: an object as its author wrote it, the facts of the cluster, the objects that it refers to, and the compiled
// policies. Output: a Verdict with the effective spec, the changes that are persisted, the provenance of each completed
// field, and the findings. The package changes no input. It is pure: it has no client, clock or environment.
package effective
