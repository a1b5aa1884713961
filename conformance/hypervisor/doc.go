// Package hypervisor is the suite that every folder under hypervisors must pass.
//
// Input: a hypervisor for the registry, the cases of its rules, and its page. Output: failed tests, each with the problem
// and an object that shows it. The suite completes and validates every recorded object of the conformance cases on every
// architecture, with every name of the hypervisor in a KubeVirt resource. It has the contract tests of VEP 97 that need no
// node: the device and its resource are those of a simulator. It never uses a cluster.
package hypervisor
