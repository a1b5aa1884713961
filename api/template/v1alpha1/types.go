package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/template/v1beta1"
)

//go:generate ../../../bin/tools/controller-gen object paths=.

// GroupVersion is that of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "template.kubevirt.io", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &VirtualMachineTemplate{}, &VirtualMachineTemplateList{}, &VirtualMachineTemplateRequest{}, &VirtualMachineTemplateRequestList{},
		&VirtualMachineTemplateImport{}, &VirtualMachineTemplateImportList{}, &VirtualMachineTemplateExport{}, &VirtualMachineTemplateExportList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// VirtualMachineTemplate is a VirtualMachine with parameters. To make a
// VirtualMachine of it, process the template with values for its
// parameters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmt;vmts,categories=kubevirt;virtward
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Approved",type=string,JSONPath=`.status.conditions[?(@.type=="Approved")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The VirtualMachine and its parameters.
	Spec v1beta1.VirtualMachineTemplateSpec `json:"spec"`

	// What Virtward observed. Only Virtward writes it.
	//
	// +optional
	Status v1beta1.VirtualMachineTemplateStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateList is a list of VirtualMachineTemplates.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The templates.
	Items []VirtualMachineTemplate `json:"items"`
}

// VirtualMachineTemplateRequest makes a VirtualMachineTemplate of a
// VirtualMachine. Virtward snapshots the VirtualMachine, clones the
// snapshot's volumes into the namespace of the request and creates the
// template there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmtr;vmtrs,categories=kubevirt;virtward
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.virtualMachineRef.name`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.templateRef.name`
// +kubebuilder:printcolumn:name="Completed",type=string,JSONPath=`.status.conditions[?(@.type=="Completed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMachineTemplateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is captured. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec v1beta1.VirtualMachineTemplateRequestSpec `json:"spec"`

	// What Virtward has done.
	//
	// +optional
	Status v1beta1.VirtualMachineTemplateRequestStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateRequestList is a list of VirtualMachineTemplateRequests.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The requests.
	Items []VirtualMachineTemplateRequest `json:"items"`
}

// VirtualMachineTemplateImport makes a VirtualMachineTemplate of a virtual
// appliance: an OVA or an OVF. Virtward reads the descriptor, imports each
// disk into a DataVolume of the namespace and creates the template there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmti;vmtis,categories=kubevirt;virtward
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.templateRef.name`
// +kubebuilder:printcolumn:name="Completed",type=string,JSONPath=`.status.conditions[?(@.type=="Completed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: must have at most 63 characters"
type VirtualMachineTemplateImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is imported. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec v1beta1.VirtualMachineTemplateImportSpec `json:"spec"`

	// What Virtward has done.
	//
	// +optional
	Status v1beta1.VirtualMachineTemplateImportStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateImportList is a list of VirtualMachineTemplateImports.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateImportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The imports.
	Items []VirtualMachineTemplateImport `json:"items"`
}

// VirtualMachineTemplateExport serves a VirtualMachineTemplate and its
// volumes as an OVA for download. Virtward clones the volumes into the
// namespace of the export, and a pod there makes the OVA while it is
// downloaded. The clones and the pod are deleted with the export.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmte;vmtes,categories=kubevirt;virtward
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Expires",type=date,JSONPath=`.status.expires`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: must have at most 63 characters"
type VirtualMachineTemplateExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is exported. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec v1beta1.VirtualMachineTemplateExportSpec `json:"spec"`

	// What Virtward has done.
	//
	// +optional
	Status v1beta1.VirtualMachineTemplateExportStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateExportList is a list of VirtualMachineTemplateExports.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The exports.
	Items []VirtualMachineTemplateExport `json:"items"`
}
