// Package why is the command why: it says why a virtual machine does not run, or on which nodes it could.
//
// Input: a virtual machine of the cluster or of files, what the user may read of the cluster, or files with nodes. Output: one answer,
// and then the symptoms, the reasons of the nodes, and what was assumed or not read. It changes nothing.
package why
