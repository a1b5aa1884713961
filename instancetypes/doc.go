// Package instancetypes expands a virtual machine: it applies the instancetype and the preference that a VM names to its VMI
// spec, as KubeVirt does when it starts the VM.
//
// Input: a VMI spec, an Instancetype and a Preference, of which either may be missing, and a Recorder. Output: the same
// spec, expanded in place, the annotations that the VMI gets, and each filled field under the layer instancetype/NAME or
// preference/NAME. If the VM sets a field that the instancetype sets, the output is conflicts, each at its field, and the spec
// does not change.
//
// The package also has the rules for references: which object a VM refers to (InstancetypeReference), whether its matchers are
// valid (CheckMatchers), whether the vCPUs can be spread as preferred (CheckSpread), whether the VM has what the preference
// requires (Requirements), and what a preference sets in the VM itself (ApplyToVM).
//
// The package never reads a cluster: package references finds the objects, and infers them from volumes. It does not change
// the instancetype and the preference: values that it fills are copies.
package instancetypes
