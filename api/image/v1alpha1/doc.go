// Package v1alpha1 has the kind with which an admin lists the golden images of a cluster.
//
// It imports no other package of Virtward, and has no logic. `kubectl explain` prints its comments. The
// functions that copy and the definitions are generated.
//
// +groupName=image.virtward.io
// +kubebuilder:object:generate=true
package v1alpha1
