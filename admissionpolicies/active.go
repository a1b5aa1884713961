package admissionpolicies

import (
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// settles is the time that API servers need to enforce a new policy.
const settles = 10 * time.Second

// ActiveSince returns the time since which a guard denies creations and updates of a resource; zero if it does not. Both
// objects are nil if they do not exist. A guard that an admin changes in other ways counts as active.
func ActiveSince(resource schema.GroupResource, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) time.Time {
	if policy == nil || binding == nil || !enforces(&policy.Spec, resource) || policy.DeletionTimestamp != nil || binding.DeletionTimestamp != nil {
		return time.Time{}
	}
	b := &binding.Spec
	if b.PolicyName != policy.Name || b.ParamRef != nil || !everything(b.MatchResources) || !slices.Contains(b.ValidationActions, admissionregistrationv1.Deny) {
		return time.Time{}
	}
	since := policy.CreationTimestamp.Time
	if binding.CreationTimestamp.After(since) {
		since = binding.CreationTimestamp.Time
	}
	return since.Add(settles)
}

// enforces reports whether a policy evaluates all creations and updates of a resource, and fails closed.
func enforces(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec, resource schema.GroupResource) bool {
	failsClosed := spec.FailurePolicy == nil || *spec.FailurePolicy == admissionregistrationv1.Fail
	if !failsClosed || len(spec.MatchConditions) > 0 || len(spec.Validations) == 0 || spec.ParamKind != nil || spec.MatchConstraints == nil {
		return false
	}
	m := *spec.MatchConstraints
	m.ResourceRules = nil
	return everything(&m) && slices.ContainsFunc(spec.MatchConstraints.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return len(r.ResourceNames) == 0 && has(r.APIGroups, resource.Group) && has(r.APIVersions, "*") && has(r.Resources, resource.Resource) &&
			has(r.Operations, admissionregistrationv1.Create) && has(r.Operations, admissionregistrationv1.Update) &&
			(r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope)
	})
}

func has[T ~string](all []T, one T) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}

// everything reports whether a match has no restrictions.
func everything(m *admissionregistrationv1.MatchResources) bool {
	return m == nil || len(m.ResourceRules) == 0 && len(m.ExcludeResourceRules) == 0 && unrestricted(m.NamespaceSelector) && unrestricted(m.ObjectSelector)
}

func unrestricted(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
