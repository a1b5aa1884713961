// Package v1beta1 holds the kinds of VM templates: VirtualMachineTemplate and VirtualMachineTemplateRequest, as VEP 76
// describes them and as existing clients send them, and VirtualMachineTemplateImport, which is Virtward's own.
//
// The package holds types only. Its comments are what `kubectl explain` prints. The copying functions and the
// definitions are generated.
//
// +groupName=template.kubevirt.io
// +versionName=v1beta1
// +kubebuilder:object:generate=true
package v1beta1
