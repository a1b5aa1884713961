// Package catalog has what VMs of a cluster usually refer to: instancetypes, preferences, golden images and nodes.
//
// Input: a client of an admin. Output: instancetypes and preferences with the names, sizes and requirements of
// kubevirt/common-instancetypes, a ready DataSource for each operating system of charts/virtward-common-templates, and nodes of two
// architectures. No image has data, and no node runs anything.
package catalog
