package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VerbExempt is the verb on virtualmachinepolicies that users need to exempt
// virtual machines from a policy.
const VerbExempt = "exempt"

// AnnotationExemptedBy is the annotation of an exception with the name of the
// user who wrote its spec. Virtward sets it, and a guard checks it.
const AnnotationExemptedBy = "policy.virtward.io/exempted-by"

// VirtualMachinePolicyException exempts virtual machines of its namespace from
// policies, until a time. Findings of these policies then neither deny nor
// warn, and reports show them as exempted.
//
// To create an exception or to change its spec, you need the verb exempt on
// each policy that it names, in virtualmachinepolicies.policy.virtward.io. An
// exception is not active while the guard virtward-policy-exceptions, which
// checks this, is missing or switched off. Built-in rules have no exceptions of
// this kind: see RuleSettings.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinepolicyexceptions,singular=virtualmachinepolicyexception,scope=Namespaced,shortName=vmpolex,categories=virtward
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.policies`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].reason`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expires`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
type VirtualMachinePolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Policies, and the virtual machines that are exempt from them.
	Spec VirtualMachinePolicyExceptionSpec `json:"spec"`

	// Observed state of the exception, written by Virtward.
	//
	// +optional
	Status VirtualMachinePolicyExceptionStatus `json:"status,omitempty"`
}

// The bounds of an exception, as in its definition.
const (
	MaxExceptionPolicies = 64
	MaxExceptionMachines = 64
)

// VirtualMachinePolicyExceptionSpec has the policies, and the virtual machines
// that are exempt from them.
//
// +kubebuilder:validation:XValidation:rule="has(self.virtualMachines) != has(self.selector)",message="exactly one of virtualMachines and selector is required"
type VirtualMachinePolicyExceptionSpec struct {
	// Names of VirtualMachinePolicies. A * is not a wildcard. Users who do not
	// have the verb exempt on all policies can name at most 16 of them.
	//
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Policies []string `json:"policies"`

	// Names of VirtualMachines in the namespace, which do not have to exist
	// yet. A * is not a wildcard. The VirtualMachineInstance of a
	// VirtualMachine is exempt too. Users who can create a VirtualMachine with
	// the name can use the exception. Exactly one of virtualMachines and
	// selector is required.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	VirtualMachines []string `json:"virtualMachines,omitempty"`

	// Labels of VirtualMachines in the namespace: those of its metadata, not
	// of its template. Users who can create or label VirtualMachines in the
	// namespace choose these labels: with a selector, all of them can use the
	// exception. An empty selector selects all virtual machines of the
	// namespace.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Why the exception exists. Reports show it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`\S`
	Reason string `json:"reason"`

	// Time when the exception ends. It must not be further in the future than
	// the chart's value policies.exceptions.maxDays allows. Afterwards, a
	// restart of the virtual machine is denied.
	Expires metav1.Time `json:"expires"`
}

// The condition of an exception, and its reasons.
const (
	// ExceptionActive is True while the exception has an effect.
	ExceptionActive = "Active"

	// ExceptionReasonActive: the exception has an effect.
	ExceptionReasonActive = "Active"
	// ExceptionReasonExpiring: the exception has an effect, and ends soon.
	ExceptionReasonExpiring = "Expiring"
	// ExceptionReasonExpired: the exception has ended.
	ExceptionReasonExpired = "Expired"
	// ExceptionReasonNotPermitted: the guard did not check who wrote the
	// exception, or the guard is missing or switched off.
	ExceptionReasonNotPermitted = "NotPermitted"
	// ExceptionReasonTooLong: the end is too far in the future.
	ExceptionReasonTooLong = "TooLong"
	// ExceptionReasonTooMany: the namespace, or the cluster, has too many
	// exceptions that are older.
	ExceptionReasonTooMany = "TooMany"
	// ExceptionReasonInvalid: the selector is invalid.
	ExceptionReasonInvalid = "Invalid"
)

// ExceptionReasons returns all reasons.
func ExceptionReasons() []string {
	return []string{
		ExceptionReasonActive, ExceptionReasonExpiring, ExceptionReasonExpired, ExceptionReasonNotPermitted, ExceptionReasonTooLong, ExceptionReasonTooMany,
		ExceptionReasonInvalid,
	}
}

// VirtualMachinePolicyExceptionStatus is the observed state of an exception.
type VirtualMachinePolicyExceptionStatus struct {
	// Generation of the spec that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The first policy, and the number of the others, for kubectl get.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Policies string `json:"policies,omitempty"`

	// Conditions. Active is True while the exception has an effect.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VirtualMachinePolicyExceptionList is a list of VirtualMachinePolicyException.
//
// +kubebuilder:object:root=true
type VirtualMachinePolicyExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachinePolicyException `json:"items"`
}
