// Package export converts a VirtualMachinePolicy into a ValidatingAdmissionPolicy, which the API server evaluates even
// while Virtward is down.
//
// What enters: a compiled policy, and the facts about the cluster that its match depends on. What leaves: the native
// policy with its binding, and notes on the differences; or the reasons why there is none, each at a field of the
// policy. The result compiles on the oldest supported API server.
//
// The expressions of the author do not change, except where a native policy lacks something: the values of params
// become a variable, and each validation also admits an update of an object that violated it before. The package never
// creates a native policy that omits part of the policy; it returns an error instead.
package export
