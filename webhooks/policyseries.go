package webhooks

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/policies"
)

// policySeries are the series that have the name of a policy. They end with the policy: users who can write policies could otherwise
// create series without limit. It is safe for concurrent use.
type policySeries struct {
	// exists reports whether there is a policy of a name; nil for any name.
	exists func(policy string) bool

	mu sync.Mutex
	// known are the policies that have series in vectors.
	known   map[string]bool
	vectors []policyVector
}

// policyVector is a metric with the name of a policy in a label, after a prefix.
type policyVector struct {
	*prometheus.CounterVec

	label, prefix string
}

// count counts findings of a policy, or of a rule if there is none. A new policy first ends the series of those that are deleted, so
// that there are never more than policies, also without a scrape.
func (s *policySeries) count(rule string, add func(policy string)) {
	policy, isPolicy := strings.CutPrefix(rule, policies.RulePrefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	if isPolicy && !s.known[policy] {
		s.prune()
		s.known[policy] = true
	}
	add(policy)
}

// prune ends the series of policies that do not exist. The lock is held.
func (s *policySeries) prune() {
	if s.exists == nil {
		return
	}
	for policy := range s.known {
		if s.exists(policy) {
			continue
		}
		delete(s.known, policy)
		for _, v := range s.vectors {
			v.DeletePartialMatch(prometheus.Labels{v.label: v.prefix + policy})
		}
	}
}

// vector adds a metric, and returns it as a collector that has no series of deleted policies.
func (s *policySeries) vector(metric *prometheus.CounterVec, label, prefix string) prometheus.Collector {
	s.vectors = append(s.vectors, policyVector{metric, label, prefix})
	return pruned{metric, s}
}

// pruned is a metric whose series end with their policies.
type pruned struct {
	*prometheus.CounterVec

	series *policySeries
}

// Collect implements prometheus.Collector.
func (p pruned) Collect(to chan<- prometheus.Metric) {
	p.series.mu.Lock()
	p.series.prune()
	p.series.mu.Unlock()
	p.CounterVec.Collect(to)
}
