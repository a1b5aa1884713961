package webhooks

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// The verdicts that admission requests are counted under.
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

// Metrics of the webhooks.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	findings *prometheus.CounterVec
	// evaluated is how long all policies together take, evaluationErrors how often each could not be evaluated.
	evaluated        prometheus.Histogram
	evaluationErrors *prometheus.CounterVec
	// skipped is how often each policy was not evaluated.
	skipped *prometheus.CounterVec
	// waiting are evaluations that wait for room, evaluating the memory that those under way may take, and noRoom how
	// many waited in vain.
	waiting, evaluating prometheus.Gauge
	noRoom              prometheus.Counter
	// reviews are the SubjectAccessReviews by result, reviewHits the checks answered from the cache.
	reviews    *prometheus.HistogramVec
	reviewHits prometheus.Counter
}

// NewMetrics registers the metrics. factsAge, certificateExpiry and reads are called whenever metrics are read.
func NewMetrics(registry prometheus.Registerer, factsAge func() time.Duration, certificateExpiry func() time.Time, reads func() platform.RememberedStats) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_admission_requests_total",
			Help: "Admission requests answered, by webhook (mutate, validate), kind, operation and verdict (patched, unchanged, skipped; allowed, denied; ignored, malformed, failed, busy).",
		}, []string{"webhook", "kind", "operation", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "virtward_admission_duration_seconds",
			Help:    "Time from an admission request read to its answer made.",
			Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 2},
		}, []string{"webhook", "kind", "operation"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_findings_total",
			Help: "Findings of the checks and of policies, by rule (policy/NAME is a policy), kind and severity (Deny, Warn; Audit, of which nobody is told). A finding that an update found in the object before it counts as Warn.",
		}, []string{"rule", "kind", "severity"}),
		evaluated: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "virtward_policy_evaluation_seconds",
			Help:    "Time that all policies together take about one object; an update that is rejected is evaluated twice, with the object before.",
			Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 2},
		}),
		evaluationErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_policy_errors_total",
			Help: "Evaluations of a policy that failed, by reason: broken (it does not compile), parameters (they are missing), limit (it exceeds its budget), failed (an expression or a function failed).",
		}, []string{"policy", "reason"}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_policy_skipped_total",
			Help: "Objects about which a policy that does not deny was not evaluated: what such policies share in one request was exhausted, or half of the time for the answer was over.",
		}, []string{"policy"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_policy_evaluations_waiting",
			Help: "Requests that wait for room to evaluate policies.",
		}),
		evaluating: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_policy_evaluations_memory_bytes",
			Help: "Memory that the evaluations of policies that are under way may take.",
		}),
		noRoom: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_policy_evaluations_rejected_total",
			Help: "Requests answered with 503 because there was no room to evaluate policies until the API server gave up.",
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
	collectors := []prometheus.Collector{
		m.requests,
		m.duration,
		m.findings,
		m.evaluated,
		m.evaluationErrors,
		m.skipped,
		m.waiting,
		m.evaluating,
		m.noRoom,
		m.reviews,
		m.reviewHits,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_facts_age_seconds",
			Help: "Time since the KubeVirt configuration active was read. It is watched, so a great age means that it did not change.",
		}, func() float64 { return factsAge().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_certificate_expiry_timestamp_seconds",
			Help: "When the serving certificate of the webhooks expires, in seconds since 1970; 0 while there is none.",
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

// count notes a request that never became one.
func (m *Metrics) count(webhook, kind, operation, verdict string) {
	m.requests.WithLabelValues(webhook, kind, operation, verdict).Inc()
}

func (m *Metrics) observe(webhook, kind, operation, verdict string, took time.Duration) {
	m.requests.WithLabelValues(webhook, kind, operation, verdict).Inc()
	m.duration.WithLabelValues(webhook, kind, operation).Observe(took.Seconds())
}

// found counts the findings on an object.
func (m *Metrics) found(kind string, findings []validators.Finding) {
	for i := range findings {
		f := &findings[i]
		policy := strings.TrimPrefix(f.Rule, policies.RulePrefix)
		if policies.IsSkipped(f) {
			m.skipped.WithLabelValues(policy).Inc()
			continue
		}
		m.findings.WithLabelValues(f.Rule, kind, string(f.Severity)).Inc()
		if policies.IsEvaluationError(f) {
			m.evaluationErrors.WithLabelValues(policy, f.EvaluationError).Inc()
		}
	}
}

// ofReads are metrics of the objects that virtual machines refer to.
func ofReads(reads func() platform.RememberedStats) []prometheus.Collector {
	counter := func(name, help string, value func(platform.RememberedStats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(reads())) })
	}
	return []prometheus.Collector{
		counter("virtward_reference_cache_hits_total", "Objects that virtual machines refer to and that were remembered.", func(s platform.RememberedStats) uint64 { return s.Hits }),
		counter("virtward_reference_cache_misses_total", "Objects that virtual machines refer to and that were read from the API server.", func(s platform.RememberedStats) uint64 { return s.Misses }),
		counter("virtward_reference_cache_evictions_total", "Objects that were forgotten because the cache was full.", func(s platform.RememberedStats) uint64 { return s.Evicted }),
		counter("virtward_reference_too_large_total", "Objects that were too large to be read, or too many.", func(s platform.RememberedStats) uint64 { return s.TooLarge }),
		counter("virtward_reference_reads_rejected_total", "Reads that found no room before their request's deadline, because others read too much.", func(s platform.RememberedStats) uint64 { return s.Rejected }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_reference_cache_bytes", Help: "Estimated memory of the remembered objects.",
		}, func() float64 { return float64(reads().Bytes) }),
	}
}
