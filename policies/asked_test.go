package policies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
)

// TestCandidates: what the index leaves out does not match, and the order is that of the names.
func TestCandidates(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	names := []string{"", "a", "b", "c", "default"}
	some := func() []string { return names[:1+random.IntN(len(names))] }
	selector := func() *metav1.LabelSelector {
		s := &metav1.LabelSelector{}
		if random.IntN(3) == 0 {
			s.MatchLabels = map[string]string{corev1.LabelMetadataName: names[random.IntN(len(names))]}
		}
		if random.IntN(4) == 0 {
			s.MatchLabels = labels.Merge(s.MatchLabels, labels.Set{"tier": "prod"})
		}
		for range random.IntN(3) {
			operator := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}[random.IntN(4)]
			e := metav1.LabelSelectorRequirement{Key: []string{corev1.LabelMetadataName, "tier"}[random.IntN(2)], Operator: operator}
			if operator == metav1.LabelSelectorOpIn || operator == metav1.LabelSelectorOpNotIn {
				e.Values = slices.Clone(some())
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		}
		return s
	}
	matched := 0
	for range 300 {
		policies := make([]*Policy, random.IntN(30))
		for i := range policies {
			spec := &policyv1alpha1.VirtualMachinePolicySpec{Match: policyv1alpha1.PolicyMatch{
				NamespaceSelector: selector(), Kinds: []policyv1alpha1.PolicyKind{policyv1alpha1.PolicyVirtualMachine}, Operations: []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyCreate},
			}}
			m, problems := newMatcher(spec)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			policies[i] = &Policy{name: fmt.Sprintf("p-%02d", i), matcher: m, spec: spec}
		}
		random.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
		set := NewSet("virtward-system", policies...)
		a := set.index[question{policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyCreate}]
		for _, of := range []labels.Set{nil, {}, {"tier": "prod"}, {corev1.LabelMetadataName: ""}, {corev1.LabelMetadataName: "a", "tier": "prod"}, {corev1.LabelMetadataName: "default"}, {corev1.LabelMetadataName: "elsewhere"}} {
			s := &subject{documents: &cel.Documents{}, namespaceLabels: of}
			var want []string
			for _, p := range set.Policies() {
				if p.matcher.matches(s) {
					want = append(want, p.name)
				}
			}
			deny, others := a.matching(s, everyPolicy)
			var got []string
			for _, p := range slices.Concat(deny, others) {
				got = append(got, p.name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%v: (-all +index):\n%s", of, diff)
			}
			matched += len(got)
		}
	}
	if matched < 5000 {
		t.Errorf("only %d policies matched", matched)
	}
}
