// Package evaluator evaluates an object: it computes the effective VM, and runs all rules and policies. The webhooks, the
// CLI, the audit and the policy tests call it, so their results agree.
//
// Input: a Request, which has an object as JSON and the circumstances of the evaluation, and three sources: the facts of
// the cluster, the active configuration, and the objects that virtual machines refer to. Output: a Result with the
// effective VM, the provenance of each value, and the findings.
//
// An error means that a source failed, so the request cannot be evaluated now. A fault of the object is a finding, never
// an error. The package sends no response, writes no patch, and keeps no state between Snapshots.
package evaluator
