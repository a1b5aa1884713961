package webhooks

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
)

// Metrics of the webhooks.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	findings *prometheus.CounterVec
	// judged is how long all policies together take, undecided what each could not be decided about.
	judged    prometheus.Histogram
	undecided *prometheus.CounterVec
}

// NewMetrics registers the metrics. factsAge and certificateExpiry are asked whenever metrics are read.
func NewMetrics(registry prometheus.Registerer, factsAge func() time.Duration, certificateExpiry func() time.Time) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_admission_requests_total",
			Help: "Admission requests answered, by webhook (mutate, validate), kind, operation and verdict (patched, unchanged, skipped; allowed, denied; ignored, malformed, failed).",
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
		judged: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "virtward_policy_evaluation_seconds",
			Help:    "Time that all policies together take about one object; an update that is refused is judged twice, with the object before.",
			Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 2},
		}),
		undecided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_policy_undecided_total",
			Help: "Objects that a policy could not be decided about: it is broken, an expression failed or cost too much, or its parameters are missing.",
		}, []string{"policy"}),
	}
	collectors := []prometheus.Collector{
		m.requests,
		m.duration,
		m.findings,
		m.judged,
		m.undecided,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtward_facts_age_seconds",
			Help: "Time since the KubeVirt configuration in force was read. It is watched, so a great age means that it did not change.",
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
		m.findings.WithLabelValues(findings[i].Rule, kind, string(findings[i].Severity)).Inc()
		if policies.IsUndecided(&findings[i]) {
			m.undecided.WithLabelValues(strings.TrimPrefix(findings[i].Rule, policies.RulePrefix)).Inc()
		}
	}
}
