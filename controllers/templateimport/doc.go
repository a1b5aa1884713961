// Package templateimport makes VirtualMachineTemplates of virtual appliances and of artifacts of registries, as
// VirtualMachineTemplateImports ask for.
//
// What enters: an import, the appliance or the artifact that it names, and the objects of the import, all read live. What leaves: the pod that serves the
// disks with its Secrets, its Service and its NetworkPolicy, the DataVolumes, the template that owns them, and the status of the import.
// Each reconciliation observes, plans and applies; the plan depends on what exists and on nothing else, so a new process continues where
// another ended. The descriptor is read again when it is needed: the status has a digest of the result, and that of an artifact.
//
// The archive of a claim is read from a pod that mounts it, before another pod with the claim serves the disks. The package believes that pod
// no more than a web server. Only the process that created the pod knows its key: another one replaces the pod, if it needs the archive.
//
// A file of a web server that cannot be read by ranges is copied into a volume by a pod that ends, if the author permits it. What is verified
// is read from the web server again, and compared with the copy.
//
// A pod without its Service is not complete: it is deleted with all that belongs to it, and another one follows. So the package reads no
// Secret that it wrote. It reads the Secrets and the ConfigMaps that imports name, where an admin permits it. It never adopts an object: a
// name that is taken ends the import.
package templateimport
