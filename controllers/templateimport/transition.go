package templateimport

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
)

// Metrics count imports. Create them with NewMetrics.
type Metrics struct {
	imports *prometheus.CounterVec
	bytes   prometheus.Counter
	seconds prometheus.Histogram
	active  *active
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer, now clock.PassiveClock) (*Metrics, error) {
	m := &Metrics{
		active: newActive(now),
		imports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_template_imports_total", Help: "Ended imports of virtual appliances, by the reason of the condition Completed.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtward_template_import_bytes_total", Help: "Bytes of the disks of completed imports of virtual appliances.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "virtward_template_import_seconds", Help: "Duration of completed imports of virtual appliances.",
			Buckets: []float64{15, 60, 300, 900, 3600, 14400, 43200},
		}),
	}
	for _, c := range []prometheus.Collector{m.imports, m.bytes, m.seconds, m.active} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Events are the reasons of the events on imports.
var Events = events.Table{
	events.Normal(v1beta1.ReasonReadingSource, "the import begins, and the descriptor is read"),
	events.Normal(v1beta1.ReasonStaging, "the file is copied into a volume"),
	events.Normal(v1beta1.ReasonVerifying, "the whole file is compared with its digests"),
	events.Normal(v1beta1.ReasonPreparing, "the server of the disks starts"),
	events.Normal(v1beta1.ReasonImporting, "CDI imports the disks"),
	events.Normal(v1beta1.ReasonCreatingTemplate, "the template is created"),
	events.Normal(v1beta1.ReasonCleaningUp, "the template exists, and the server of the disks is deleted"),
	events.Normal(reasonCompleted, "the template is created"),
	events.Warning(v1beta1.ReasonBlocked, "the API server denies an object, and another attempt follows"),
	events.Warning(v1beta1.ReasonQuotaExceeded, "a ResourceQuota does not permit the volumes, and another attempt follows"),
	events.Warning(v1beta1.ReasonSourceUnavailable, "the source could not be read, and another attempt follows"),
	events.Warning(v1beta1.ReasonInvalidConfiguration, "the spec of the import does not fit the appliance"),
	events.Warning(v1beta1.ReasonChoiceRequired, "the descriptor has several virtual systems or networks, or a license"),
	events.Warning(v1beta1.ReasonNotImportable, "the appliance cannot be imported"),
	events.Warning(v1beta1.ReasonCredentialsForbidden, "Virtward may not read the Secret, the ConfigMap or the claim of the source"),
	events.Warning(v1beta1.ReasonSourceChanged, "the file at the URL or in the claim is not the one that the import began with"),
	events.Warning(v1beta1.ReasonVerificationFailed, "the file does not have the digest that is required, or the artifact no signature"),
	events.Warning(v1beta1.ReasonImportFailed, "CDI could not import a disk"),
	events.Warning(v1beta1.ReasonNameTaken, "an object with the name exists, and does not belong to the import"),
	events.Warning(v1beta1.ReasonDeadlineExceeded, "the import took too long"),
	events.Warning(v1beta1.ReasonRejected, "the API server rejects an object for good"),
	events.Warning(guarded.Reason, "the permissions of the author were not checked"),
}

// reasonCompleted is a reason of events that is not one of conditions.
const reasonCompleted = "Completed"

// moved notes how far an import is.
func (m *Metrics) moved(o *observed, p *progress, percent string) {
	if m != nil {
		m.active.note(o.request.UID, p, percent)
	}
}

// gone forgets an import that does not exist.
func (m *Metrics) gone(uid types.UID) {
	if m != nil {
		m.active.forget(uid)
	}
}

// ended counts an import.
func (m *Metrics) ended(reason string, o *observed) {
	if m == nil {
		return
	}
	m.imports.WithLabelValues(reason).Inc()
	if reason != v1beta1.ReasonReconciled {
		return
	}
	for i := range o.request.Status.Disks {
		m.bytes.Add(float64(o.request.Status.Disks[i].Size))
	}
	m.seconds.Observe(max(0, o.now.Sub(o.request.CreationTimestamp.Time).Seconds()))
}

// transition returns the events for another state of an import.
func transition(before, after *v1beta1.VirtualMachineTemplateImportStatus, p *progress, o *observed) []events.Event {
	if !requests.Changed(before.Conditions, after.Conditions) {
		return nil
	}
	if p.State != requests.HasCompleted {
		return []events.Event{Events.Event(p.Reason, p.Message)}
	}
	return []events.Event{Events.Event(reasonCompleted, "VirtualMachineTemplate "+requests.Named(o.template)+" is created")}
}
