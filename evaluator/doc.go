// Package evaluator is the one way from an object to a result: the webhooks, the CLI, the audit and the policy tests
// all call it, so that they agree.
//
// What enters: a Request, which is an object as JSON with the circumstances under which it is evaluated, and three
// sources: the facts of the cluster, the active configuration, and the objects that virtual machines refer to. What
// leaves: a Result with the effective virtual machine, where each value comes from, and what rules and policies find.
//
// An error means that the request cannot be evaluated now: a source failed. What is wrong with the object is a finding,
// never an error. The package sends no response, writes no patch, and keeps nothing from one Snapshot to the next.
package evaluator
