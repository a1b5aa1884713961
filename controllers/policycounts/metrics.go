package policycounts

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/policycounts"
)

// Metrics of the Reader.
type Metrics struct{ reads *prometheus.CounterVec }

// The results of reading a replica.
const (
	resultRead    = "read"
	resultVersion = "other-version"
	resultFailed  = "failed"
)

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{reads: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtward_policy_counts_reads_total",
		Help: "Reads of the counts of policies from replicas of the webhook, by result: read, other-version (a replica of another release, as during an upgrade), failed.",
	}, []string{"result"})}
	for _, result := range []string{resultRead, resultVersion, resultFailed} {
		m.reads.WithLabelValues(result)
	}
	return m, registry.Register(m.reads)
}

func (m *Metrics) read(read int, errs []error) {
	m.reads.WithLabelValues(resultRead).Add(float64(read))
	for _, err := range errs {
		result := resultFailed
		if errors.Is(err, policycounts.ErrVersion) {
			result = resultVersion
		}
		m.reads.WithLabelValues(result).Inc()
	}
}
