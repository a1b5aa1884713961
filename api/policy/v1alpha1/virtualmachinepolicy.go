package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerbEnforce is the verb on virtualmachinepolicies that a user must hold to make a policy reject objects.
const VerbEnforce = "enforce"

// MaxPolicyNameLength bounds the name of a policy, as it stands in its definition.
const MaxPolicyNameLength = 63

// VirtualMachinePolicy says what the virtual machines of this cluster must
// be like, in CEL or in Rego. It evaluates each one as it will run: expanded
// with its instancetype and preference, and filled with every default.
//
// All policies are asked about all objects that they match, and everything
// that they find is told at once. A policy that is broken never keeps another
// one from being asked.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinepolicies,singular=virtualmachinepolicy,scope=Cluster,shortName=vmpol,categories=virtward
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Severity",type=string,JSONPath=`.spec.severity`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`
// +kubebuilder:printcolumn:name="Category",type=string,JSONPath=`.spec.category`,priority=1
// +kubebuilder:printcolumn:name="Title",type=string,JSONPath=`.spec.title`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: may have 63 characters at most, as it is part of what every rejection says"
type VirtualMachinePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What must hold, for which objects, and what happens if it does not.
	Spec VirtualMachinePolicySpec `json:"spec"`

	// What Virtward makes of the policy.
	//
	// +optional
	Status VirtualMachinePolicyStatus `json:"status,omitempty"`
}

// VirtualMachinePolicySpec says what must hold.
//
// +kubebuilder:validation:XValidation:rule="has(self.validations) != has(self.rego)",message="a policy has either validations, which are CEL, or rego"
// +kubebuilder:validation:XValidation:rule="!has(self.rego) || !has(self.variables)",message="variables are for CEL: a Rego module has its own rules"
// +kubebuilder:validation:XValidation:rule="!has(self.rego) || !has(self.exportTo)",message="the API server knows no Rego: exportTo is for CEL"
type VirtualMachinePolicySpec struct {
	// What must hold, in a few words, for lists and reports: "Memory is at most
	// 8Gi".
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=120
	Title string `json:"title,omitempty"`

	// Why, and for whom, in as many words as it takes. Markdown.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// What the policy is about, for reports: resources, security, network.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Category string `json:"category,omitempty"`

	// How bad a violation is, for reports. It decides nothing: enforcement
	// does.
	//
	// +optional
	// +kubebuilder:default=medium
	Severity PolicySeverity `json:"severity,omitempty"`

	// What the author of a virtual machine can do about a violation, in one
	// sentence: "Choose a smaller instancetype." It stands at the end of every
	// message.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Remedy string `json:"remedy,omitempty"`

	// What the policy is asked about. Without it, the policy is asked about
	// every VirtualMachine and VirtualMachineInstance.
	//
	// +optional
	// +kubebuilder:default={}
	Match PolicyMatch `json:"match,omitempty"`

	// What the expressions can read as params.
	//
	// +optional
	Params *PolicyParams `json:"params,omitempty"`

	// Expressions with a name, which others read as variables.NAME. One can
	// read those before it. Each is computed at most once for an object, and
	// only if something reads it.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Variables []PolicyVariable `json:"variables,omitempty"`

	// What must hold, in CEL. All of them are asked, and everything that does
	// not hold is told. Either these or rego is given.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Validations []PolicyValidation `json:"validations,omitempty"`

	// What must hold, in Rego.
	//
	// +optional
	Rego *PolicyRego `json:"rego,omitempty"`

	// What a violation means: Deny rejects the object, Warn accepts it and
	// warns whoever sent it, Audit tells nobody but the report. Whoever sets
	// Deny, or changes a policy that denies, must hold the verb enforce on
	// virtualmachinepolicies.policy.virtward.io.
	Enforcement PolicyEnforcement `json:"enforcement"`

	// What it means that the policy cannot be evaluated: an expression fails or
	// costs too much, or the parameters are missing. With Fail it counts as a
	// violation, with Ignore it is a warning; a policy whose enforcement is
	// Warn or Audit never rejects anything.
	//
	// +optional
	// +kubebuilder:default=Fail
	FailurePolicy PolicyFailure `json:"failurePolicy,omitempty"`

	// What is exempt, and why.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Exceptions []PolicyException `json:"exceptions,omitempty"`

	// Where else the policy is enforced: APIServer makes a
	// ValidatingAdmissionPolicy of it, so that the API server rejects what
	// violates it while Virtward is away. That works for a CEL policy which
	// reads only what such policies can: no vm, provenance, platform,
	// instancetype, preference or requester. Virtward enforces it too. The
	// status lists what that form cannot do.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	ExportTo []PolicyExport `json:"exportTo,omitempty"`
}

