// Package references gathers from the cluster what the pure packages need to evaluate one virtual machine: the
// instancetype and the preference that it refers to or that is inferred from its volumes, the architecture of
// its DataSource, and the presets that select it.
//
// What enters: a VM, and Objects, which is the cluster, or a handful of files. What leaves: the objects
// found, decoded; warnings about those that are missing; and, where KubeVirt itself would reject the VM
// because nothing can be inferred, conflicts with field paths. An error of the other kind, the Go error, means
// that there is no result: the cluster could not be read, or a preset cannot be applied.
//
// A VM may point at PersistentVolumeClaims, VolumeSnapshots and DataSources of other namespaces, and they are read
// with the permissions of the caller, not of the author of the VM. So the message does not depend on whether such an
// object is missing, unreadable or unlabelled. What is found cannot be hidden, as the resulting VM has it: the name of
// an instancetype, a preference or an architecture, from labels that are meant to be read. KubeVirt discloses the same.
// Under the policy Ignore, it also discloses whether such an object is missing or unlabelled: it rejects the VM in only one
// of these cases.
//
// The package never changes an object, never caches, and never decides what a missing object means beyond
// what KubeVirt does.
package references
