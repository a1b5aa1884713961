// Package v1alpha1 is the earlier version of the kinds of package v1beta1, with the same fields.
//
// +groupName=template.kubevirt.io
// +versionName=v1alpha1
// +kubebuilder:object:generate=true
package v1alpha1
