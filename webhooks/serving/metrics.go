package serving

import "github.com/prometheus/client_golang/prometheus"

// The reasons to close a connection.
const (
	reasonEvicted = "crowded-out"
	reasonTooSlow = "too-slow"
	reasonFull    = "full"
)

// Metrics of the servers of a process.
type Metrics struct {
	open     *prometheus.GaugeVec
	rejected *prometheus.CounterVec
	wrong    *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "virtward_connections",
			Help: "Open connections, by server (webhook, deletions, health, metrics, policy-counts) and whether they have called a valid path (proven, unproven).",
		}, []string{"server", "state"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_connections_rejected_total",
			Help: "Connections that were closed to protect the server, by server and reason: crowded-out (the oldest unproven one, closed for a new one), too-slow (no valid path in time), full (all proven connections have requests).",
		}, []string{"server", "reason"}),
		wrong: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_requests_wrong_path_total",
			Help: "Requests for a path that does not exist, or that carries a wrong token, by server.",
		}, []string{"server"}),
	}
	for _, c := range []prometheus.Collector{m.open, m.rejected, m.wrong} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
