// Package export makes a ValidatingAdmissionPolicy of a VirtualMachinePolicy, so that the API server evaluates by it
// while Virtward is away.
//
// What enters: a compiled policy, and the few facts of the cluster that its match depends on. What leaves: the native
// policy with its binding, and notes on what they cannot do; or the reasons why there can be none, each at a field of
// the policy. Whatever leaves compiles on the oldest API server that is supported.
//
// The expressions stay as their author wrote them, except for what a native policy lacks: the values of params become
// a variable, and each validation also lets an update through that leaves a violation as it was. The package never
// makes a native policy that rejects what is left out of it; in doubt there is none.
package export
