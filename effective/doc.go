// Package effective computes the VM that will really run. Its one function, Pipeline.Evaluate, is what the
// webhooks, the CLI and the tests all call, so that the answer on a laptop is the answer in the cluster.
//
// What enters: a VM or a VMI as written, the platform's Facts, the objects it points at, gathered by the caller, and
// the admin's compiled policies. What leaves: a Verdict with the effective spec, what of it is persisted, the
// provenance of every completed field, and what the checks and the policies find. It changes none of its inputs and reads no cluster, clock or environment.
package effective
