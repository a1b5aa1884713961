// Package explain is the command explain: it shows how virtual machines will run, and what is wrong with them.
//
// Its input is manifests, or objects of a cluster. Its output is an explanation of each virtual machine; package
// explanation writes them. It changes nothing in the cluster.
package explain
