package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// The series of a policy end when it is deleted, before another audit.
func TestSeriesEndWithTheirPolicy(t *testing.T) {
	registry, deleted := prometheus.NewRegistry(), map[string]bool{}
	m, err := NewMetrics(registry, func(policy string) bool { return !deleted[policy] })
	if err != nil {
		t.Fatal(err)
	}
	m.set(&Figures{Policies: []PolicyFigure{{Name: "a", Violating: 1}, {Name: "b", Errors: 2}}, Rules: []RuleFigure{{Rule: "a", Violating: 3}}})
	check := func(want ...string) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if label.GetName() == "policy" || label.GetName() == "rule" {
						got = append(got, family.GetName()+" "+label.GetValue())
					}
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	}
	check("virtward_policy_errors a", "virtward_policy_errors b", "virtward_policy_violations a", "virtward_policy_violations b", "virtward_rule_violations a")
	deleted["a"] = true
	check("virtward_policy_errors b", "virtward_policy_violations b", "virtward_rule_violations a")
	deleted["b"] = true
	check("virtward_rule_violations a")
}
