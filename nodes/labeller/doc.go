// Package labeller keeps Virtward's labels of the node on which it runs.
//
// Input: the devices, the CPU and the documents of libvirt on the node, and what the node offers to pods. Output: labels below
// Virtward's prefix, by server-side apply, on this node only. Package nodelabels decides them.
//
// The package reads no other node, changes nothing else of a node, and starts no program.
package labeller
