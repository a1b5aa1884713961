package virtualimages

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/virtualimages"
)

// The states of images in the metrics.
const (
	statePending         = "Pending"
	stateImporting       = "Importing"
	stateRetrying        = "Retrying"
	stateFailed          = "Failed"
	stateReady           = "Ready"
	stateUnavailable     = "Unavailable"
	stateUnreachable     = "Unreachable"
	stateDeleting        = "Deleting"
	stateDeletionBlocked = "DeletionBlocked"
)

var states = []string{statePending, stateImporting, stateRetrying, stateFailed, stateReady, stateUnavailable, stateUnreachable, stateDeleting, stateDeletionBlocked}

// unanswered are the reasons of images whose backend does not answer as it should.
var unanswered = []string{virtualimages.ReasonUnreachable, "CredentialsRejected", "CloudMisconfigured"}

// stateOf is the state of an image.
func stateOf(deleting bool, status *v1alpha1.VirtualImageStatus) string {
	reason := func(kind string) string {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			return c.Reason
		}
		return ""
	}
	imported, ready := reason(v1alpha1.ConditionImported), reason(v1alpha1.ConditionReady)
	switch {
	case deleting && slices.Contains([]string{virtualimages.ReasonBlocked, virtualimages.ReasonUsersUnknown}, reason(v1alpha1.ConditionDeleting)):
		return stateDeletionBlocked
	case deleting:
		return stateDeleting
	case status.Ready:
		return stateReady
	case slices.Contains(unanswered, ready):
		return stateUnreachable
	case imported == virtualimages.ReasonImported:
		return stateUnavailable
	case imported == virtualimages.ReasonImporting:
		return stateImporting
	case imported == virtualimages.ReasonRetrying:
		return stateRetrying
	case imported == virtualimages.ReasonImportFailed, imported == virtualimages.ReasonUploadExpired, imported == virtualimages.ReasonNameTaken, imported == reasonNoClass:
		return stateFailed
	}
	return statePending
}

// reasonNoClass is the reason of an image whose class is not configured.
const reasonNoClass = "ClassNotFound"

const (
	// maxCounted bounds the images that have metrics. Others are counted together.
	maxCounted = 20_000
	// maxReasons bounds the reasons of failures. The others are otherReason.
	maxReasons  = 64
	otherReason = "Other"
	// otherClass is the label of images whose class is not configured. Users choose its name.
	otherClass = "unknown"
)

var (
	descImages    = prometheus.NewDesc("virtward_virtual_images", "VirtualImages by their class and state.", []string{"class", "state"}, nil)
	descBytes     = prometheus.NewDesc("virtward_virtual_image_bytes", "Bytes of the stored VirtualImages by their class.", []string{"class"}, nil)
	descCloud     = prometheus.NewDesc("virtward_virtual_image_cloud_users", "VirtualImages that are stored in OpenStack by their class and by which users there are counted.", []string{"class", "counted"}, nil)
	descLimit     = prometheus.NewDesc("virtward_virtual_image_imports_limit", "VirtualImages that are imported at the same time at most.", nil, nil)
	descUncounted = prometheus.NewDesc("virtward_virtual_images_uncounted", "VirtualImages without metrics, because there are too many.", nil, nil)
)

// record is what the metrics have of an image.
type record struct {
	class, state string
	bytes        int64
	// counted is the reason of the condition CloudUsersCounted; empty without it.
	counted string
}

// ledger has the metrics of all images. It is a prometheus.Collector. Only the leader has values.
type ledger struct {
	classes []string
	limit   int

	imports  *prometheus.CounterVec
	failures *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	mu        sync.Mutex
	images    map[types.NamespacedName]record
	uncounted map[types.NamespacedName]struct{}
	reasons   map[string]struct{}
}

// buckets are the durations of imports in seconds: up to the longest that the chart permits.
var buckets = []float64{5, 15, 60, 180, 600, 1800, 3600, 2 * 3600, 6 * 3600}

func newLedger(classes []string, limit int) *ledger {
	l := &ledger{
		classes: classes, limit: limit, images: map[types.NamespacedName]record{}, uncounted: map[types.NamespacedName]struct{}{}, reasons: map[string]struct{}{},
		imports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_virtual_image_imports_total", Help: "Imports of VirtualImages that ended, by their class and result: imported, failed.",
		}, []string{"class", "result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_virtual_image_import_failures_total", Help: "Failures of imports of VirtualImages by their class and reason, also of those that are tried again.",
		}, []string{"class", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "virtward_virtual_image_import_seconds", Help: "Time from the creation of a VirtualImage to the end of its import.", Buckets: buckets,
		}, []string{"class"}),
	}
	for _, class := range classes {
		l.imports.WithLabelValues(class, "imported")
		l.imports.WithLabelValues(class, "failed")
	}
	return l
}

