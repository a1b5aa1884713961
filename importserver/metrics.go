package importserver

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what the server does.
type metrics struct {
	received, sent, resumptions prometheus.Counter
	failures                    *prometheus.CounterVec
	answers                     prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_import_server_received_bytes_total", Help: "Bytes of disks that were read from the source of an import.",
		}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_import_server_sent_bytes_total", Help: "Bytes of disks that were sent to importers.",
		}),
		resumptions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_import_server_resumptions_total", Help: "Connections to the source that broke, and after which the transfer continued.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_import_server_failures_total", Help: "Answers that failed, by the reason of the status.",
		}, []string{"reason"}),
		answers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtward_import_server_answers", Help: "Answers with disks that are in progress.",
		}),
	}
	for _, c := range []prometheus.Collector{m.received, m.sent, m.resumptions, m.failures, m.answers} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}
