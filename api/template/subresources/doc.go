// Package subresources holds what the aggregated API subresources.template.kubevirt.io takes and answers. Its versions
// v1alpha1 and v1beta1 have the same fields.
//
// +kubebuilder:object:generate=true
package subresources
