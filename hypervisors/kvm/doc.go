// Package kvm is the hypervisor that KubeVirt grew up with. Its defaults are those of the base and
// architecture layers; nothing is special about it. See README.md for its device, its domain type and its rules.
package kvm
