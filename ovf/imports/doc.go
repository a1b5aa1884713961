// Package imports decides what an import of an appliance, or of an artifact of a registry, creates.
//
// Input: a VirtualMachineTemplateImport, and the Appliance or the Artifact that its source is. Output: an Outcome: the disks, the template
// that refers to them, what the user can choose, and why nothing can be imported; and the objects of an import: the pod that serves the
// disks with its Secrets, its Service and its NetworkPolicy, the DataVolumes, and the template. The package is pure: keys, tokens and the
// time are arguments.
package imports
