// Package validators checks whether an effective virtual machine can run.
//
// Input: a Subject, which has the effective spec, the object with it, and the facts of the cluster. Output: Findings, each
// with the id of its rule, the field in the object as its author wrote it, and a remedy. Rules are ordered tables, with one
// entry and one small function for each rule. A hypervisor adds its own. The order of rules has no effect, and all findings
// are reported.
//
// The package never changes the Subject, and never reads a cluster, a clock or an environment. It does not reject an object:
// the verdict does, by the severity of the findings.
package validators
