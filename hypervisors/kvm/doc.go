// Package kvm is the default hypervisor of KubeVirt. Its defaults are those of the base and architecture layers.
// It adds none. See README.md for its device, its domain type and its rules.
package kvm
