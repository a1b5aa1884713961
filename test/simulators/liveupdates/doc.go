// Package liveupdates simulates what virt-controller does with a running instance whose VM changes.
//
// Input: a VM, the template that its instance was started with, the instance, and the configuration of KubeVirt. Output:
// the instance as virt-controller leaves it, the condition RestartRequired, and the step at which virt-controller fails.
// Settle does what the controllers of instances add, and Migrated what a live migration does.
//
// The package is pure. It does not use package rollouts, because tests compare its answers with the plans. Recorded answers
// of the real virt-controller hold it.
package liveupdates
