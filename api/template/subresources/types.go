package subresources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
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
	// Approve approves a template's spec, or shows what an approval covers.
	Approve = "approve"
	// Revoke ends an approval.
	Revoke = "revoke"
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

// ApproveOptions approve a template's spec.
//
// +kubebuilder:object:root=true
type ApproveOptions struct {
	metav1.TypeMeta `json:",inline"`

	// The digest of the template that you reviewed: sha256:HEX. It is
	// required, except in a dry run. If the template has another digest, the
	// answer is 409.
	//
	// +optional
	Digest string `json:"digest,omitempty"`

	// Why you approve the template, at most 1024 bytes.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// The names of the parameters of type object. Such a parameter can add
	// fields to the VirtualMachine, so you must acknowledge each by its name.
	//
	// +optional
	// +listType=set
	ObjectParameters []string `json:"objectParameters,omitempty"`
}

// RevokeOptions end the approval of a template.
//
// +kubebuilder:object:root=true
type RevokeOptions struct {
	metav1.TypeMeta `json:",inline"`

	// Why you revoke the approval, at most 1024 bytes.
	//
	// +optional
	Message string `json:"message,omitempty"`
}

// TemplateReview is what an approver must know of a template.
//
// +kubebuilder:object:root=true
type TemplateReview struct {
	metav1.TypeMeta `json:",inline"`

	// The template.
	//
	// +optional
	TemplateRef *TemplateReference `json:"templateRef,omitempty"`

	// The digest of the template's spec and UID: sha256:HEX.
	//
	// +optional
	Digest string `json:"digest,omitempty"`

	// Whether this digest is approved: after the request, or as it is in a dry
	// run.
	Approved bool `json:"approved"`

	// The last approval. It is valid only if it has the digest of the review.
	//
	// +optional
	Approval *v1beta1.TemplateApproval `json:"approval,omitempty"`

	// Why the last approval is not valid, and what to do.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// Where the template comes from, if an import created it and its spec
	// has not changed since. An approval has it too.
	//
	// +optional
	Source *v1beta1.TemplateSource `json:"source,omitempty"`

	// Why the source is not known.
	//
	// +optional
	SourceReason string `json:"sourceReason,omitempty"`

	// What an approval does not cover: what the template refers to and others
	// can change.
	//
	// +optional
	// +listType=atomic
	Uncovered []Uncovered `json:"uncovered,omitempty"`

	// The parameters of type object. An approval must acknowledge each.
	//
	// +optional
	// +listType=atomic
	ObjectParameters []string `json:"objectParameters,omitempty"`
}

// Uncovered is a part of a template that can change without a change of its
// digest.
type Uncovered struct {
	// The field, such as spec.virtualMachine.spec.instancetype.
	Path string `json:"path"`

	// Why an approval does not cover it.
	Reason string `json:"reason"`
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
		scheme.AddKnownTypes(version, &ProcessOptions{}, &ProcessedVirtualMachineTemplate{}, &ApproveOptions{}, &RevokeOptions{}, &TemplateReview{})
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
func (ApproveOptions) OpenAPIModelName() string { return modelPrefix + "ApproveOptions" }

// OpenAPIModelName is the name in OpenAPI.
func (RevokeOptions) OpenAPIModelName() string { return modelPrefix + "RevokeOptions" }

// OpenAPIModelName is the name in OpenAPI.
func (TemplateReview) OpenAPIModelName() string { return modelPrefix + "TemplateReview" }

// OpenAPIModelName is the name in OpenAPI.
func (Templates) OpenAPIModelName() string { return modelPrefix + "VirtualMachineTemplate" }
