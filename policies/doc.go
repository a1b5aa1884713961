// Package policies compiles and evaluates VirtualMachinePolicies.
//
// What enters: VirtualMachinePolicies, the ConfigMaps of their parameters, the time, and the documents of one object:
// the object of the request, the effective VM, and facts about the cluster. What leaves: the problems of the policies,
// and a Finding for each violation, at a field of the object as its author wrote it.
//
// Every matching policy is evaluated, and every violation is reported. A policy that cannot be evaluated is a finding
// too, under its failurePolicy, and does not affect the other policies. The package has no client and no clock. It does
// not move findings to the instancetype that a value is from, and does not compare them with findings of the object
// before the update: package effective does.
package policies
