// Command compare runs the same policies on the same virtual machines in Virtward, Gatekeeper and Kyverno, and through a real API
// server in Virtward and in native ValidatingAdmissionPolicies. make compare builds it, and writes the results into
// docs/performance.md.
//
// Each engine is a program of a module of its own, with the versions that its own go.mod requires. It runs as a process of its own
// for each set of policies, so no engine pays for the heap of another. The engines take turns in each round. The result is the
// minimum CPU time of all rounds, with garbage collection. All engines must have the same verdicts, or there is no result.
//
// CI does not build the modules of the peers: they need several hundred modules and many minutes.
package main
