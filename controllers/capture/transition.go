package capture

import (
	"github.com/prometheus/client_golang/prometheus"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
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

// Events are the reasons of the events on requests.
var Events = events.Table{
	events.Normal(v1beta1.ReasonSnapshotting, "the capture begins, and the virtual machine is snapshotted"),
	events.Normal(v1beta1.ReasonCloning, "the volumes of the snapshot are cloned"),
	events.Normal(v1beta1.ReasonCreatingTemplate, "the template is created"),
	events.Normal(v1beta1.ReasonCleaningUp, "the template exists, and the snapshot is deleted"),
	events.Warning(v1beta1.ReasonBlocked, "the API server denies an object, and another attempt follows"),
	events.Normal(reasonCompleted, "the template is created"),
	events.Warning(reasonNotCopied, "the template lacks something of the virtual machine"),
	events.Warning(v1beta1.ReasonInvalidConfiguration, "the spec of the request is invalid"),
	events.Warning(guarded.Reason, "the permissions of the author were not checked"),
	events.Warning(v1beta1.ReasonNameTaken, "an object with the name exists, and does not belong to the request"),
	events.Warning(v1beta1.ReasonSnapshotFailed, "the snapshot failed, or was deleted"),
	events.Warning(v1beta1.ReasonVolumesNotCaptured, "the snapshot lacks volumes"),
	events.Warning(v1beta1.ReasonExpansionFailed, "the instancetype or the preference cannot be applied"),
	events.Warning(v1beta1.ReasonCloneFailed, "a volume could not be cloned"),
	events.Warning(v1beta1.ReasonDeadlineExceeded, "a step took too long"),
	events.Warning(v1beta1.ReasonSourceNotQuiesced, "the virtual machine ran during the snapshot, and its file systems were not frozen"),
	events.Warning(v1beta1.ReasonSourceNotStopped, "the virtual machine was not stopped during the snapshot"),
	events.Warning(v1beta1.ReasonRejected, "the API server rejects an object for good"),
}

// Reasons of events that are not those of conditions.
const (
	reasonCompleted = "Completed"
	reasonNotCopied = "NotCopied"
)

// ended counts a capture.
func (m *Metrics) ended(reason string) {
	if m != nil {
		m.captures.WithLabelValues(reason).Inc()
	}
}

// transition returns the events for another state of a request.
func transition(before, after *v1beta1.VirtualMachineTemplateRequestStatus, p *requests.Progress, o *observed) []events.Event {
	if !requests.Changed(before.Conditions, after.Conditions) {
		return nil
	}
	if p.State != requests.HasCompleted {
		return []events.Event{Events.Event(p.Reason, p.Message)}
	}
	completed := Events.Event(reasonCompleted, "VirtualMachineTemplate "+requests.Named(o.template)+" is created")
	if p.Message != "" {
		return []events.Event{Events.Event(reasonNotCopied, p.Message), completed}
	}
	return []events.Event{completed}
}

// measure observes how long the step before took.
func (m *Metrics) measure(o *observed, d *decision) {
	if m == nil || d.steps[0].Verb != requests.Create {
		return
	}
	switch d.steps[0].Object.(type) {
	case *cdiv1beta1.DataVolume:
		m.seconds.WithLabelValues("snapshot").Observe(o.now.Sub(o.snapshot.CreationTimestamp.Time).Seconds())
	case *v1beta1.VirtualMachineTemplate:
		m.seconds.WithLabelValues("clone").Observe(o.now.Sub(o.content.CreationTimestamp.Time).Seconds())
	}
}
