package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VerbWeaken is the verb on rulesettings that a user must hold to weaken a
// rule that is security-relevant.
const VerbWeaken = "weaken"

// The bounds of a RuleSettings, as they stand in its definition.
const (
	MaxRuleSettings = 300
	MaxRuleIDLength = 63
	MaxReasonLength = 1024
)

// RuleSettings decides what a finding of Virtward's built-in rules means:
// a rejection, a warning, or nothing. There may be several, one for each
// team or purpose; together they are active for the whole cluster.
//
// For a rule and a namespace, the entries with a namespace selector that
// matches win over those without one, and among equals the strictest wins:
// Deny, then Warn, then Off. The order of objects and of entries does not
// matter. A rule without an entry keeps its own severity.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rulesettings,singular=rulesettings,scope=Cluster,shortName=rset,categories=virtward
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RuleSettings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is set.
	Spec RuleSettingsSpec `json:"spec"`
}

// RuleSettingsSpec lists what is set.
type RuleSettingsSpec struct {
	// What is set, for a rule each. The same rule may be named several times,
	// with different namespace selectors. At most 300 entries; make another
	// RuleSettings for more.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=300
	Rules []RuleSetting `json:"rules,omitempty"`
}

// RuleSetting sets one rule, in some namespaces or in all.
type RuleSetting struct {
	// The id of the rule, as every rejection names it: arm64-disk-bus. An id
	// that Virtward does not know is rejected.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	Rule string `json:"rule"`

	// What a finding of the rule means: Deny rejects the object, Warn accepts
	// it with a warning, Off says nothing. In YAML, write "Off" in quotes:
	// without them it is a boolean. To set a security-relevant rule to Warn or
	// Off takes the verb weaken on rulesettings.policy.virtward.io.
	Severity Severity `json:"severity"`

	// The namespaces in which this holds, by their labels. Without a selector,
	// or with an empty one, it holds in all of them. Every namespace has the
	// label kubernetes.io/metadata.name, which nobody can set to another
	// value; whoever may set the other labels of a namespace decides whether
	// it is selected by them.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Why, for whoever reads this later. Users never see it, and Virtward does
	// not read it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// Severity is what a finding of a rule means.
//
// +kubebuilder:validation:Enum=Deny;Warn;Off
type Severity string

// The severities, the strictest first.
const (
	// Deny rejects the object.
	Deny Severity = "Deny"
	// Warn accepts the object, and warns whoever sent it.
	Warn Severity = "Warn"
	// Off switches the rule off.
	Off Severity = "Off"
)

// RuleSettingsList is a list of RuleSettings.
//
// +kubebuilder:object:root=true
type RuleSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RuleSettings `json:"items"`
}
