// Package domains is the command domain: it shows the libvirt domain of a virtual machine before it runs.
//
// Input: files with virtual machines, the flags of the facts, and a file with assumptions about the node. Output: the domain
// document, a table in which each value has its source, or the differences between two domains. It changes nothing.
package domains
