package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The bounds of a template, as in its definition.
const (
	MaxParameters      = 500
	MaxParameterName   = 253
	MaxParameterText   = 4096
	MaxParameterValue  = 1 << 20
	MaxEnumValues      = 100
	MaxMessage         = 32 << 10
	MaxTemplateVolumes = 256
)

// VirtualMachineTemplate is a VirtualMachine with parameters. To make a
// VirtualMachine of it, process the template with values for its
// parameters.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec VirtualMachineTemplateSpec `json:"spec"`

	// What Virtward observed. Only Virtward writes it.
	//
	// +optional
	Status VirtualMachineTemplateStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateSpec is a VirtualMachine and its parameters.
type VirtualMachineTemplateSpec struct {
	// The VirtualMachine. Any string in it, and any key of a map, can contain
	// ${NAME}, which is replaced with the value of the parameter NAME. A
	// string that is ${{NAME}} as a whole is replaced with the value as JSON:
	// a number, a boolean, a list or an object.
	//
	// A metadata.namespace without a parameter is removed: the VirtualMachine
	// is created in the namespace of the request.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	VirtualMachine *runtime.RawExtension `json:"virtualMachine"`

	// The parameters, at most 500.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	Parameters []Parameter `json:"parameters,omitempty"`

	// Text for the user who processes the template, at most 32768
	// characters. It can contain ${NAME}.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// Parameter is a value that the user of a template chooses.
//
// Virtward uses the first of these: the value that the user gives, the
// field value, a generated value. Otherwise the parameter is empty. A
// required parameter must not be empty.
type Parameter struct {
	// The name, as in ${NAME}: letters, digits and underscores.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The name that user interfaces show.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	DisplayName string `json:"displayName,omitempty"`

	// What the parameter is for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// The value if the user gives none.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1048576
	Value string `json:"value,omitempty"`

	// How a value is generated if there is none: expression generates it by
	// the expression in from.
	//
	// +optional
	// +kubebuilder:validation:Enum=expression
	Generate string `json:"generate,omitempty"`

	// The expression: text with classes such as [a-z0-9]{8}, each of which is
	// replaced with that many random characters, 1 to 255. A class has
	// letters, digits, ranges, \d (digits), \a (letters and digits), \w
	// (letters, digits and the underscore) and \A (punctuation).
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`\[[a-zA-Z0-9\-\\]+\]\{[a-zA-Z0-9_]+\}`
	From string `json:"from,omitempty"`

	// Whether the parameter must have a value.
	//
	// +optional
	Required bool `json:"required,omitempty"`

	// What values are: string, integer, quantity, boolean or object. Without a
	// type, any text is a value. Only a parameter of type object can add
	// fields to a VirtualMachine whose template must be approved.
	//
	// +optional
	// +kubebuilder:validation:Enum=string;integer;quantity;boolean;object
	Type ParameterType `json:"type,omitempty"`

	// The values that are allowed, at most 100.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=4096
	Enum []string `json:"enum,omitempty"`

	// A regular expression (RE2) that the whole value must match.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Pattern string `json:"pattern,omitempty"`

	// The least value, for the types integer and quantity.
	//
	// +optional
	Minimum *resource.Quantity `json:"minimum,omitempty"`

	// The greatest value, for the types integer and quantity.
	//
	// +optional
	Maximum *resource.Quantity `json:"maximum,omitempty"`
}

// ParameterType is what the values of a parameter are.
type ParameterType string

// The types of parameters.
const (
	// ParameterString is any text.
	ParameterString ParameterType = "string"
	// ParameterInteger is a decimal integer of any size.
	ParameterInteger ParameterType = "integer"
	// ParameterQuantity is a quantity such as 4Gi.
	ParameterQuantity ParameterType = "quantity"
	// ParameterBoolean is true or false.
	ParameterBoolean ParameterType = "boolean"
	// ParameterObject is a list or an object in JSON.
	ParameterObject ParameterType = "object"
)

// GenerateExpression is the generator of parameters.
const GenerateExpression = "expression"

// The conditions of a template.
const (
	// TemplateReady: a VirtualMachine can be made of the template.
	TemplateReady = "Ready"
	// TemplateApproved: an approver approved the spec as it is now.
	TemplateApproved = "Approved"
)

// The reasons of the condition Approved.
const (
	// ReasonApproved: the spec is approved as it is.
	ReasonApproved = "Approved"
	// ReasonChanged: another spec was approved.
	ReasonChanged = "Changed"
	// ReasonRevoked: an approver revoked the approval.
	ReasonRevoked = "Revoked"
	// ReasonNotApproved: there is no approval.
	ReasonNotApproved = "NotApproved"
	// ReasonNotSigned: the approval has no signature, so it does not count.
	ReasonNotSigned = "NotSigned"
	// ReasonSignatureInvalid: the signature of the approval is not valid, so
	// the approval does not count.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonEnded: the approval was revoked or replaced before, and is written
	// again, so it does not count.
	ReasonEnded = "Ended"
)

// ApprovalFieldOwner owns status.approval and the condition Approved.
const ApprovalFieldOwner = "virtward-approval"

// VirtualMachineTemplateStatus is what Virtward observed of a template.
type VirtualMachineTemplateStatus struct {
	// Ready: whether a VirtualMachine can be made of the template. Approved:
	// whether an approver approved the spec as it is now.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The last approval. It is valid only for the spec that has its digest,
	// and only with a signature of Virtward's API server.
	//
	// +optional
	Approval *TemplateApproval `json:"approval,omitempty"`

	// The volumes that the template depends on.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Volumes []TemplateVolume `json:"volumes,omitempty"`

	// The parameters, as the last observed spec has them.
	//
	// +optional
	Parameters *TemplateParameters `json:"parameters,omitempty"`
}

// TemplateApproval is an approver's approval of a spec.
type TemplateApproval struct {
	// The digest of the approved spec, and of the template's UID:
	// sha256:HEX.
	//
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest"`

	// The user who approved it.
	//
	// +kubebuilder:validation:MaxLength=1024
	ApprovedBy string `json:"approvedBy"`

	// When it was approved.
	ApprovedAt metav1.Time `json:"approvedAt"`

	// The approver's reason.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// Where the approved spec comes from, if an import created the template
	// and its spec has not changed since. It is signed too.
	//
	// +optional
	Source *TemplateSource `json:"source,omitempty"`

	// The signature of Virtward's API server for this approval of this
	// template. An approval without a valid one does not count.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Signature string `json:"signature,omitempty"`
}

// MaxSourceReference bounds the reference of a source, in characters.
const MaxSourceReference = 2048

// TemplateSource is where an imported template comes from.
type TemplateSource struct {
	// The kind of the source: http, oci or pvc.
	//
	// +kubebuilder:validation:Enum=http;oci;pvc
	Kind SourceKind `json:"kind"`

	// The URL without a user, a query and a fragment, the reference of the
	// artifact, or the claim and the path of the file in it: CLAIM/PATH.
	//
	// +kubebuilder:validation:MaxLength=2048
	Reference string `json:"reference"`

	// The digest of the file, if Virtward read all of it, or of what the
	// reference of an artifact named: sha256:HEX.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// Whether Virtward read the whole file in its own process before the
	// import, and compared it with the checksum, the manifest and the digests
	// of layers.
	//
	// +optional
	Verified bool `json:"verified,omitempty"`

	// Who signed the artifact, if an admin requires a signature.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Signer string `json:"signer,omitempty"`

	// The name of the VirtualMachineTemplateImport.
	//
	// +kubebuilder:validation:MaxLength=63
	Import string `json:"import"`
}

// SourceKind is the kind of the source of a template.
type SourceKind string

// The kinds of sources.
const (
	// SourceHTTP is a file on a web server.
	SourceHTTP SourceKind = "http"
	// SourceOCI is an artifact of a registry.
	SourceOCI SourceKind = "oci"
	// SourcePVC is a file of a claim.
	SourcePVC SourceKind = "pvc"
)

// TemplateVolume is a volume that a template depends on.
type TemplateVolume struct {
	// The name of the volume, or of the entry of dataVolumeTemplates.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// What the volume is made of: DataSource, PersistentVolumeClaim,
	// VolumeSnapshot or DataVolume.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// The namespace of that object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SourceNamespace string `json:"sourceNamespace,omitempty"`

	// The name of that object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SourceName string `json:"sourceName,omitempty"`

	// Ready: whether the object exists and is ready.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TemplateParameters are the names of a template's parameters.
type TemplateParameters struct {
	// The parameters without a value, which a user must give.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Required []string `json:"required,omitempty"`

	// The parameters that a user can give.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Optional []string `json:"optional,omitempty"`
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
