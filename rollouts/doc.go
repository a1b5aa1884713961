// Package rollouts plans what a change of a VirtualMachine does to its running instance.
//
// Input: the spec that the instance was started with, the VM as it is desired, the running instance, the facts of the
// cluster, and the instancetypes, preferences and claims that the VM refers to. Output: each field that differs, when the
// change takes effect, whether KubeVirt writes it to the running instance, and how KubeVirt announces it.
//
// The package is pure. It has two parts: the steps of virt-controller (steps.go), which say what KubeVirt does, and the
// rules (rules.go), which say what this means for the guest. It never panics, and its output is bounded.
package rollouts
