// Package v1alpha1 has the kind VirtualMachineRollout, which applies a change to many virtual machines.
//
// It has types, the names of annotations and their formats, and no other logic. `kubectl explain` prints its comments. The
// functions that copy, and the definition in the chart, are generated.
//
// +groupName=rollout.virtward.io
// +kubebuilder:object:generate=true
package v1alpha1
