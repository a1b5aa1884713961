package convert

import (
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// clusterSpec is the spec of Kyverno's ClusterPolicies and Policies.
type clusterSpec struct {
	Rules                            []clusterRule                              `json:"rules"`
	ApplyRules                       string                                     `json:"applyRules,omitempty"`
	FailurePolicy                    *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	ValidationFailureAction          string                                     `json:"validationFailureAction,omitempty"`
	ValidationFailureActionOverrides []actionOverride                           `json:"validationFailureActionOverrides,omitempty"`
	EmitWarning                      *bool                                      `json:"emitWarning,omitempty"`
	Admission                        *bool                                      `json:"admission,omitempty"`
	Background                       *bool                                      `json:"background,omitempty"`
	WebhookConfiguration             struct {
		FailurePolicy   *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
		TimeoutSeconds  *int64                                     `json:"timeoutSeconds,omitempty"`
		MatchConditions []admissionregistrationv1.MatchCondition   `json:"matchConditions,omitempty"`
	} `json:"webhookConfiguration,omitempty"`
	// The rest has no effect on rules that validate.
	SchemaValidation               any `json:"schemaValidation,omitempty"`
	WebhookTimeoutSeconds          any `json:"webhookTimeoutSeconds,omitempty"`
	MutateExistingOnPolicyUpdate   any `json:"mutateExistingOnPolicyUpdate,omitempty"`
	GenerateExistingOnPolicyUpdate any `json:"generateExistingOnPolicyUpdate,omitempty"`
	GenerateExisting               any `json:"generateExisting,omitempty"`
	UseServerSideApply             any `json:"useServerSideApply,omitempty"`
}

// ignores reports whether requests are admitted for which Kyverno has an error.
func (s *clusterSpec) ignores() bool {
	policy := s.WebhookConfiguration.FailurePolicy
	if policy == nil {
		policy = s.FailurePolicy
	}
	return policy != nil && *policy == admissionregistrationv1.Ignore
}

// actionOverride is another action in some namespaces.
type actionOverride struct {
	Action            string                `json:"action,omitempty"`
	Namespaces        []string              `json:"namespaces,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// clusterRule is a rule of a ClusterPolicy.
type clusterRule struct {
	Name             string                                   `json:"name"`
	Context          []any                                    `json:"context,omitempty"`
	Match            clusterMatch                             `json:"match"`
	Exclude          *clusterMatch                            `json:"exclude,omitempty"`
	Preconditions    any                                      `json:"preconditions,omitempty"`
	CELPreconditions []admissionregistrationv1.MatchCondition `json:"celPreconditions,omitempty"`
	Validate         *clusterValidation                       `json:"validate,omitempty"`
	Mutate           any                                      `json:"mutate,omitempty"`
	Generate         any                                      `json:"generate,omitempty"`
	VerifyImages     any                                      `json:"verifyImages,omitempty"`
	// The rest has no effect on rules that validate.
	ImageExtractors        any `json:"imageExtractors,omitempty"`
	ReportProperties       any `json:"reportProperties,omitempty"`
	SkipBackgroundRequests any `json:"skipBackgroundRequests,omitempty"`

	// Pods reports whether the rule is about the pods of the virtual machines that it matches.
	Pods bool `json:"-"`
	// Left says why a rule about pods of virtual machines is not one about virtual machines.
	Left string `json:"-"`
	// OfPods has what the expressions of a rule about pods read.
	OfPods *celPods `json:"-"`
}

// clusterValidation is what a rule validates.
type clusterValidation struct {
	FailureAction           string           `json:"failureAction,omitempty"`
	FailureActionOverrides  []actionOverride `json:"failureActionOverrides,omitempty"`
	AllowExistingViolations any              `json:"allowExistingViolations,omitempty"`
	Message                 string           `json:"message,omitempty"`
	CEL                     *celValidation   `json:"cel,omitempty"`
	Pattern                 any              `json:"pattern,omitempty"`
	AnyPattern              any              `json:"anyPattern,omitempty"`
	Deny                    any              `json:"deny,omitempty"`
	ForEach                 any              `json:"foreach,omitempty"`
	PodSecurity             any              `json:"podSecurity,omitempty"`
	Manifests               any              `json:"manifests,omitempty"`
	Assert                  any              `json:"assert,omitempty"`
}

// celValidation is what a rule validates in CEL.
type celValidation struct {
	Generate         *bool                                     `json:"generate,omitempty"`
	Expressions      []admissionregistrationv1.Validation      `json:"expressions,omitempty"`
	ParamKind        *admissionregistrationv1.ParamKind        `json:"paramKind,omitempty"`
	ParamRef         *admissionregistrationv1.ParamRef         `json:"paramRef,omitempty"`
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	Variables        []admissionregistrationv1.Variable        `json:"variables,omitempty"`
}

// reason returns why a rule is not converted; empty if it is.
func (r *clusterRule) reason() string {
	v := r.Validate
	switch {
	case v != nil && v.CEL != nil:
		return ""
	case v != nil && (v.Pattern != nil || v.AnyPattern != nil):
		return Pattern
	case v != nil && v.Deny != nil:
		return Deny
	case v != nil && v.ForEach != nil:
		return ForEach
	case v != nil && v.PodSecurity != nil:
		return PodSecurity
	case v != nil && v.Manifests != nil:
		return Manifests
	case v != nil && v.Assert != nil:
		return Assertion
	case r.Mutate != nil:
		return Mutation
	case r.Generate != nil:
		return Generation
	case r.VerifyImages != nil:
		return Signatures
	}
	return NoRule
}

// rest returns why what a rule has beside CEL is not converted; NoRule if there is nothing.
func (r *clusterRule) rest() string {
	other, validate := *r, *r.Validate
	validate.CEL, other.Validate = nil, &validate
	return other.reason()
}

// clusterMatch is a match, or an exclude, of a rule.
type clusterMatch struct {
	Any           []clusterFilter `json:"any,omitempty"`
	All           []clusterFilter `json:"all,omitempty"`
	clusterFilter `json:",inline"`
}

// clusterFilter selects requests that have all its parts.
type clusterFilter struct {
	Roles        []string          `json:"roles,omitempty"`
	ClusterRoles []string          `json:"clusterRoles,omitempty"`
	Subjects     []rbacv1.Subject  `json:"subjects,omitempty"`
	Resources    *clusterResources `json:"resources,omitempty"`
}

// clusterResources select objects.
type clusterResources struct {
	Kinds             []string                         `json:"kinds,omitempty"`
	Name              string                           `json:"name,omitempty"`
	Names             []string                         `json:"names,omitempty"`
	Namespaces        []string                         `json:"namespaces,omitempty"`
	Annotations       map[string]string                `json:"annotations,omitempty"`
	Selector          *metav1.LabelSelector            `json:"selector,omitempty"`
	NamespaceSelector *metav1.LabelSelector            `json:"namespaceSelector,omitempty"`
	Operations        []policyv1alpha1.PolicyOperation `json:"operations,omitempty"`
}

// filters returns the alternatives of a match, and whether all of them must match.
func (m *clusterMatch) filters() (all []clusterFilter, every bool) {
	switch {
	case len(m.Any) > 0:
		return m.Any, false
	case len(m.All) > 0:
		return m.All, true
	}
	return []clusterFilter{m.clusterFilter}, true
}

// isEmpty reports whether a filter has no part.
func (f *clusterFilter) isEmpty() bool {
	return len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) == 0 && (f.Resources == nil || reflect.DeepEqual(*f.Resources, clusterResources{}))
}

// excepting returns the alternatives of the match of an exception, and whether all of them must match. Kyverno does not read operations
// there, and an empty filter matches nothing.
func (m *clusterMatch) excepting() (all []clusterFilter, every bool) {
	if len(m.Any)+len(m.All) == 0 {
		return nil, false
	}
	filters, every := m.filters()
	for _, f := range filters {
		if f.isEmpty() {
			if every {
				return nil, true
			}
			continue
		}
		if f.Resources != nil {
			resources := *f.Resources
			resources.Operations, f.Resources = nil, &resources
		}
		all = append(all, f)
	}
	return all, every
}

// clusterExceptionSpec is an exception of Kyverno's ClusterPolicies.
type clusterExceptionSpec struct {
	Exceptions  []exceptedRules `json:"exceptions"`
	Match       clusterMatch    `json:"match"`
	Conditions  any             `json:"conditions,omitempty"`
	PodSecurity any             `json:"podSecurity,omitempty"`
	Background  any             `json:"background,omitempty"`
}

// exceptedRules are rules of a policy. Their names can have wildcards.
type exceptedRules struct {
	PolicyName string   `json:"policyName"`
	RuleNames  []string `json:"ruleNames"`
}
