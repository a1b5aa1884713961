package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VerbWeaken is the verb on rulesettings that users need to weaken a
// security-relevant rule.
const VerbWeaken = "weaken"

// The bounds of a RuleSettings, as in its definition.
const (
	MaxRuleSettings = 300
	MaxRuleIDLength = 63
	MaxReasonLength = 1024
)

// RuleSettings sets the severity of Virtward's built-in rules. A cluster can
// have several RuleSettings, such as one for each team. All of them are active
// in the whole cluster.
//
// For a rule and a namespace, entries with a matching namespace selector
// override entries without a selector. Among equal entries, the strictest
// severity applies: Deny, then Warn, then Off. The order of objects and entries
// does not matter. A rule without an entry keeps its default severity.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rulesettings,singular=rulesettings,scope=Cluster,shortName=rset,categories=virtward
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RuleSettings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Settings of rules.
	Spec RuleSettingsSpec `json:"spec"`
}

// RuleSettingsSpec lists the settings of rules.
type RuleSettingsSpec struct {
	// Settings, one rule each. A rule can have several entries with different
	// namespace selectors. At most 300 entries; create another RuleSettings for
	// more.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=300
	Rules []RuleSetting `json:"rules,omitempty"`
}

// RuleSetting sets the severity of one rule, in some namespaces or in all.
type RuleSetting struct {
	// ID of the rule, which every denial names. For example: arm64-disk-bus.
	// Unknown IDs are rejected.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	Rule string `json:"rule"`

	// Effect of a finding of the rule. Deny denies the request. Warn admits it
	// with a warning. Off disables the rule; quote "Off" in YAML, where it is a
	// boolean. To set a security-relevant rule to Warn or Off, you need the
	// verb weaken on rulesettings.policy.virtward.io.
	Severity Severity `json:"severity"`

	// Labels of the namespaces. Without a selector, or with an empty one, all
	// namespaces match. Users cannot change the label
	// kubernetes.io/metadata.name; users who can set other labels of a
	// namespace can change whether it matches.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Why the setting exists. Virtward does not use this field.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// Severity is the effect of a finding of a rule.
//
// +kubebuilder:validation:Enum=Deny;Warn;Off
type Severity string

// The severities, the strictest first.
const (
	// Deny denies the request.
	Deny Severity = "Deny"
	// Warn admits the request with a warning.
	Warn Severity = "Warn"
	// Off disables the rule.
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
