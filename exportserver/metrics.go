package exportserver

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what the server does.
type metrics struct {
	measured, answers prometheus.Gauge
	sent              prometheus.Counter
	failures          *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		measured: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_export_server_measured_bytes", Help: "Bytes of disks that were read before the first download.",
		}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_export_server_sent_bytes_total", Help: "Bytes of the file that were sent to clients.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_export_server_failures_total", Help: "Errors of disks, by the reason of the status.",
		}, []string{"reason"}),
		answers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_export_server_answers", Help: "Downloads that are in progress.",
		}),
	}
	for _, c := range []prometheus.Collector{m.measured, m.sent, m.failures, m.answers} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}
