// Package process finds the processes of a pod on this node, and applies what package nodetuning decides.
//
// Input: the UID of a pod, the file systems of the kernel, and limits. Output: processes with their start times, their limit of locked
// memory, and a cgroup for threads. A process is identified by its number and its start time, because numbers are used again.
//
// The package never signals a process, and opens none of its files but those in /proc and its cgroup.
package process
