// Package hypervisors holds what is special about each hypervisor, one folder each, and the registry in
// which they are found under keys such as kvm/amd64 or mshv/arm64.
//
// What enters: the hypervisor's name from the platform's Facts, and an architecture. What leaves: the
// DefaultsProvider that completes VMs for that pair, the Validator that checks them, and the lines of the
// capability table that say what the pair lacks. The registry is a value, built in one place; two hypervisors
// under one name are an error, and so are two rules under one id, and a line whose rule does not exist. It
// decides nothing about a VM by itself. The folder gen writes docs/hypervisors.md from it.
package hypervisors
