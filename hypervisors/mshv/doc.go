// Package mshv is Microsoft's hypervisor: mshv in VEP 97, hyperv-direct in KubeVirt. It differs from kvm in
// the CPU model of amd64 guests. See README.md for its device, its domain type and its rules.
package mshv
