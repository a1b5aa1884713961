package goldenimages

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
)

// The metrics of catalogs. Those that mean the same as metrics of HCO have their names, so that dashboards of HCO show them;
// they have no values while SSP manages the images, because HCO reports them then. Only the leader has values.
var (
	descSupported = prometheus.NewDesc("kubevirt_hco_dataimportcrontemplate_with_supported_architectures",
		"Whether nodes have an architecture of an image (1) or not (0).", []string{"catalog", "data_import_cron_name", "managed_data_source_name"}, nil)
	descAnnotated = prometheus.NewDesc("kubevirt_hco_dataimportcrontemplate_with_architecture_annotation",
		"Whether the entry of an image lists architectures (1) or not (0).", []string{"catalog", "data_import_cron_name", "managed_data_source_name"}, nil)
	descMultiArch = prometheus.NewDesc("kubevirt_hco_multi_arch_boot_images_enabled",
		"Whether a catalog imports its images for all architectures of the nodes (1) or not (0).", []string{"catalog"}, nil)
	descReady = prometheus.NewDesc("virtward_golden_image_catalog_ready",
		"Whether all images of a catalog are imported (1) or not (0), by the reason.", []string{"catalog", "reason"}, nil)
	descNodes = prometheus.NewDesc("virtward_golden_image_nodes",
		"Nodes on which virtual machines run, by their architecture.", []string{"catalog", "architecture"}, nil)
	descImported = prometheus.NewDesc("virtward_golden_image_imported",
		"Whether an image is imported (1) or not (0), by its architecture.", []string{"catalog", "image", "architecture"}, nil)
	descFailing = prometheus.NewDesc("virtward_golden_image_import_failing",
		"Imports of images that fail, by the reason: ImagePullFailed, Unschedulable, Error.", []string{"catalog", "image", "architecture", "reason"}, nil)
	descVerified = prometheus.NewDesc("virtward_golden_image_manifest_verified",
		"Whether an entry and the manifest of its image have the same architectures (1) or not (0), by the reason of the condition ManifestVerified.", []string{"catalog", "image", "reason"}, nil)
	descAge = prometheus.NewDesc("virtward_golden_image_import_age_seconds",
		"Time since the last import of an image, by its architecture.", []string{"catalog", "image", "architecture"}, nil)
	descUncounted = prometheus.NewDesc("virtward_golden_images_uncounted",
		"Images without metrics, because there are too many.", nil, nil)
)

// maxImages bounds the images that have metrics, of all catalogs together.
const maxImages = 2000

// anyArchitecture is the label of an image that is imported once.
const anyArchitecture = "any"

// importRecord is what the metrics have of an import.
type importRecord struct {
	architecture, failing string
	imported              bool
	// at is the time of the last import; zero if it is not known.
	at time.Time
}

// imageRecord is what the metrics have of an image.
type imageRecord struct {
	name, source         string
	annotated, supported bool
	// verified is the reason of the condition of the manifest; empty if it is not read.
	verified string
	imports  []importRecord
}

// catalogRecord is what the metrics have of a catalog.
type catalogRecord struct {
	multiArch, observed, ready bool
	reason                     string
	nodes                      []v1alpha1.ArchitectureCount
	images                     []imageRecord
	// uncounted are the images beyond maxImages.
	uncounted int
}

// ledger has the records of all catalogs. It is a prometheus.Collector.
type ledger struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	catalogs map[string]*catalogRecord
}

// note replaces the record of a catalog.
func (l *ledger) note(in *goldenimages.Input, s *v1alpha1.GoldenImageCatalogStatus) {
	record := &catalogRecord{multiArch: in.Catalog.Spec.MultiArch == nil || *in.Catalog.Spec.MultiArch, observed: in.SSP != "", nodes: slices.Clone(s.Nodes.WorkloadArchitectures)}
	if c := meta.FindStatusCondition(s.Conditions, conditionReady); c != nil {
		record.ready, record.reason = c.Status == metav1.ConditionTrue, c.Reason
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := maxImages
	for name, other := range l.catalogs {
		if name != in.Catalog.Name {
			left -= len(other.images)
		}
	}
	for i := range s.Images[:min(left, len(s.Images))] {
		record.images = append(record.images, imageOf(in, &s.Images[i]))
	}
	record.uncounted = len(s.Images) - len(record.images)
	l.catalogs[in.Catalog.Name] = record
}

func (l *ledger) forget(catalog string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.catalogs, catalog)
}

func imageOf(in *goldenimages.Input, image *v1alpha1.Image) imageRecord {
	record := imageRecord{name: strings.Clone(image.Name), source: strings.Clone(image.DataSource), annotated: len(image.OriginalArchitectures) > 0}
	c := meta.FindStatusCondition(image.Conditions, goldenimages.Deployed)
	record.supported = c == nil || c.Reason != goldenimages.ReasonUnsupported
	if c := meta.FindStatusCondition(image.Conditions, goldenimages.ManifestVerified); c != nil {
		record.verified = strings.Clone(c.Reason)
	}
	for k := range image.Imports {
		of := &image.Imports[k]
		i := importRecord{architecture: of.Architecture}
		if i.architecture == "" {
			i.architecture = anyArchitecture
		}
		if c := meta.FindStatusCondition(of.Conditions, goldenimages.Imported); c != nil {
			i.imported = c.Status == metav1.ConditionTrue
			if slices.Contains(failing, c.Reason) {
				i.failing = c.Reason
			}
		}
		if cron := in.Crons[of.DataImportCron]; cron != nil && cron.Status.LastImportTimestamp != nil {
			i.at = cron.Status.LastImportTimestamp.Time
		}
		record.imports = append(record.imports, i)
	}
	return record
}

// Describe implements prometheus.Collector.
func (l *ledger) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSupported, descAnnotated, descMultiArch, descReady, descNodes, descImported, descFailing, descVerified, descAge, descUncounted} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (l *ledger) Collect(values chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		values <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	uncounted := 0
	for _, name := range slices.Sorted(maps.Keys(l.catalogs)) {
		c := l.catalogs[name]
		gauge(descReady, number(c.ready), name, c.reason)
		if !c.observed {
			gauge(descMultiArch, number(c.multiArch), name)
		}
		for _, n := range c.nodes {
			gauge(descNodes, float64(n.Nodes), name, n.Architecture)
		}
		uncounted += c.uncounted
		for i := range c.images {
			l.image(gauge, name, c, &c.images[i])
		}
	}
	gauge(descUncounted, float64(uncounted))
}

func (l *ledger) image(gauge func(*prometheus.Desc, float64, ...string), catalog string, c *catalogRecord, image *imageRecord) {
	if !c.observed {
		gauge(descAnnotated, number(image.annotated), catalog, image.name, image.source)
		gauge(descSupported, number(image.supported), catalog, image.name, image.source)
	}
	if image.verified != "" {
		gauge(descVerified, number(image.verified == goldenimages.ReasonVerified), catalog, image.name, image.verified)
	}
	for _, i := range image.imports {
		gauge(descImported, number(i.imported), catalog, image.name, i.architecture)
		if i.failing != "" {
			gauge(descFailing, 1, catalog, image.name, i.architecture, i.failing)
		}
		if !i.at.IsZero() {
			gauge(descAge, max(0, l.clock.Since(i.at).Seconds()), catalog, image.name, i.architecture)
		}
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Collector returns the metrics.
func (r *Reconciler) Collector() prometheus.Collector { return r.ledger }
