// Package exports decides what an export of a template clones and serves.
//
// Input: a VirtualMachineTemplateExport and its template. Output: an Outcome: the volumes with content, where their content is, and why the
// template cannot be exported; and the objects of an export: the DataVolumes with the clones, and the pod that serves the OVA with its
// Secrets, its Service and its NetworkPolicy. The package is pure: keys, tokens and the time are arguments.
package exports
