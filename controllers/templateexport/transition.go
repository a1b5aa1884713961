package templateexport

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
)

// Metrics count exports. Create them with NewMetrics.
type Metrics struct {
	exports *prometheus.CounterVec
	bytes   prometheus.Counter
	seconds prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_template_exports_total", Help: "Exports of VM templates that became ready or failed, by the reason of the condition Ready.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_template_export_bytes_total", Help: "Bytes of the files of exports that became ready.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "virtward_template_export_seconds", Help: "Time from the creation of an export to its readiness.",
			Buckets: []float64{15, 60, 300, 900, 3600, 14400, 43200},
		}),
	}
	for _, c := range []prometheus.Collector{m.exports, m.bytes, m.seconds} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Events are the reasons of the events on exports.
var Events = events.Table{
	events.Normal(v1beta1.ReasonCloning, "the volumes are cloned"),
	events.Normal(v1beta1.ReasonPreparing, "the server of the file starts"),
	events.Normal(v1beta1.ReasonMeasuring, "the server reads the volumes for the first time"),
	events.Normal(v1beta1.ReasonServing, "the file can be downloaded"),
	events.Warning(v1beta1.ReasonBlocked, "the API server denies an object, and another attempt follows"),
	events.Warning(v1beta1.ReasonInvalidConfiguration, "an admin does not permit the spec of the export"),
	events.Warning(v1beta1.ReasonTemplateNotFound, "the template does not exist"),
	events.Warning(v1beta1.ReasonNotExportable, "the template cannot be exported"),
	events.Warning(v1beta1.ReasonSourceNotPermitted, "a volume is in a namespace that the export does not name"),
	events.Warning(v1beta1.ReasonCloneFailed, "a volume could not be cloned"),
	events.Warning(v1beta1.ReasonExportFailed, "the server could not read a volume"),
	events.Warning(v1beta1.ReasonVerificationFailed, "the Service of the server was changed"),
	events.Warning(v1beta1.ReasonNameTaken, "an object with the name exists, and does not belong to the export"),
	events.Warning(v1beta1.ReasonDeadlineExceeded, "the export took too long"),
	events.Warning(v1beta1.ReasonRejected, "the API server rejects an object for good"),
	events.Warning(guarded.Reason, "the permissions of the author were not checked"),
}

// ended counts an export that became ready for the first time, or failed.
func (m *Metrics) ended(p *progress, o *observed) {
	if m == nil {
		return
	}
	m.exports.WithLabelValues(p.reason).Inc()
	if p.state == ready {
		m.bytes.Add(float64(p.server.Size))
		m.seconds.Observe(max(0, o.now.Sub(o.request.CreationTimestamp.Time).Seconds()))
	}
}
