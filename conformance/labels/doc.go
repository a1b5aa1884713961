// Package labels compares the labels of nodes of package nodelabels with those that KubeVirt's virt-handler set.
//
// Input: cases, one JSON object in each line: libvirt's documents about a node, KubeVirt's configuration, the labels before, and those
// afterwards. Output: a ratio for each area, and a text for each difference. The package never changes a case.
package labels
