// Package templateexport serves VirtualMachineTemplates as OVAs or OCI artifacts, as VirtualMachineTemplateExports ask for.
//
// What enters: an export, its template, and the objects of the export, all read live. What leaves: a DataVolume with a clone of each volume,
// the pod that makes the file with its Secrets, its Service and its NetworkPolicy, and the status with the link. Each reconciliation
// observes, plans and applies; the plan depends on what exists and on nothing else, so a new process continues where another ended. All
// objects belong to the export or to its pod, so the garbage collector deletes them with it: an export has no finalizer.
//
// A pod without its Service, or whose link is not in the status, is not complete: it is deleted with all that belongs to it, and another one
// follows. So the package reads no Secret. It never adopts an object: a name that is taken ends the export. Guards check what the author of
// an export may read; the sources of the volumes are in namespaces that the spec names.
package templateexport
