// Package pending reports changes that are not applied to running VirtualMachines yet.
//
// What enters: a VirtualMachine, its instance and what it refers to, all read live. What leaves: an annotation of the
// VirtualMachine, one Event for each new reason, metrics, and a ConfigMap with counts. The plan comes from package rollouts.
//
// The package never changes a spec, a status or an instance. It writes only if something changed, and it trusts nothing
// that users can write: an annotation that was edited is written again.
package pending
