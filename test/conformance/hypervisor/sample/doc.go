// Package sample is an imaginary hypervisor, the example of docs/adding-a-hypervisor.md. It lives in the tests: no
// cluster runs it, and the registry of this repository does not know it.
package sample
