package webhooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The verdicts that admission requests are counted under.
const (
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
}

// NewMetrics registers the metrics. factsAge and certificateExpiry are asked whenever metrics are read.
func NewMetrics(registry prometheus.Registerer, factsAge func() time.Duration, certificateExpiry func() time.Time) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_admission_requests_total",
			Help: "Admission requests answered, by kind, operation and verdict (patched, unchanged, ignored, skipped, malformed, failed).",
		}, []string{"kind", "operation", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "virtward_admission_duration_seconds",
			Help:    "Time from an admission request read to its answer made.",
			Buckets: []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1, .5, 1, 2},
		}, []string{"kind", "operation"}),
	}
	collectors := []prometheus.Collector{
		m.requests,
		m.duration,
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
func (m *Metrics) count(kind, operation, verdict string) {
	m.requests.WithLabelValues(kind, operation, verdict).Inc()
}

func (m *Metrics) observe(kind, operation, verdict string, took time.Duration) {
	m.requests.WithLabelValues(kind, operation, verdict).Inc()
	m.duration.WithLabelValues(kind, operation).Observe(took.Seconds())
}
