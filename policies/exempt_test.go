package policies

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

func TestOnlyExempt(t *testing.T) {
	const name = "kubernetes.io/metadata.name"
	in := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: name, Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	for title, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"no selector":         {nil, ""},
		"an empty one":        {&metav1.LabelSelector{}, ""},
		"another namespace":   {&metav1.LabelSelector{MatchLabels: map[string]string{name: "shop"}}, ""},
		"one of several":      {in("shop", "kube-system"), ""},
		"not these":           {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: name, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}}, ""},
		"an invalid selector": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: name, Operator: "Like"}}}, ""},
		"its own":             {&metav1.LabelSelector{MatchLabels: map[string]string{name: "virtward-system"}}, "spec.match.namespaceSelector: warning: the policy is never evaluated: no policy applies to virtward-system"},
		"both":                {in("virtward-system", "kube-system"), "spec.match.namespaceSelector: warning: the policy is never evaluated: no policy applies to kube-system and virtward-system"},
	} {
		t.Run(title, func(t *testing.T) {
			policy := &policyv1alpha1.VirtualMachinePolicy{}
			policy.Spec.Match.NamespaceSelector = tc.selector
			got := ""
			for _, problem := range OnlyExempt(policy, "virtward-system") {
				got += problem.String()
			}
			if got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}
