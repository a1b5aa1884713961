// Package v1alpha1 has the kind VirtualImage: an image of a disk, imported from a URL, that virtual machines use by name
// (design document "VirtualImage" of KupenStack).
//
// It imports no other package of Virtward, and has no logic. `kubectl explain` prints its comments. The
// functions that copy and the definitions are generated.
//
// +groupName=kupenstack.io
// +kubebuilder:object:generate=true
package v1alpha1