// PolicyMatch says what a policy is asked about: what fits every field that is set.
type PolicyMatch struct {
	// The kinds of objects. Of a VirtualMachineTemplate and a
	// VirtualMachinePool, the virtual machine that they would make is evaluated.
	// A policy that leaves VirtualMachineInstance out is not asked again when a
	// virtual machine starts, with whatever its instancetype says by then.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={VirtualMachine,VirtualMachineInstance}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Kinds []PolicyKind `json:"kinds,omitempty"`

	// What is done to the object. Nothing is ever asked about a deletion. Of
	// an update, a violation that the object had before is a warning only.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={CREATE,UPDATE}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Operations []PolicyOperation `json:"operations,omitempty"`

	// The namespaces, by their labels; all of them without a selector. Every
	// namespace has the label kubernetes.io/metadata.name, which nobody can
	// set to another value; whoever may set the other labels of a namespace
	// decides whether it is selected by them. Virtward's own namespace and
	// kube-system are never selected.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// The objects, by their own labels; all of them without a selector. Of an
	// update, the labels before or after must fit. Whoever writes the object
	// writes its labels too: select by them what is opted in, not what is
	// exempt.
	//
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// Users that are not asked about, by name; a service account is
	// system:serviceaccount:NAMESPACE:NAME. This is about who sends the
	// object: a VirtualMachineInstance is sent by KubeVirt, whose accounts
	// cannot be excluded. The audit does not know who sent an object, and
	// reports it in any case.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ExcludedUsers []string `json:"excludedUsers,omitempty"`

	// Groups whose members are not asked about, as excludedUsers.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ExcludedGroups []string `json:"excludedGroups,omitempty"`

	// The hypervisors that the cluster may have, such as kvm or mshv.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Hypervisors []string `json:"hypervisors,omitempty"`

	// The architectures that the virtual machine may have, once it is
	// complete: amd64, arm64 or s390x.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Architectures []PolicyArchitecture `json:"architectures,omitempty"`

	// Conditions in CEL that must hold too. They read what validations read,
	// except variables.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []PolicyCondition `json:"matchConditions,omitempty"`
}

// PolicyCondition is a condition with a name.
type PolicyCondition struct {
	// The name, for messages.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// The condition: CEL that is true or false.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Expression string `json:"expression"`
}

// PolicyParams are what the expressions can read as params. Either values or configMap is given.
//
// +kubebuilder:validation:XValidation:rule="has(self.values) != has(self.configMap)",message="params are either values or configMap"
// +kubebuilder:validation:XValidation:rule="!has(self.parameterNotFoundAction) || has(self.configMap)",message="parameterNotFoundAction is about a configMap"
type PolicyParams struct {
	// The values, by name: params.NAME.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=100
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// The ConfigMap whose keys are the parameters: params.KEY. A value is a
	// string, unless the schema says that it is something else: then it is read
	// as YAML. What is not in the schema is left out.
	//
	// +optional
	ConfigMap *PolicyConfigMap `json:"configMap,omitempty"`

	// What it means that there is no such ConfigMap: Deny leaves the decision to
	// the failurePolicy, Allow makes that the policy is not asked. Deny by
	// default.
	//
	// +optional
	ParameterNotFoundAction PolicyParameterNotFound `json:"parameterNotFoundAction,omitempty"`

	// The OpenAPI schema of the parameters, as definitions of resources have it.
	// Values that do not fit it are an error, its defaults fill what is not
	// there, and an expression that misspells a parameter is an error too.
	// Without a schema, a mistake shows only when the policy is asked.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	Schema *apiextensionsv1.JSON `json:"schema,omitempty"`
}

