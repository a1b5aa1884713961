// Package lookup gathers from the cluster what the pure packages need to judge one virtual machine: the
// instancetype and the preference that it refers to or that is inferred from its volumes, the architecture of
// its DataSource, and the presets that select it.
//
// What enters: a VM, and Objects, which is the cluster, or a handful of files. What leaves: the objects
// found, decoded; warnings about those that are missing; and, where KubeVirt itself would refuse the VM
// because nothing can be inferred, errors with field paths. An error of the second kind, the Go error, is
// never the user's fault: the cluster could not be asked.
//
// The package never changes an object, never caches, and never decides what a missing object means beyond
// what KubeVirt does.
package lookup
