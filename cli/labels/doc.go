// Package labels is the command nodelabels.
//
// Input: libvirt's documents about a node, and the KubeVirt object of a cluster. Output: the labels that the node would have in that
// cluster, of KubeVirt and of Virtward. The command reads no node and no cluster.
package labels
