// Package policies evaluates virtual machines by the admin's own policies.
//
// What enters: VirtualMachinePolicy objects, which are compiled once, and the documents of one object: what was
// sent, the effective virtual machine, and what is known around them. What leaves: the problems of the policies,
// and Findings like those of the checks, at fields of the object as its author wrote it.
//
// Every matching policy is asked, and every violation is told. A policy that cannot be evaluated is a finding too,
// under its failurePolicy; it never keeps another one from being asked. The package reads no cluster and no clock:
// the ConfigMaps of parameters and the time come in as values. It does not move findings to the instancetype that
// a value comes from, and does not compare them with those of the object before: the verdict does.
package policies
