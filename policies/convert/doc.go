// Package convert turns policies of other engines into VirtualMachinePolicies.
//
// What enters: the objects of some files, such as ValidatingAdmissionPolicies with their bindings and parameters, and
// Kyverno's ValidatingPolicies. What leaves: a VirtualMachinePolicy for each policy and binding, with notes at its fields,
// and the same as YAML with the notes as comments.
//
// A part of the original that has no equivalent is always a note. Expressions do not change, except where they read
// parameters. The package reads no cluster, and evaluates nothing.
package convert
