package webhooks

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// policyMetrics returns metrics, and a registry that has them.
func policyMetrics(t *testing.T, exists func(string) bool) (*Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, exists)
	if err != nil {
		t.Fatal(err)
	}
	return m, registry
}

// allFindings are one of each metric, of a rule or of a policy.
func allFindings(rule string) []validators.Finding {
	finding := validators.Finding{Rule: rule, Severity: validators.Warn, Error: &field.Error{}}
	skipped, failed, exempted := finding, finding, finding
	skipped.EvaluationError, failed.EvaluationError, exempted.Exempted = policies.ReasonSkipped, policies.ReasonFailed, &validators.Exemption{}
	return []validators.Finding{finding, skipped, failed, exempted}
}

// seriesNames returns the series with the name of a rule or a policy: METRIC NAME.
func seriesNames(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "rule" || label.GetName() == labelPolicy {
					all = append(all, strings.TrimPrefix(family.GetName(), "virtward_")+" "+label.GetValue())
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The series of a policy end with the policy, in each metric. Those of rules and of other policies stay.
func TestSeriesEndWithTheirPolicy(t *testing.T) {
	deleted := map[string]bool{}
	m, registry := policyMetrics(t, func(policy string) bool { return !deleted[policy] })
	seriesOf := func(policy string) []string {
		return []string{"findings_total policy/" + policy, "policy_errors_total " + policy, "policy_exempted_total " + policy, "policy_skipped_total " + policy}
	}
	for _, policy := range []string{"a", "b", "ab"} {
		m.found("VirtualMachine", allFindings(policies.RulePrefix+policy))
	}
	m.found("VirtualMachineInstance", allFindings("policy/a")[:1])
	m.found("VirtualMachine", allFindings("disk-bus")[:1])
	check := func(want ...[]string) {
		t.Helper()
		all := slices.Concat(append(want, []string{"findings_total disk-bus"})...)
		slices.Sort(all)
		if diff := cmp.Diff(all, seriesNames(t, registry)); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	}
	check(seriesOf("a"), seriesOf("b"), seriesOf("ab"))
	deleted["a"] = true
	check(seriesOf("b"), seriesOf("ab"))
	m.found("VirtualMachine", allFindings("policy/a")) // a request that began before
	check(seriesOf("b"), seriesOf("ab"))
	delete(deleted, "a")
	m.found("VirtualMachine", allFindings("policy/a"))
	check(seriesOf("a"), seriesOf("b"), seriesOf("ab"))
}

// Policies that are created and deleted leave nothing behind, also if no scrape happens, and if requests are in progress.
func TestSeriesAreBoundedWithoutScrapes(t *testing.T) {
	var mu sync.Mutex
	current := map[string]bool{}
	m, registry := policyMetrics(t, func(policy string) bool {
		mu.Lock()
		defer mu.Unlock()
		return current[policy]
	})
	var done sync.WaitGroup
	for worker := range 4 {
		done.Go(func() {
			for i := range 500 {
				policy := fmt.Sprintf("p-%d-%d", worker, i)
				mu.Lock()
				current[policy] = true
				mu.Unlock()
				m.found("VirtualMachine", allFindings("policy/"+policy))
				mu.Lock()
				delete(current, policy)
				mu.Unlock()
			}
		})
	}
	done.Wait()
	if m.series.mu.Lock(); len(m.series.known) > 8 {
		t.Errorf("%d policies have series", len(m.series.known))
	}
	m.series.mu.Unlock()
	if left := seriesNames(t, registry); len(left) > 0 {
		t.Errorf("series of deleted policies: %v", left)
	}
}
