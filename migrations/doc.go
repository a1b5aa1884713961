// Package migrations finds out which running virtual machines can migrate live, and where to.
//
// Input: instances with their pods, and a cluster prepared by package placement. Output: for each instance what keeps it from migrating,
// the nodes that can take it, and what a removed node would strand; and the CPU models that several nodes have in common. The package
// reads no cluster and migrates nothing.
package migrations
