package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VerbEnforce is the verb on virtualmachinepolicies that users need to set a
// policy that denies requests.
const VerbEnforce = "enforce"

// MaxPolicyNameLength is the length of a policy's name, as in its definition.
const MaxPolicyNameLength = 63

// VirtualMachinePolicy defines requirements for the virtual machines in the
// cluster, in CEL or in Rego. It is evaluated on the effective VM: the virtual
// machine as it will run, expanded with its instancetype and preference, with
// all defaults.
//
// Every active policy is evaluated on every object that it matches. A request
// that is denied lists all violations of all policies. A policy that cannot be
// evaluated does not affect the other policies.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinepolicies,singular=virtualmachinepolicy,scope=Cluster,shortName=vmpol,categories=virtward
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Severity",type=string,JSONPath=`.spec.severity`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`
// +kubebuilder:printcolumn:name="Errors",type=integer,JSONPath=`.status.evaluationErrors`
// +kubebuilder:printcolumn:name="Denied",type=integer,JSONPath=`.status.denials.count`,priority=1
// +kubebuilder:printcolumn:name="Category",type=string,JSONPath=`.spec.category`,priority=1
// +kubebuilder:printcolumn:name="Title",type=string,JSONPath=`.spec.title`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: must have at most 63 characters"
type VirtualMachinePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Requirements, the objects that they apply to, and the effect of a
	// violation.
	Spec VirtualMachinePolicySpec `json:"spec"`

	// Observed state of the policy, written by Virtward.
	//
	// +optional
	Status VirtualMachinePolicyStatus `json:"status,omitempty"`
}

// VirtualMachinePolicySpec has the requirements, the objects that they apply
// to, and the effect of a violation.
//
// +kubebuilder:validation:XValidation:rule="has(self.validations) != has(self.rego)",message="exactly one of validations and rego is required"
// +kubebuilder:validation:XValidation:rule="!has(self.rego) || !has(self.variables)",message="variables are for CEL: in Rego, define rules in the module"
// +kubebuilder:validation:XValidation:rule="!has(self.rego) || !has(self.exportTo)",message="only a policy in CEL can have exportTo: the API server cannot evaluate Rego"
type VirtualMachinePolicySpec struct {
	// Short text for lists and reports that says what the policy requires. For
	// example: "Memory is at most 8Gi".
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=120
	Title string `json:"title,omitempty"`

	// Why the policy exists and for whom, in Markdown.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// Topic of the policy, for reports. For example: resources, security or
	// network.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Category string `json:"category,omitempty"`

	// Importance of a violation, for reports. It does not affect admission: see
	// enforcement.
	//
	// +optional
	// +kubebuilder:default=medium
	Severity PolicySeverity `json:"severity,omitempty"`

	// What the author of a virtual machine can do about a violation, in one
	// sentence. For example: "Choose a smaller instancetype." Every message
	// ends with it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Remedy string `json:"remedy,omitempty"`

	// Requests that the policy is evaluated on. By default, these are creates
	// and updates of all VirtualMachines and VirtualMachineInstances.
	//
	// +optional
	// +kubebuilder:default={}
	Match PolicyMatch `json:"match,omitempty"`

	// Parameters, which expressions read as params.
	//
	// +optional
	Params *PolicyParams `json:"params,omitempty"`

	// Named expressions, which other expressions read as variables.NAME. A
	// variable can read the variables before it. Each is computed at most once
	// for an object, when it is first read.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Variables []PolicyVariable `json:"variables,omitempty"`

	// Requirements in CEL. Each one is evaluated, and each one that is false is
	// a violation. Exactly one of validations and rego is required.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Validations []PolicyValidation `json:"validations,omitempty"`

	// Requirements in Rego. Exactly one of validations and rego is required.
	//
	// +optional
	Rego *PolicyRego `json:"rego,omitempty"`

	// Effect of a violation. Deny denies the request. Warn admits it with a
	// warning. Audit admits it without a warning, and the violation appears
	// only in reports. To set Deny, or to change a policy that denies, you need
	// the verb enforce on virtualmachinepolicies.policy.virtward.io.
	Enforcement PolicyEnforcement `json:"enforcement"`

	// What happens if the policy cannot be evaluated, because it does not
	// compile, an expression fails or exceeds its budget, or the parameters are
	// missing. Fail handles this as a violation. Ignore admits the request with
	// a warning. A policy whose enforcement is Warn or Audit never denies a
	// request.
	//
	// +optional
	// +kubebuilder:default=Fail
	FailurePolicy PolicyFailure `json:"failurePolicy,omitempty"`

	// Objects that are exempt from the policy, with a reason.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Exceptions []PolicyException `json:"exceptions,omitempty"`

	// Where the policy is enforced in addition to Virtward's webhook. APIServer
	// exports it as a ValidatingAdmissionPolicy, which the API server evaluates
	// even while Virtward is down. The policy must be in CEL and must not read
	// vm, provenance, platform, instancetype, preference, requester, rollout or
	// references.
	// status.exportNotes lists the differences.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	ExportTo []PolicyExport `json:"exportTo,omitempty"`
}

