// Package startup finds out why a virtual machine does not run, from what a cluster says about it.
//
// Input: the virtual machine, its instance, pods, claims, DataVolumes and events. Output: symptoms in the order in which a person
// would read them, the first of which is the answer. The package reads no cluster. Why no node can run the pod is the subject of
// package placement.
package startup
