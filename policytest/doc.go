// Package policytest tests policies: it evaluates virtual machines as a cluster does, and compares the outcome with the
// expected one.
//
// Its input is files, as an fs.FS. A file of the kind Suite has tests. A test has policies, the objects that a virtual
// machine refers to, and cases: an object, its requester, and the expected outcome. Its output is a Report with the
// outcome of each case, or Problems, which name a file, a line and a field. What a suite does not set has a fixed
// default: no outcome depends on the time, the machine or the cluster.
//
// It evaluates as the webhooks do, with package evaluator. It reads no cluster and writes no files.
package policytest
