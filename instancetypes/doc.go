// Package instancetypes expands a virtual machine: it lays the instancetype and the preference that a VM
// names over its VMI spec, exactly as KubeVirt does when it starts the VM.
//
// What enters: a VMI spec, an Instancetype, a Preference (either may be missing), and a Recorder. What
// leaves: the same spec, expanded in place, the annotations that the VMI gets, and every field that was
// filled under the layer instancetype/NAME or preference/NAME. Where the VM sets a field that the
// instancetype owns, there are conflicts instead, each at its field, and the spec stays as it was.
//
// The rules around it are here too: which object a VM refers to (InstancetypeReference), whether its
// matchers make sense (CheckMatchers), whether the vCPUs can be spread as preferred (CheckSpread), whether
// the VM meets what the preference requires (Requirements), and what a preference puts into the VM itself
// (ApplyToVM).
//
// The package never reads a cluster: finding the objects, and inferring them from volumes, is lookup's.
// It keeps what its arguments point at: values that it fills are copies.
package instancetypes
