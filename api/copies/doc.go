// Package copies has the record of the author of a VirtualMachineRestore or a VirtualMachineClone. KubeVirt creates the
// virtual machine of these objects with its own account, so only the record names the user.
//
// What enters: the user of a request and the content of a snapshot, or the annotations of an object. What leaves: the text
// of the annotation, or the record. The package reads no cluster, and does not decide whether a record can be trusted: the
// guard virtward-copy-authors allows only records of the user of the request.
package copies