// PolicyMatch selects the requests that a policy is evaluated on. A request
// must match every field that is set.
type PolicyMatch struct {
	// Kinds of objects. For a VirtualMachineTemplate and a VirtualMachinePool,
	// the policy is evaluated on the virtual machine that they describe.
	// Without VirtualMachineInstance, the policy is not evaluated again when a
	// virtual machine starts, although its instancetype can have changed. For a
	// Plugin of KubeVirt, domain is that of a small virtual machine after all
	// hooks of the Plugin, and there is no vm and no pod.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={VirtualMachine,VirtualMachineInstance}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	Kinds []PolicyKind `json:"kinds,omitempty"`

	// Operations. On an update, a pre-existing violation is only a warning. On
	// DELETE, object is null, oldObject is the object, and vm is computed from
	// it. The garbage collector, the deletion of a namespace and KubeVirt's own
	// accounts are exempt. An update that adds or changes an owner of the object
	// is evaluated as DELETE too, because the garbage collector deletes the
	// object with its owner. Deletions of VirtualMachineTemplates are not
	// evaluated.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={CREATE,UPDATE}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Operations []PolicyOperation `json:"operations,omitempty"`

	// Labels of the namespaces. Without a selector, all namespaces match. Users
	// cannot change the label kubernetes.io/metadata.name; users who can set
	// other labels of a namespace can change whether it matches. Virtward's own
	// namespace and kube-system never match.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Labels of the objects. Without a selector, all objects match. An update
	// matches if the labels before or after it match. Authors of objects set
	// these labels: use the selector to opt in, not to exempt.
	//
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// Names of users whose requests do not match. A service account is
	// system:serviceaccount:NAMESPACE:NAME. VirtualMachineInstances are created
	// by KubeVirt, whose accounts cannot be excluded. The audit does not know
	// the requester and evaluates all objects.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ExcludedUsers []string `json:"excludedUsers,omitempty"`

	// Groups of users whose requests do not match, as for excludedUsers.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ExcludedGroups []string `json:"excludedGroups,omitempty"`

	// Hypervisors of the cluster. For example: kvm or mshv. By default, all
	// match.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Hypervisors []string `json:"hypervisors,omitempty"`

	// Architectures of the effective VM. By default, all match.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Architectures []PolicyArchitecture `json:"architectures,omitempty"`

	// Expressions in CEL that must all be true. They can read the same names as
	// validations, except variables.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []PolicyCondition `json:"matchConditions,omitempty"`
}

// PolicyCondition is a named condition.
type PolicyCondition struct {
	// Name of the condition, for messages.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// CEL expression of type bool.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Expression string `json:"expression"`
}

