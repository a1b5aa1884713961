// Package validators checks a virtual machine: whether what will run could run.
//
// What enters: a Subject, which is the effective spec, the object around it, and the platform's Facts.
// What leaves: Findings, each with the id of the rule that made it, the field in the object as its author
// wrote it, and a remedy. Rules are ordered tables, one entry and one small function each; a hypervisor adds
// its own. They hold in any order, report everything they find, and never stop at the first.
//
// The package never changes what it looks at, never reads a cluster, a clock or an environment, and never
// decides what is done about a finding: the verdict does, by the finding's severity.
package validators
