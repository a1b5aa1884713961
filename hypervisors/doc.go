// Package hypervisors has a folder for each hypervisor with its defaults and rules, and a registry of them. The keys of the
// registry are pairs such as kvm/amd64 and mshv/arm64.
//
// Input: the name of a hypervisor from the facts of the cluster, and an architecture. Output: the DefaultsProvider and the
// Validator of the pair, its Converter, and the lines of the capability table with what the pair lacks. The registry is a value that is
// built in one place. Two hypervisors with one name are an error, two rules with one id, and a line whose rule does not exist.
// The package evaluates no VM. The folder gen writes docs/hypervisors.md from the registry.
package hypervisors