// PolicyParams has the parameters of a policy. Exactly one of values and
// configMap is required.
//
// +kubebuilder:validation:XValidation:rule="has(self.values) != has(self.configMap)",message="exactly one of values and configMap is required"
// +kubebuilder:validation:XValidation:rule="!has(self.parameterNotFoundAction) || has(self.configMap)",message="a configMap is required for parameterNotFoundAction"
type PolicyParams struct {
	// Values, by name. Expressions read them as params.NAME.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=100
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// ConfigMap with the values, which expressions read as params.KEY. Values
	// are strings. If the schema declares another type, the value is parsed as
	// YAML. With a schema, keys that it does not declare are ignored.
	//
	// +optional
	ConfigMap *PolicyConfigMap `json:"configMap,omitempty"`

	// What happens if the ConfigMap does not exist. Deny handles this as an
	// evaluation error: see failurePolicy. Allow skips the policy. The default
	// is Deny.
	//
	// +optional
	ParameterNotFoundAction PolicyParameterNotFound `json:"parameterNotFoundAction,omitempty"`

	// OpenAPI schema of the parameters, as in a CustomResourceDefinition. It
	// validates the values, adds its defaults, and checks the names of
	// parameters in expressions when the policy is compiled. Without a schema,
	// a wrong name is an error only when the policy is evaluated.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	Schema *apiextensionsv1.JSON `json:"schema,omitempty"`
}

