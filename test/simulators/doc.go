// Package simulators plays the parts of KubeVirt that stand around Virtward in a cluster: virt-api's
// admission, virt-controller, virt-handler and the status that virt-operator writes. They simulate: no VM
// ever runs, and nothing here is KubeVirt's code.
//
// What enters: a control plane of package controlplane. What leaves: KubeVirt's webhook configurations with
// its names, rules and ways of patching, a record of the calls they received, and VirtualMachineInstances
// made from VirtualMachines under KubeVirt's own service accounts. The simulators do only what admission
// around them can notice, such as the order of calls, the replacement of /spec, owner references and status
// writes; they complete and check next to nothing, so that whatever is completed or rejected is ours.
package simulators
