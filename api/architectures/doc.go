// Package architectures is the table of the architectures on which KubeVirt runs virtual machines, with what KubeVirt, CDI and OCI
// define for each.
//
// What enters: nothing. What leaves: the rows, in one order that every list of Virtward has. Defaults of fields are steps of a layer in
// package mutators, and what an architecture does not support is a line of the capability table in package validators; both have an
// entry for each row.
package architectures
