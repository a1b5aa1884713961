// Package virtualimages keeps VirtualImages: it imports each into the backend of its class, counts the virtual machines that
// use it, and deletes it when none does.
//
// What enters: VirtualImages, and the virtual machines, instances, DataVolumes and templates that refer to images. What
// leaves: calls of backends, the status, the finalizer, and events. The plan is that of the package of the same name.
//
// Everything that is remembered can be read again: a process that ends at any step continues after its start.
package virtualimages
