package apiserver

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/virtward/virtward/api/template/subresources"
)

// maxAnnotations bounds the annotations of a namespace in the cache of the admission chain, in bytes.
const maxAnnotations = 8 << 10

// shrink drops what the admission chain does not need of the objects that it caches: managed fields, the annotations of
// a namespace if they are large, and the expressions of policies about other APIs. The chain compiles those of every policy in the
// cluster, which took more memory than all the rest.
func shrink(object any) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // it is not an object, but the note of a missed deletion
	}
	accessor.SetManagedFields(nil)
	switch known := object.(type) {
	case *corev1.Namespace:
		size := 0
		for key, value := range known.Annotations {
			size += len(key) + len(value)
		}
		if size > maxAnnotations {
			known.Annotations = nil
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if !concerns(known.Spec.MatchConstraints) {
			known.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: known.Spec.MatchConstraints, FailurePolicy: known.Spec.FailurePolicy}
		}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		if !concerns(known.Spec.MatchConstraints) {
			known.Spec = admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConstraints: known.Spec.MatchConstraints, FailurePolicy: known.Spec.FailurePolicy}
		}
	}
	return object, nil
}

// concerns reports whether a policy can match a request to this server, which serves one group. A binding only narrows what its policy
// matches, and no resource of another group is equivalent to one of this group.
func concerns(constraints *admissionregistrationv1.MatchResources) bool {
	return constraints != nil && slices.ContainsFunc(constraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, subresources.Group)
	})
}
