package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VirtualMachineTemplateRequest makes a VirtualMachineTemplate of a
// VirtualMachine. Virtward snapshots the VirtualMachine, clones the
// snapshot's volumes into the namespace of the request and creates the
// template there.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec VirtualMachineTemplateRequestSpec `json:"spec"`

	// What Virtward has done.
	//
	// +optional
	Status VirtualMachineTemplateRequestStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateRequestSpec says what is captured.
type VirtualMachineTemplateRequestSpec struct {
	// The VirtualMachine to capture. You need permission to get it and to
	// create virtualmachinesnapshots in its namespace.
	VirtualMachineRef VirtualMachineReference `json:"virtualMachineRef"`

	// The name of the template. By default, the name of the request.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	TemplateName string `json:"templateName,omitempty"`

	// Labels of the template. Keys that start with template.kubevirt.io/ are
	// reserved.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('template.kubevirt.io/'))",message="labels with the prefix template.kubevirt.io/ are reserved"
	TemplateLabels map[string]string `json:"templateLabels,omitempty"`

	// What the template has in place of an instancetype and a preference:
	// their fields (Expand, the default), or the same references (Keep).
	//
	// +optional
	// +kubebuilder:validation:Enum=Expand;Keep
	InstancetypePolicy InstancetypePolicy `json:"instancetypePolicy,omitempty"`

	// The state that the VirtualMachine must have while it is snapshotted:
	// any (Any, the default); stopped, or its guest agent froze the file
	// systems (Quiesced); or stopped, with a run strategy that does not start
	// it (Stopped). Otherwise the capture fails before a volume is cloned.
	//
	// +optional
	// +kubebuilder:validation:Enum=Any;Quiesced;Stopped
	SourceState SourceState `json:"sourceState,omitempty"`

	// Virtward deletes a completed request after this number of seconds.
	// Without a value, or if the request fails, it is kept.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// VirtualMachineReference names a VirtualMachine.
type VirtualMachineReference struct {
	// The namespace.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`

	// The name.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// The conditions of a request.
const (
	// RequestReady: the template exists and is ready.
	RequestReady = "Ready"
	// RequestProgressing: Virtward works on it.
	RequestProgressing = "Progressing"
	// RequestCompleted: the template exists and all intermediate objects are gone.
	RequestCompleted = "Completed"
)

// VirtualMachineTemplateRequestStatus is what Virtward has done.
type VirtualMachineTemplateRequestStatus struct {
	// Ready: the template exists and is ready. Progressing: Virtward works on
	// the request. Completed: the template exists and all intermediate objects
	// are gone.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The template.
	//
	// +optional
	TemplateRef *TemplateReference `json:"templateRef,omitempty"`
}

// TemplateReference names the template of a request, which is in the same namespace.
type TemplateReference struct {
	// The name.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
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
