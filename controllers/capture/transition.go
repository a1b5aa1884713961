package capture

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// Metrics count captures. Create them with NewMetrics.
type Metrics struct {
	captures *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		captures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_template_captures_total", Help: "Ended captures of VirtualMachines, by the reason of the condition Completed.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "virtward_template_capture_step_seconds", Help: "Duration of the steps of captures: snapshot and clone.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 3600, 14400, 43200},
		}, []string{"step"}),
	}
	for _, c := range []prometheus.Collector{m.captures, m.seconds} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// transition creates an event if the state of a request changed, and counts it.
func (r *Reconciler) transition(before *v1beta1.VirtualMachineTemplateRequest, p *progress, o *observed) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1beta1.RequestProgressing)
	is := meta.FindStatusCondition(o.request.Status.Conditions, v1beta1.RequestProgressing)
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	if r.Metrics != nil && p.state != isWorking {
		r.Metrics.captures.WithLabelValues(p.reason).Inc()
	}
	switch p.state {
	case hasFailed:
		r.Tell(o.request, corev1.EventTypeWarning, p.reason, p.message)
	case hasCompleted:
		if p.message != "" {
			r.Tell(o.request, corev1.EventTypeWarning, "NotCopied", p.message)
		}
		r.Tell(o.request, corev1.EventTypeNormal, "Completed", "VirtualMachineTemplate "+named(o.template)+" is created")
	default:
		kind := corev1.EventTypeNormal
		if p.reason == v1beta1.ReasonBlocked {
			kind = corev1.EventTypeWarning
		}
		r.Tell(o.request, kind, p.reason, p.message)
	}
}

// measure observes how long the step before took.
func (m *Metrics) measure(o *observed, d *decision) {
	if m == nil || d.steps[0].verb != create {
		return
	}
	switch d.steps[0].object.(type) {
	case *cdiv1beta1.DataVolume:
		m.seconds.WithLabelValues("snapshot").Observe(o.now.Sub(o.snapshot.CreationTimestamp.Time).Seconds())
	case *v1beta1.VirtualMachineTemplate:
		m.seconds.WithLabelValues("clone").Observe(o.now.Sub(o.content.CreationTimestamp.Time).Seconds())
	}
}
