package apiserver

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestShrink(t *testing.T) {
	for size, kept := range map[int]bool{100: true, 10 << 10: false} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": strings.Repeat("b", size)}, ManagedFields: []metav1.ManagedFieldsEntry{{}},
		}}
		if _, err := shrink(namespace); err != nil || (namespace.Annotations != nil) != kept || namespace.ManagedFields != nil || namespace.Labels["a"] != "b" {
			t.Errorf("%d bytes: %+v, %v", size, namespace, err)
		}
	}
	if got, err := shrink(cache.DeletedFinalStateUnknown{Key: "a"}); err != nil || got != (cache.DeletedFinalStateUnknown{Key: "a"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestShrinkPolicies: policies that can match requests to this server keep their expressions.
func TestShrinkPolicies(t *testing.T) {
	rules := func(groups ...string) *admissionregistrationv1.MatchResources {
		found := &admissionregistrationv1.MatchResources{}
		for _, group := range groups {
			found.ResourceRules = append(found.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Rule: admissionregistrationv1.Rule{APIGroups: []string{group}},
			}})
		}
		return found
	}
	for name, c := range map[string]struct {
		constraints *admissionregistrationv1.MatchResources
		kept        bool
	}{
		"its group":               {rules("subresources.template.kubevirt.io"), true},
		"all groups":              {rules("*"), true},
		"its group among others":  {rules("apps", "subresources.template.kubevirt.io"), true},
		"another group":           {rules("apps"), false},
		"the group of templates":  {rules("template.kubevirt.io"), false},
		"the group without name":  {rules(""), false},
		"no rules":                {rules(), false},
		"nothing":                 {nil, false},
		"all groups, second rule": {rules("", "*"), true},
	} {
		validating := &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: c.constraints, FailurePolicy: ptr.To(admissionregistrationv1.Fail), ParamKind: &admissionregistrationv1.ParamKind{Kind: "A"},
			Validations: []admissionregistrationv1.Validation{{Expression: "false"}}, Variables: []admissionregistrationv1.Variable{{Name: "a"}},
		}}
		mutating := &admissionregistrationv1.MutatingAdmissionPolicy{Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: c.constraints, FailurePolicy: ptr.To(admissionregistrationv1.Fail), Mutations: []admissionregistrationv1.Mutation{{}},
		}}
		for _, object := range []any{validating, mutating} {
			if _, err := shrink(object); err != nil {
				t.Error(err)
			}
		}
		spec, other := validating.Spec, mutating.Spec
		if kept := len(spec.Validations) == 1 && len(spec.Variables) == 1 && spec.ParamKind != nil; kept != c.kept || kept != (len(other.Mutations) == 1) {
			t.Errorf("%s: %+v, %+v", name, spec, other)
		}
		if spec.MatchConstraints != c.constraints || other.MatchConstraints != c.constraints || spec.FailurePolicy == nil || other.FailurePolicy == nil {
			t.Errorf("%s: what it matches is lost", name)
		}
	}
}
