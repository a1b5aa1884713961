// Package migration has the commands migratable and drain-check: which running virtual machines can migrate live, and what a node that
// is drained would strand.
//
// Input: the running instances, pods and nodes of a cluster, as far as the user may read them. Output: a row for each instance, with the
// reason and the nodes. They change nothing.
package migration
