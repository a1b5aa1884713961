// Package simulators simulates the components of KubeVirt in a cluster: virt-api's admission and subresources,
// virt-controller, virt-handler, and the status that virt-operator writes. No VM runs, and the package has no code of
// KubeVirt.
//
// Input: a control plane of package controlplane. Output: KubeVirt's webhook configurations with its names, rules and
// form of patches, a record of their calls, and VirtualMachineInstances created from VirtualMachines with KubeVirt's
// service accounts.
//
// The simulators do only what other admission webhooks can notice, such as the order of calls, the replacement of /spec,
// owner references and writes of status. They complete and validate nearly nothing, so completions and rejections are
// those of Virtward. Running VMs get their live updates as package liveupdates computes them, with start revisions,
// migrations, and the workload updater. A test causes failures by annotations of a VM, such as NeverReady.
package simulators
