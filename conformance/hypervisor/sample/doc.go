// Package sample is an imaginary hypervisor, the example of docs/adding-a-hypervisor.md. It is only for tests:
// no cluster runs it, and the registry of this repository does not have it.
package sample
