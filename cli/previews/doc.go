// Package previews computes the domains of virtual machines for the commands that show or change them, and reads KubeVirt's
// Plugins.
//
// Its input is documents of files or of a cluster, and the assumptions about the node. Its output is the instance, its domain as
// virt-launcher passes it to libvirt, and compiled Plugins. It changes nothing.
package previews
