// Package relations has a test of how the answers about one virtual machine relate to each other: those of the commands plan,
// diff and status, the annotation, the warnings, and the outcomes of VirtualMachineRollouts.
//
// Input: the recorded cases of package rollouts, before and after KubeVirt has written a change. Output: a failure for each
// answer that contradicts another one.
package relations
