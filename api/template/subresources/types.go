package subresources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

//go:generate ../../../bin/tools/controller-gen object paths=.

// Group is the API group of the subresources of templates.
const Group = "subresources.template.kubevirt.io"

// The versions of the group, the preferred one first, as kubevirt/virt-template serves them.
var (
	V1Alpha1 = schema.GroupVersion{Group: Group, Version: "v1alpha1"}
	V1Beta1  = schema.GroupVersion{Group: Group, Version: "v1beta1"}
)

// Resource is the resource that the subresources belong to.
const Resource = "virtualmachinetemplates"

// The subresources.
const (
	// Process renders a template.
	Process = "process"
	// Create renders a template and creates the VirtualMachine.
	Create = "create"
	// Instantiate is what a user needs permission to create in a namespace for VirtualMachines of templates of other
	// namespaces.
	Instantiate = "instantiate"
)

// The annotations of a VirtualMachine that was created from a template.
const (
	// TemplateAnnotation is the template: NAMESPACE/NAME.
	TemplateAnnotation = "template.kubevirt.io/template"
	// DigestAnnotation is the digest of the template's spec.
	DigestAnnotation = "template.kubevirt.io/template-digest"
	// RequesterAnnotation is the user who created it.
	RequesterAnnotation = "template.kubevirt.io/requester"
)

// ProcessOptions are the values of a template's parameters.
//
// +kubebuilder:object:root=true
type ProcessOptions struct {
	metav1.TypeMeta `json:",inline"`

	// The values, by the names of the parameters.
	//
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`

	// The namespace in which create creates the VirtualMachine; that of the
	// template if it is empty. For another namespace you need permission to
	// create virtualmachinetemplates/instantiate there.
	//
	// +optional
	TargetNamespace string `json:"targetNamespace,omitempty"`
}

// ProcessedVirtualMachineTemplate is a rendered template.
//
// +kubebuilder:object:root=true
type ProcessedVirtualMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// The template.
	//
	// +optional
	TemplateRef *TemplateReference `json:"templateRef,omitempty"`

	// The VirtualMachine: as rendered, or as created.
	//
	// +optional
	VirtualMachine *kubevirtv1.VirtualMachine `json:"virtualMachine,omitempty"`

	// The template's message.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// TemplateReference names a template.
type TemplateReference struct {
	// The namespace.
	Namespace string `json:"namespace"`

	// The name.
	Name string `json:"name"`
}

// Templates is the resource that the subresources belong to. It is not served.
//
// +kubebuilder:object:root=true
type Templates struct {
	metav1.TypeMeta `json:",inline"`
}

// AddToScheme adds both versions to a scheme, and the internal one, which are the same types.
func AddToScheme(scheme *runtime.Scheme) {
	for _, version := range []schema.GroupVersion{V1Alpha1, V1Beta1, {Group: Group, Version: runtime.APIVersionInternal}} {
		scheme.AddKnownTypes(version, &ProcessOptions{}, &ProcessedVirtualMachineTemplate{})
		scheme.AddKnownTypeWithName(version.WithKind("VirtualMachineTemplate"), &Templates{})
		if version.Version != runtime.APIVersionInternal {
			metav1.AddToGroupVersion(scheme, version)
		}
	}
}

// The names of the types in OpenAPI.
const modelPrefix = "io.kubevirt.template.subresources."

// OpenAPIModelName is the name in OpenAPI.
func (ProcessOptions) OpenAPIModelName() string { return modelPrefix + "ProcessOptions" }

// OpenAPIModelName is the name in OpenAPI.
func (ProcessedVirtualMachineTemplate) OpenAPIModelName() string {
	return modelPrefix + "ProcessedVirtualMachineTemplate"
}

// OpenAPIModelName is the name in OpenAPI.
func (Templates) OpenAPIModelName() string { return modelPrefix + "VirtualMachineTemplate" }
