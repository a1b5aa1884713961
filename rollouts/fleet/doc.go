// Package fleet plans how a VirtualMachineRollout applies its change to virtual machines.
//
// Input: the rollout with its status, what is observed of each selected virtual machine, PodDisruptionBudgets and the time.
// Output: the writes that come next, the new status, and when to plan again. The status is the only memory: it is written
// before the writes, and they are safe to repeat. So a new process continues where the previous one ended.
//
// The package is pure. What a change does to a virtual machine is planned by package rollouts; this package only decides
// which virtual machine is next.
package fleet