// PolicyConfigMap refers to a ConfigMap.
type PolicyConfigMap struct {
	// Namespace of the ConfigMap.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name of the ConfigMap.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PolicyVariable is a named expression.
type PolicyVariable struct {
	// Name of the variable, which expressions read as variables.NAME.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`

	// CEL expression of any type.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Expression string `json:"expression"`
}

// PolicyValidation is a requirement in CEL, with its message.
//
// +kubebuilder:validation:XValidation:rule="has(self.message) || has(self.messageExpression)",message="message or messageExpression is required"
type PolicyValidation struct {
	// Name of the validation, for messages about the policy.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// CEL expression of type bool. It can read vm, which is the effective VM
	// with metadata and spec; object, oldObject, request, params,
	// namespaceObject, authorizer and variables, as in a
	// ValidatingAdmissionPolicy; and provenance, platform, instancetype,
	// preference, requester, rollout and references.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Expression string `json:"expression"`

	// Message if the expression is false. For example: "a VM may have 8Gi of
	// memory".
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// CEL expression of type string that returns the message. If it fails or
	// returns an empty string, message is used.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	MessageExpression string `json:"messageExpression,omitempty"`

	// Path of the invalid field. It is relative to vm, such as
	// spec.domain.memory.guest, or to the object, such as spec.runStrategy.
	// Write elements of lists as disks[0], and keys of maps as
	// labels[app.kubernetes.io/name]. Messages use the path in the object:
	// spec.template.spec.domain.memory.guest for a VirtualMachine, or
	// spec.instancetype.name if the value is from the instancetype. A path that
	// exists in vm and in the object, such as metadata.labels, is the object's.
	// To mean vm, write vm.metadata.labels.
	//
	// Messages include the value of the field. On an update, a violation is
	// pre-existing only if this value was the same. Without a path, only the
	// messages are compared.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	FieldPath string `json:"fieldPath,omitempty"`

	// Type of the cause in the API server's response. With a fieldPath, the
	// default is Invalid if the field has a value, and Required if not. Without
	// a fieldPath, the default is Forbidden.
	//
	// +optional
	Reason PolicyReason `json:"reason,omitempty"`
}

// PolicyRego is a policy in Rego.
type PolicyRego struct {
	// Module in Rego v1. Its rules deny and warn are sets of messages, or of
	// objects with msg and field. The effect of deny is that of enforcement;
	// warn is at most a warning. input has the documents that CEL expressions
	// can read. Functions that reach outside of the module are not available,
	// such as http.send.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Module string `json:"module"`
}

// PolicyException exempts objects from a policy.
//
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) || has(self.names)",message="namespaces or names is required"
type PolicyException struct {
	// Namespaces of the objects. A * at the end matches any suffix: lab-*.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9.-]*\*?$`
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Namespaces []string `json:"namespaces,omitempty"`

	// Names of the objects. A * at the end matches any suffix: db-*. If
	// namespaces are set too, both must match. A VirtualMachineInstance has the
	// name of its VirtualMachine.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9.-]*\*?$`
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`

	// Time when the exception ends. By default, it never ends.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// Why the exception exists. Virtward does not use this field.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// PolicyKind is a kind of objects that policies are evaluated on.
//
// +kubebuilder:validation:Enum=VirtualMachine;VirtualMachineInstance;VirtualMachineTemplate;VirtualMachinePool;Plugin
type PolicyKind string

// The kinds of objects that policies are evaluated on.
const (
	PolicyVirtualMachine         PolicyKind = "VirtualMachine"
	PolicyVirtualMachineInstance PolicyKind = "VirtualMachineInstance"
	PolicyVirtualMachineTemplate PolicyKind = "VirtualMachineTemplate"
	PolicyVirtualMachinePool     PolicyKind = "VirtualMachinePool"
	// PolicyPlugin is KubeVirt's kind of hooks, which change the domains of virtual machines.
	PolicyPlugin PolicyKind = "Plugin"
)

// PolicyOperation is an operation on an object.
//
// +kubebuilder:validation:Enum=CREATE;UPDATE;DELETE
type PolicyOperation string

// The operations.
const (
	PolicyCreate PolicyOperation = "CREATE"
	PolicyUpdate PolicyOperation = "UPDATE"
	PolicyDelete PolicyOperation = "DELETE"
)

// PolicySeverity is the importance of a violation.
//
// +kubebuilder:validation:Enum=low;medium;high;critical
type PolicySeverity string

// The severities of policies, from the lowest to the highest.
const (
	PolicyLow      PolicySeverity = "low"
	PolicyMedium   PolicySeverity = "medium"
	PolicyHigh     PolicySeverity = "high"
	PolicyCritical PolicySeverity = "critical"
)

// PolicyEnforcement is the effect of a violation.
//
// +kubebuilder:validation:Enum=Deny;Warn;Audit
type PolicyEnforcement string

// The enforcements, the strictest first.
const (
	// PolicyDeny denies the request.
	PolicyDeny PolicyEnforcement = "Deny"
	// PolicyWarn admits the request with a warning.
	PolicyWarn PolicyEnforcement = "Warn"
	// PolicyAudit admits the request. The violation appears only in reports.
	PolicyAudit PolicyEnforcement = "Audit"
)

// PolicyFailure is what happens if a policy cannot be evaluated.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type PolicyFailure string

// The failure policies.
const (
	// PolicyFail handles it as a violation.
	PolicyFail PolicyFailure = "Fail"
	// PolicyIgnore admits the request with a warning.
	PolicyIgnore PolicyFailure = "Ignore"
)

// PolicyParameterNotFound is what happens if the parameters are missing.
//
// +kubebuilder:validation:Enum=Allow;Deny
type PolicyParameterNotFound string

// The actions for missing parameters.
const (
	// PolicyParameterAllow skips the policy.
	PolicyParameterAllow PolicyParameterNotFound = "Allow"
	// PolicyParameterDeny is an evaluation error: see failurePolicy.
	PolicyParameterDeny PolicyParameterNotFound = "Deny"
)

// PolicyReason is the type of a cause in the API server's response.
//
// +kubebuilder:validation:Enum=Unauthorized;Forbidden;Invalid;RequestEntityTooLarge
type PolicyReason string

// The reasons, as in a ValidatingAdmissionPolicy.
const (
	PolicyUnauthorized PolicyReason = "Unauthorized"
	PolicyForbidden    PolicyReason = "Forbidden"
	PolicyInvalid      PolicyReason = "Invalid"
	PolicyTooLarge     PolicyReason = "RequestEntityTooLarge"
)

// PolicyExport is where a policy is enforced in addition to the webhook.
//
// +kubebuilder:validation:Enum=APIServer
type PolicyExport string

// PolicyExportAPIServer exports a policy as a ValidatingAdmissionPolicy.
const PolicyExportAPIServer PolicyExport = "APIServer"

// VirtualMachinePolicyStatus is the observed state of a policy.
type VirtualMachinePolicyStatus struct {
	// Generation of the spec that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions of the policy. Compiled: all expressions compile. Ready: the
	// policy is compiled, has its parameters and is active. Evaluated: no
	// evaluation failed in the last 24 hours. Suspended: the policy is not
	// evaluated, because it exceeded its limits again and again; a change of the
	// spec resumes it. A policy whose enforcement is Deny is never suspended.
	// Exported: the API server enforces the exported policy.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Errors in the policy, and warnings about it; at most 50.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Problems []PolicyProblem `json:"problems,omitempty"`

	// Estimate of the most that one evaluation costs, in units of CEL. An
	// evaluation of 10000000 units takes about a second. Lists without a
	// maximum length in their schema make the estimate too high. The estimate
	// does not affect admission.
	//
	// +optional
	EstimatedCost *int64 `json:"estimatedCost,omitempty"`

	// Whether the audit can evaluate the policy on existing objects.
	//
	// +optional
	Auditable *bool `json:"auditable,omitempty"`

	// Reasons why the audit cannot evaluate the policy.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	NotAuditable []string `json:"notAuditable,omitempty"`

	// Components that enforce the policy: Webhook, APIServer.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	EnforcedBy []PolicyEnforcer `json:"enforcedBy,omitempty"`

	// Differences between the exported policy and the webhook.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ExportNotes []string `json:"exportNotes,omitempty"`

	// Number of objects that violated the policy in the last audit.
	//
	// +optional
	Violations *int64 `json:"violations,omitempty"`

	// Time of the last audit.
	//
	// +optional
	LastAudit *metav1.Time `json:"lastAudit,omitempty"`

	// Number of evaluations of this generation that failed, in requests and in
	// audits. An expression that has not failed for 24 hours no longer counts.
	//
	// +optional
	EvaluationErrors *int64 `json:"evaluationErrors,omitempty"`

	// Expressions that failed, those with the most failures first; at most 8.
	// They have no objects and no values, because all users read policies.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Errors []PolicyEvaluationError `json:"errors,omitempty"`

	// Requests that this generation of the policy denied: they violate it, or
	// it could not be evaluated. Absent if there were none in the last 24
	// hours.
	//
	// +optional
	Denials *PolicyDenials `json:"denials,omitempty"`
}

// PolicyDenials are requests that a policy denied.
type PolicyDenials struct {
	// Number of requests, with dry runs and each attempt of a controller.
	Count int64 `json:"count"`

	// Time of the first one.
	Since metav1.Time `json:"since"`

	// Time of the last one. It is updated at least every 5 minutes.
	Last metav1.Time `json:"last"`
}

// PolicyEvaluationError is an expression of a policy that failed.
type PolicyEvaluationError struct {
	// Path of the field. For example: spec.validations[0].expression, or spec
	// for the whole policy.
	//
	// +kubebuilder:validation:MaxLength=256
	Field string `json:"field"`

	// Why it failed.
	Reason PolicyErrorReason `json:"reason"`

	// Number of evaluations in which it failed.
	Count int64 `json:"count"`

	// Time of the first failure.
	Since metav1.Time `json:"since"`

	// Time of the last failure. It is updated at least every 5 minutes.
	Last metav1.Time `json:"last"`
}

// PolicyErrorReason is why an expression failed. failed: its evaluation is an
// error. limit: the policy exceeds its limits. references: objects that the
// virtual machine refers to are not known. parameters: the parameters do not
// exist. skipped: the policy does not deny, and policies before it used up the
// time or the cost that such policies share.
//
// +kubebuilder:validation:Enum=failed;limit;references;parameters;skipped
type PolicyErrorReason string

// MaxPolicyErrors bounds the errors in a status, as in its definition.
const MaxPolicyErrors = 8

// PolicyProblem is an error in a policy, or a warning about it.
type PolicyProblem struct {
	// Path of the field. For example: spec.validations[0].expression.
	//
	// +kubebuilder:validation:MaxLength=512
	Field string `json:"field"`

	// Line in the value of the field, from 1; 0 if the problem is with the
	// whole value.
	//
	// +optional
	Line int32 `json:"line,omitempty"`

	// Column in the line, from 1.
	//
	// +optional
	Column int32 `json:"column,omitempty"`

	// What is wrong.
	//
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// Whether the policy is active in spite of the problem.
	//
	// +optional
	Warning bool `json:"warning,omitempty"`
}

// MaxPolicyProblems and MaxPolicyProblemLength bound the problems in a status,
// as in its definition.
const (
	MaxPolicyProblems      = 50
	MaxPolicyProblemLength = 1024
)

// PolicyEnforcer is a component that enforces a policy.
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
	// PolicyReady reports whether the policy is active.
	PolicyReady = "Ready"
	// PolicyCompiled reports whether all expressions compile.
	PolicyCompiled = "Compiled"
	// PolicyEvaluated reports whether all recent evaluations succeeded.
	PolicyEvaluated = "Evaluated"
	// PolicySuspended reports whether the policy is not evaluated, because it
	// exceeded its limits again and again.
	PolicySuspended = "Suspended"
	// PolicyExported reports whether the API server enforces the exported
	// policy.
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
	// PolicyReasonNoErrors is the reason of Evaluated if it is true.
	PolicyReasonNoErrors = "NoErrors"
	// PolicyReasonEvaluationErrors means that evaluations failed. status.errors lists the expressions.
	PolicyReasonEvaluationErrors = "EvaluationErrors"
	// PolicyReasonNoCounts means that the counts of evaluations have not been read yet.
	PolicyReasonNoCounts = "NoCounts"
	// PolicyReasonWithinLimits is the reason of Suspended if it is false.
	PolicyReasonWithinLimits = "WithinLimits"
	// PolicyReasonExceedsLimits means that a policy exceeded its limits again and again.
	PolicyReasonExceedsLimits = "ExceedsLimits"
	// PolicyReasonSuspended is the reason of Ready for a suspended policy.
	PolicyReasonSuspended = "Suspended"
	// PolicyReasonCompileFailed means that the policy does not compile. status.problems lists the errors.
	PolicyReasonCompileFailed = "CompileFailed"
	// PolicyReasonParamsMissing means that the ConfigMap with the parameters does not exist.
	PolicyReasonParamsMissing = "ParamsMissing"
	// PolicyReasonReferencesNotEnabled means that the policy reads objects of a kind that Virtward may not read.
	PolicyReasonReferencesNotEnabled = "ReferencesNotEnabled"
	// PolicyReasonNotExportable means that the API server cannot evaluate the policy.
	PolicyReasonNotExportable = "NotExportable"
	// PolicyReasonNameTaken means that another object has the name of the exported policy or of its binding.
	PolicyReasonNameTaken = "NameTaken"
	// PolicyReasonRejected means that the API server rejected the exported policy or its binding.
	PolicyReasonRejected = "Rejected"
	// PolicyReasonNotObserved means that the exported policy of this generation could not be read or written.
	PolicyReasonNotObserved = "NotObserved"
)

// VirtualMachinePolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type VirtualMachinePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachinePolicy `json:"items"`
}
