// Package hypervisor is the suite that every folder under hypervisors must pass.
//
// What enters: a hypervisor as the registry takes it, the cases of its own rules, and its page. What leaves:
// failed tests, each of which says what the hypervisor does and which object shows it. The suite completes and
// checks every recorded object of the conformance cases on every architecture, under every name that a cluster
// may give the hypervisor. It never talks to a cluster.
package hypervisor
