// Package nodetuning decides how the processes of a virtual machine are tuned on a node, for hypervisors that KubeVirt does not tune
// itself.
//
// Input: the instance, the facts of the cluster, and the threads of its process. Output: a limit of locked memory, and the CPUs and
// threads of housekeeping. The package changes nothing: nodes/process applies what it returns.
package nodetuning
