// Package nodelabels computes the labels of a node from what the node can do.
//
// Input: libvirt's documents (domain capabilities, capabilities, the baseline of the CPU), the CPU's facts, and the devices of
// the node. Output: the labels that KubeVirt's node labeller sets, and Virtward's own labels: whether each hypervisor is ready, and
// what it can do. Virtward's labels are below its own prefix, because virt-handler deletes labels below KubeVirt's.
//
// The package reads no file, no device and no cluster. Documents are bounded before they are parsed.
package nodelabels
