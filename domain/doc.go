// Package domain computes the libvirt domain that virt-launcher makes of a virtual machine instance.
//
// Input: a complete instance, the facts of the cluster, and the declared assumptions about the host, such as its CPUs and which
// volumes are block devices. Output: the domain as virt-launcher first defines it, the ports for hotplug, and the source of
// each element. NewConverter has KubeVirt's steps, one for each family of devices; a hypervisor replaces some of them, or adds
// its own. An instance that virt-launcher would not start is an Error, with the stage at which it fails.
//
// The types have libvirt's names. Where libvirt's Go types have a type for each variant, such as a file and a block device, the
// types here have one with the attributes of XML. Element is the document, in canonical order.
//
// The package never reads a host: what is not assumed is unknown. The number of elements is bounded before any is made.
package domain