// PolicyConfigMap names a ConfigMap.
type PolicyConfigMap struct {
	// Its namespace.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Its name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PolicyVariable is an expression with a name.
type PolicyVariable struct {
	// The name, by which others read it: variables.NAME.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`

	// The expression, in CEL. Its type is whatever comes out of it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Expression string `json:"expression"`
}

// PolicyValidation is what must hold, and what is said if it does not.
//
// +kubebuilder:validation:XValidation:rule="has(self.message) || has(self.messageExpression)",message="say what is wrong, by message or messageExpression"
type PolicyValidation struct {
	// A name, for messages about the policy itself.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// What must hold: CEL that is true or false. It reads vm, the virtual
	// machine as it will run, with metadata and spec; object, oldObject,
	// request, params, namespaceObject, authorizer and variables as native
	// policies do; provenance, platform, instancetype, preference and requester.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Expression string `json:"expression"`

	// What is wrong if it does not hold: "a VM may have 8Gi of memory".
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// What is wrong, in CEL that makes a string. If it fails or makes nothing,
	// the message is told.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	MessageExpression string `json:"messageExpression,omitempty"`

	// The field that is wrong: one of vm, such as spec.domain.memory.guest, or
	// one of the object, such as spec.runStrategy. Elements of lists are
	// written as disks[0], keys of maps as labels[app.kubernetes.io/name]. The
	// answer names it as the author of the object knows it:
	// spec.template.spec.domain.memory.guest of a VirtualMachine, or
	// spec.instancetype.name if the value comes from there. Where a path could
	// be either, as metadata.labels, it is the object's; with vm. in front of
	// it, vm's.
	//
	// The value that is found there is told, and of an update it decides
	// whether the violation was there before: without the field, one that
	// grows looks like the one before, if its message is the same.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	FieldPath string `json:"fieldPath,omitempty"`

	// The type of the cause in the answer. By default it follows from what
	// stands at fieldPath: a value is Invalid, and if there is none, it is
	// Required; without a fieldPath it is Forbidden.
	//
	// +optional
	Reason PolicyReason `json:"reason,omitempty"`
}

// PolicyRego is a policy in Rego.
type PolicyRego struct {
	// The module, in Rego v1. Its rules deny and warn are sets of messages or
	// of objects with msg and field; deny means what enforcement says, and warn
	// is at most a warning. Its input holds what CEL expressions read. Nothing
	// that reaches out of the module is there: no http.send, no net, no
	// environment.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Module string `json:"module"`
}

// PolicyException is what a policy is not asked about.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) || has(self.names)",message="an exception says for which namespaces or names it is"
type PolicyException struct {
	// The namespaces. A * at the end stands for anything: lab-*.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9.-]*\*?$`
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Namespaces []string `json:"namespaces,omitempty"`

	// The names of objects, as the namespaces are written. With both, it is
	// these names in these namespaces. A VirtualMachineInstance has the name
	// of its VirtualMachine.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9.-]*\*?$`
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`

	// When it ends; never if this is left out.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// Why it is made, for whoever reads it later.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// PolicyKind is a kind that policies evaluate.
//
// +kubebuilder:validation:Enum=VirtualMachine;VirtualMachineInstance;VirtualMachineTemplate;VirtualMachinePool
type PolicyKind string

// The kinds that policies evaluate.
const (
	PolicyVirtualMachine         PolicyKind = "VirtualMachine"
	PolicyVirtualMachineInstance PolicyKind = "VirtualMachineInstance"
	PolicyVirtualMachineTemplate PolicyKind = "VirtualMachineTemplate"
	PolicyVirtualMachinePool     PolicyKind = "VirtualMachinePool"
)

// PolicyOperation is what is done to an object.
//
// +kubebuilder:validation:Enum=CREATE;UPDATE
type PolicyOperation string

// The operations.
const (
	PolicyCreate PolicyOperation = "CREATE"
	PolicyUpdate PolicyOperation = "UPDATE"
)

// PolicyArchitecture is an architecture that KubeVirt runs virtual machines on.
//
// +kubebuilder:validation:Enum=amd64;arm64;s390x
type PolicyArchitecture string

// PolicySeverity says how bad a violation is.
//
// +kubebuilder:validation:Enum=low;medium;high;critical
type PolicySeverity string

// The severities of policies, the mildest first.
const (
	PolicyLow      PolicySeverity = "low"
	PolicyMedium   PolicySeverity = "medium"
	PolicyHigh     PolicySeverity = "high"
	PolicyCritical PolicySeverity = "critical"
)

// PolicyEnforcement says what a violation means.
//
// +kubebuilder:validation:Enum=Deny;Warn;Audit
type PolicyEnforcement string

// The enforcements, the strictest first.
const (
	// PolicyDeny rejects the object.
	PolicyDeny PolicyEnforcement = "Deny"
	// PolicyWarn accepts the object, and warns whoever sent it.
	PolicyWarn PolicyEnforcement = "Warn"
	// PolicyAudit accepts the object, and reports it.
	PolicyAudit PolicyEnforcement = "Audit"
)

// PolicyFailure says what it means that a policy cannot be evaluated.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type PolicyFailure string

// The failure policies.
const (
	// PolicyFail takes it for a violation.
	PolicyFail PolicyFailure = "Fail"
	// PolicyIgnore only warns.
	PolicyIgnore PolicyFailure = "Ignore"
)

// PolicyParameterNotFound says what it means that parameters are missing.
//
// +kubebuilder:validation:Enum=Allow;Deny
type PolicyParameterNotFound string

// What missing parameters mean.
const (
	// PolicyParameterAllow makes that the policy is not asked.
	PolicyParameterAllow PolicyParameterNotFound = "Allow"
	// PolicyParameterDeny leaves it to the failurePolicy.
	PolicyParameterDeny PolicyParameterNotFound = "Deny"
)

// PolicyReason is the type of a violation.
//
// +kubebuilder:validation:Enum=Unauthorized;Forbidden;Invalid;RequestEntityTooLarge
type PolicyReason string

// The reasons, which are those of native policies.
const (
	PolicyUnauthorized PolicyReason = "Unauthorized"
	PolicyForbidden    PolicyReason = "Forbidden"
	PolicyInvalid      PolicyReason = "Invalid"
	PolicyTooLarge     PolicyReason = "RequestEntityTooLarge"
)

// PolicyExport is where else a policy is enforced.
//
// +kubebuilder:validation:Enum=APIServer
type PolicyExport string

// PolicyExportAPIServer makes a ValidatingAdmissionPolicy of a policy.
const PolicyExportAPIServer PolicyExport = "APIServer"

// VirtualMachinePolicyStatus is what Virtward makes of a policy.
type VirtualMachinePolicyStatus struct {
	// The generation of the spec that this is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Compiled: the expressions are valid. Ready: the policy is compiled, has
	// its parameters and is asked. Exported: the API server has its own form of
	// it.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What is wrong with the policy, or doubtful in it; the first 50.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Problems []PolicyProblem `json:"problems,omitempty"`

	// What asking the policy about one object may cost at most, in the units of
	// CEL: 10000000 are about a second. It is an estimate, far above what it
	// really costs where lists have no bound in their schema, and decides
	// nothing.
	//
	// +optional
	EstimatedCost *int64 `json:"estimatedCost,omitempty"`

	// Whether the policy can be asked about what exists already.
	//
	// +optional
	Auditable *bool `json:"auditable,omitempty"`

	// Why it cannot.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	NotAuditable []string `json:"notAuditable,omitempty"`

	// Where the policy is enforced: Webhook, APIServer.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	EnforcedBy []PolicyEnforcer `json:"enforcedBy,omitempty"`

	// What the API server's own form of the policy cannot do.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ExportNotes []string `json:"exportNotes,omitempty"`

	// How many objects violated the policy when the last audit looked.
	//
	// +optional
	Violations *int64 `json:"violations,omitempty"`

	// When that was.
	//
	// +optional
	LastAudit *metav1.Time `json:"lastAudit,omitempty"`
}

// PolicyProblem is what is wrong with a policy, or doubtful in it.
type PolicyProblem struct {
	// The field: spec.validations[0].expression.
	//
	// +kubebuilder:validation:MaxLength=512
	Field string `json:"field"`

	// The line in the field's text, from 1 on; 0 if it is about all of it.
	//
	// +optional
	Line int32 `json:"line,omitempty"`

	// The column in the line, from 1 on.
	//
	// +optional
	Column int32 `json:"column,omitempty"`

	// What is wrong.
	//
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// Whether it is a warning: the policy is asked all the same.
	//
	// +optional
	Warning bool `json:"warning,omitempty"`
}

// MaxPolicyProblems and MaxPolicyProblemLength bound the problems in a status, as they stand in the definition.
const (
	MaxPolicyProblems      = 50
	MaxPolicyProblemLength = 1024
)

// PolicyEnforcer is what enforces a policy.
//
// +kubebuilder:validation:Enum=Webhook;APIServer
type PolicyEnforcer string

// The enforcers.
const (
	PolicyByWebhook   PolicyEnforcer = "Webhook"
	PolicyByAPIServer PolicyEnforcer = "APIServer"
)

// The conditions of a policy.
const (
	// PolicyReady says that the policy is asked.
	PolicyReady = "Ready"
	// PolicyCompiled says that its expressions are valid.
	PolicyCompiled = "Compiled"
	// PolicyExported says that the API server has its own form of it.
	PolicyExported = "Exported"
)

// The reasons of a policy's conditions, and of the events about them.
const (
	// PolicyReasonCompiled is the reason of Compiled if it is true.
	PolicyReasonCompiled = "Compiled"
	// PolicyReasonReady is the reason of Ready if it is true.
	PolicyReasonReady = "Ready"
	// PolicyReasonExported is the reason of Exported if it is true.
	PolicyReasonExported = "Exported"
	// PolicyReasonCompileFailed means that the policy does not compile. status.problems lists the errors.
	PolicyReasonCompileFailed = "CompileFailed"
	// PolicyReasonParamsMissing means that the ConfigMap with the parameters does not exist.
	PolicyReasonParamsMissing = "ParamsMissing"
	// PolicyReasonNotExportable means that the API server cannot evaluate the policy.
	PolicyReasonNotExportable = "NotExportable"
	// PolicyReasonNameTaken means that another object has the name of the exported policy or of its binding.
	PolicyReasonNameTaken = "NameTaken"
	// PolicyReasonRejected means that the API server rejected the exported policy or its binding.
	PolicyReasonRejected = "Rejected"
)

// VirtualMachinePolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type VirtualMachinePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachinePolicy `json:"items"`
}
