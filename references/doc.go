// Package references gathers from the cluster what the pure packages need to evaluate one virtual machine: the
// instancetype and the preference that it refers to or that is inferred from its volumes, the architecture of
// its DataSource, and the presets that select it.
//
// What enters: a VM, and Objects, which is the cluster, or a handful of files. What leaves: the objects
// found, decoded; warnings about those that are missing; and, where KubeVirt itself would reject the VM
// because nothing can be inferred, conflicts with field paths. An error of the other kind, the Go error, means
// that no answer is better than this one: the cluster could not be asked, or a preset cannot be taken in.
//
// A VM may point at PersistentVolumeClaims, VolumeSnapshots and DataSources of other namespaces, and they are read
// with the rights of the caller, not of whoever wrote the VM. So what is not found there is put in one wording,
// or in none, whether it is missing, unreadable or unlabelled. What is found cannot be hidden, as it is in the
// VM that results: the name of an instancetype, a preference or an architecture, from labels that are meant to be
// read. KubeVirt shows the same, and by rejecting a VM, or not, it tells under the policy Ignore a missing object
// from an unlabelled one.
//
// The package never changes an object, never caches, and never decides what a missing object means beyond
// what KubeVirt does.
package references
