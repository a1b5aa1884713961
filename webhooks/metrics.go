package webhooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// The verdicts of admission requests.
const (
	verdictAllowed   = "allowed"
	verdictDenied    = "denied"
	verdictPatched   = "patched"
	verdictUnchanged = "unchanged"
	verdictIgnored   = "ignored"
	verdictSkipped   = "skipped"
	verdictMalformed = "malformed"
	verdictFailed    = "failed"
	verdictBusy      = "busy"
)

// labelPolicy is the label with the name of a policy.
const labelPolicy = "policy"

// Metrics of the webhooks.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	findings *prometheus.CounterVec
	// evaluated is the duration of all policies together. evaluationErrors and skipped count by policy.
	evaluated prometheus.Histogram
	// exempted counts the objects for which an exception admitted a violation.
	evaluationErrors, skipped, exempted *prometheus.CounterVec
	// series are those of findings, evaluationErrors, skipped and exempted.
	series *policySeries
	// waiting counts the evaluations that wait for memory, evaluating has the memory of those in progress, and rejected
	// counts those that got none.
	waiting, evaluating prometheus.Gauge
	rejected            prometheus.Counter
	// reviews are the SubjectAccessReviews by result, reviewHits the checks answered from the cache.
	reviews    *prometheus.HistogramVec
	reviewHits prometheus.Counter
}

// NewMetrics registers the metrics. Each scrape calls factsAge, certificateExpiry and reads. The series of a policy end when exists
// no longer reports it; nil keeps them.
func NewMetrics(registry prometheus.Registerer, factsAge func() time.Duration, certificateExpiry func() time.Time, reads func() platform.CacheStats, exists func(policy string) bool) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_admission_requests_total",
			Help: "Admission requests answered, by webhook (mutate, validate), kind, operation and verdict (patched, unchanged, skipped; allowed, denied; ignored, malformed, failed, busy).",
		}, []string{"webhook", "kind", "operation", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "virtward_admission_duration_seconds",
			Help:    "Time from receiving an admission request to its response.",
			Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 2},
		}, []string{"webhook", "kind", "operation"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_findings_total",
			Help: "Findings of rules and policies, by rule (policy/NAME is a policy), kind and severity (Deny, Warn; Audit appears only in reports). A pre-existing finding of an update counts as Warn.",
		}, []string{"rule", "kind", "severity"}),
		evaluated: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "virtward_policy_evaluation_seconds",
			Help:    "Duration of all policies together for one object. A denied update is evaluated twice, the second time with the object before.",
			Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 2},
		}),
		evaluationErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_policy_errors_total",
			Help: "Evaluation errors of a policy, by reason: broken (it does not compile), parameters (they are missing), limit (it exceeds its budget), failed.",
		}, []string{labelPolicy, "reason"}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_policy_skipped_total",
			Help: "Objects for which a policy that does not deny was skipped: the budget shared by such policies was exhausted, or half of the timeout had passed.",
		}, []string{labelPolicy}),
		exempted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_policy_exempted_total",
			Help: "Findings of a policy without an effect, because a VirtualMachinePolicyException exempts the virtual machine.",
		}, []string{labelPolicy}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_policy_evaluations_waiting",
			Help: "Requests that wait for memory to evaluate policies.",
		}),
		evaluating: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_policy_evaluations_memory_bytes",
			Help: "Memory reserved for policy evaluations in progress.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_policy_evaluations_rejected_total",
			Help: "Requests answered with 429 because they got no memory to evaluate policies, or no turn, in two thirds of the API server's timeout.",
		}),
		reviews: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "virtward_subject_access_review_duration_seconds",
			Help:    "Duration of SubjectAccessReviews for policies that use authorizer, with their retries, by result (allowed, denied, failed).",
			Buckets: []float64{.001, .002, .005, .01, .05, .1, .5, 1},
		}, []string{"result"}),
		reviewHits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_subject_access_review_cache_hits_total",
			Help: "Checks of policies that use authorizer, answered from the cache.",
		}),
	}
	m.series = &policySeries{exists: exists, known: map[string]bool{}}
	collectors := []prometheus.Collector{
		m.requests,
		m.duration,
		m.series.vector(m.findings, "rule", policies.RulePrefix),
		m.evaluated,
		m.series.vector(m.evaluationErrors, labelPolicy, ""),
		m.series.vector(m.skipped, labelPolicy, ""),
		m.series.vector(m.exempted, labelPolicy, ""),
		m.waiting,
		m.evaluating,
		m.rejected,
		m.reviews,
		m.reviewHits,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_facts_age_seconds",
			Help: "Time since the active KubeVirt configuration was read. It is watched, so a large age means that it did not change.",
		}, func() float64 { return factsAge().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_certificate_expiry_timestamp_seconds",
			Help: "Expiry of the webhooks' serving certificate, in seconds since 1970; 0 while there is none.",
		}, func() float64 {
			expiry := certificateExpiry()
			if expiry.IsZero() {
				return 0
			}
			return float64(expiry.Unix())
		}),
	}
	collectors = append(collectors, ofReads(reads)...)
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count counts a request without a duration.
func (m *Metrics) count(webhook, kind, operation, verdict string) {
	m.requests.WithLabelValues(webhook, kind, operation, verdict).Inc()
}

// observe counts a request with its duration.
func (m *Metrics) observe(webhook, kind, operation, verdict string, took time.Duration) {
	m.requests.WithLabelValues(webhook, kind, operation, verdict).Inc()
	m.duration.WithLabelValues(webhook, kind, operation).Observe(took.Seconds())
}

// found counts the findings of an object.
func (m *Metrics) found(kind string, findings []validators.Finding) {
	for i := range findings {
		f := &findings[i]
		m.series.count(f.Rule, func(policy string) { m.finding(kind, policy, f) })
	}
}

// finding counts a finding of a rule or of a policy.
func (m *Metrics) finding(kind, policy string, f *validators.Finding) {
	switch {
	case policies.IsSkipped(f):
		m.skipped.WithLabelValues(policy).Inc()
		return
	case f.Exempted != nil:
		m.exempted.WithLabelValues(policy).Inc()
		return
	}
	m.findings.WithLabelValues(f.Rule, kind, string(f.Severity)).Inc()
	if policies.IsEvaluationError(f) {
		m.evaluationErrors.WithLabelValues(policy, f.EvaluationError).Inc()
	}
}

// ofReads returns the metrics of the objects that virtual machines refer to.
func ofReads(reads func() platform.CacheStats) []prometheus.Collector {
	counter := func(name, help string, value func(platform.CacheStats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(reads())) })
	}
	return []prometheus.Collector{
		counter("virtward_reference_cache_hits_total", "Referenced objects answered from the cache.", func(s platform.CacheStats) uint64 { return s.Hits }),
		counter("virtward_reference_cache_misses_total", "Referenced objects read from the API server.", func(s platform.CacheStats) uint64 { return s.Misses }),
		counter("virtward_reference_cache_evictions_total", "Objects evicted because the cache was full.", func(s platform.CacheStats) uint64 { return s.Evicted }),
		counter("virtward_reference_too_large_total", "Objects that are too large to read, and lists with too many objects.", func(s platform.CacheStats) uint64 { return s.TooLarge }),
		counter("virtward_reference_reads_rejected_total", "Reads that got no memory before the deadline of their request.", func(s platform.CacheStats) uint64 { return s.Rejected }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_reference_cache_bytes", Help: "Estimated memory of the cached objects.",
		}, func() float64 { return float64(reads().Bytes) }),
	}
}