// classOf is the label of a class.
func (l *ledger) classOf(name string) string {
	if slices.Contains(l.classes, name) {
		return name
	}
	return otherClass
}

// reasonOf is the label of a reason. The lock is held.
func (l *ledger) reasonOf(name string) string {
	if _, known := l.reasons[name]; known || len(l.reasons) < maxReasons {
		l.reasons[name] = struct{}{}
		return name
	}
	return otherReason
}

// note replaces the record of an image.
func (l *ledger) note(class string, image *v1alpha1.VirtualImage, status *v1alpha1.VirtualImageStatus) {
	key := types.NamespacedName{Namespace: image.Namespace, Name: image.Name}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.images[key]; !known && len(l.images) >= maxCounted {
		if len(l.uncounted) < maxCounted {
			l.uncounted[key] = struct{}{}
		}
		return
	}
	l.images[key] = record{l.classOf(class), stateOf(image.DeletionTimestamp != nil, status), status.SizeBytes, countedOf(status)}
}

// countedOf says which users of an image in OpenStack are counted.
func countedOf(status *v1alpha1.VirtualImageStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCloudUsersCounted); c != nil {
		return c.Reason
	}
	return ""
}

// forget removes the record of an image.
func (l *ledger) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.images, key)
	delete(l.uncounted, key)
}

// transition counts an import that ended or failed, once its status is written.
func (l *ledger) transition(in *virtualimages.Input, before *v1alpha1.VirtualImageStatus) {
	image := in.Image
	was, is := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionImported), meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionImported)
	if is == nil || was != nil && was.Reason == is.Reason {
		return
	}
	class := l.classOf(in.Class)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case is.Status == metav1.ConditionTrue:
		l.imports.WithLabelValues(class, "imported").Inc()
		l.seconds.WithLabelValues(class).Observe(max(0, in.Now.Sub(image.CreationTimestamp.Time).Seconds()))
	case is.Reason == virtualimages.ReasonImportFailed, is.Reason == virtualimages.ReasonUploadExpired:
		l.imports.WithLabelValues(class, "failed").Inc()
		l.fails(class, in.Observation)
	case is.Reason == virtualimages.ReasonRetrying:
		l.fails(class, in.Observation)
	}
}

// fails counts a failure by its reason. The lock is held.
func (l *ledger) fails(class string, o *virtualimages.Observation) {
	reason := virtualimages.ReasonImportFailed
	if o != nil && o.Reason != "" {
		reason = o.Reason
	}
	l.failures.WithLabelValues(class, l.reasonOf(reason)).Inc()
}

// Describe implements prometheus.Collector.
func (l *ledger) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descImages, descBytes, descCloud, descLimit, descUncounted} {
		descriptions <- d
	}
	l.imports.Describe(descriptions)
	l.failures.Describe(descriptions)
	l.seconds.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (l *ledger) Collect(values chan<- prometheus.Metric) {
	l.imports.Collect(values)
	l.failures.Collect(values)
	l.seconds.Collect(values)
	l.mu.Lock()
	defer l.mu.Unlock()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		values <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	number, bytes, counted := map[[2]string]int{}, map[string]int64{otherClass: 0}, map[[2]string]int{}
	for _, image := range l.images {
		number[[2]string{image.class, image.state}]++
		bytes[image.class] += image.bytes
		if image.counted != "" {
			counted[[2]string{image.class, image.counted}]++
		}
	}
	for _, class := range l.classes {
		bytes[class] += 0
	}
	for _, class := range slices.Sorted(maps.Keys(bytes)) {
		for _, state := range states {
			gauge(descImages, float64(number[[2]string{class, state}]), class, state)
		}
		gauge(descBytes, float64(bytes[class]), class)
		for _, reason := range virtualimages.CloudReasons {
			gauge(descCloud, float64(counted[[2]string{class, reason}]), class, reason)
		}
	}
	gauge(descLimit, float64(l.limit))
	gauge(descUncounted, float64(len(l.uncounted)))
}

// Collector returns the metrics.
func (r *Reconciler) Collector() prometheus.Collector { return r.ledger }
