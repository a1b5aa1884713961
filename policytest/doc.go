// Package policytest tests policies: it evaluates virtual machines as a cluster would, and compares the outcome with what
// was expected.
//
// What enters: files, as an fs.FS. A file of the kind Suite holds tests, each with policies, the objects around a
// virtual machine, and cases: an object, who sends it, and what the policies should say. What leaves: a Report that
// says of each case whether it passed and if not, why; or Problems, which name a file, a line and a field. What a
// suite does not say has one value everywhere: nothing depends on the day, the machine or the cluster.
//
// The evaluating is that of the webhooks: lookup finds what a virtual machine refers to, and effective.Pipeline completes
// and evaluates it. The package reads no cluster and writes no files.
package policytest
