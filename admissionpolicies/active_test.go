package admissionpolicies

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestActiveSince(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	objects, err := Objects()
	if err != nil {
		t.Fatal(err)
	}
	type (
		guard = admissionregistrationv1.ValidatingAdmissionPolicy
		bound = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	)
	for name, tc := range map[string]struct {
		change func(*guard, *bound)
		want   time.Time
	}{
		"as it is installed":     {func(*guard, *bound) {}, began.Add(70 * time.Second)},
		"defaults of the API":    {func(p *guard, _ *bound) { p.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{} }, began.Add(70 * time.Second)},
		"a policy that is newer": {func(p *guard, _ *bound) { p.CreationTimestamp = metav1.NewTime(began.Add(time.Hour)) }, began.Add(time.Hour + 10*time.Second)},
		"it is switched off": {func(p *guard, _ *bound) {
			p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: Disabled, Expression: "false"}}
		}, time.Time{}},
		"it fails open":        {func(p *guard, _ *bound) { p.Spec.FailurePolicy = new(admissionregistrationv1.Ignore) }, time.Time{}},
		"it validates nothing": {func(p *guard, _ *bound) { p.Spec.Validations = nil }, time.Time{}},
		"some namespaces only": {func(p *guard, _ *bound) {
			p.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, time.Time{}},
		"some objects only": {func(p *guard, _ *bound) {
			p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, time.Time{}},
		"no updates": {func(p *guard, _ *bound) {
			p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{"CREATE"}
		}, time.Time{}},
		"another resource": {func(p *guard, _ *bound) {
			p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"virtualmachinepolicies"}
		}, time.Time{}},
		"some names only": {func(p *guard, _ *bound) { p.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a"} }, time.Time{}},
		"resources are excluded": {func(p *guard, _ *bound) {
			p.Spec.MatchConstraints.ExcludeResourceRules = p.Spec.MatchConstraints.ResourceRules
		}, time.Time{}},
		"it is being deleted": {func(p *guard, _ *bound) { p.DeletionTimestamp = &metav1.Time{Time: began} }, time.Time{}},
		"the binding goes":    {func(_ *guard, b *bound) { b.DeletionTimestamp = &metav1.Time{Time: began} }, time.Time{}},
		"the binding only warns": {func(_ *guard, b *bound) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn"}
		}, time.Time{}},
		"the binding is another's":   {func(_ *guard, b *bound) { b.Spec.PolicyName = "other" }, time.Time{}},
		"the binding has parameters": {func(_ *guard, b *bound) { b.Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "a"} }, time.Time{}},
		"the binding selects": {func(_ *guard, b *bound) {
			b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			policy, binding := &guard{}, &bound{}
			for _, object := range objects {
				if object.GetName() != PolicyExceptions {
					continue
				}
				into := any(policy)
				if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
					into = binding
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
					t.Fatal(err)
				}
			}
			policy.CreationTimestamp, binding.CreationTimestamp = metav1.NewTime(began), metav1.NewTime(began.Add(time.Minute))
			tc.change(policy, binding)
			resource := schema.GroupResource{Group: "policy.virtward.io", Resource: "virtualmachinepolicyexceptions"}
			if got := ActiveSince(resource, policy, binding); !got.Equal(tc.want) {
				t.Errorf("want %s, got %s", tc.want, got)
			}
			if got := ActiveSince(resource, nil, binding); !got.IsZero() {
				t.Errorf("without the policy: %s", got)
			}
			if got := ActiveSince(resource, policy, nil); !got.IsZero() {
				t.Errorf("without the binding: %s", got)
			}
		})
	}
}
