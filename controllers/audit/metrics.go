package audit

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures are what the metrics tell of the last audit.
type Figures struct {
	// Objects is how many were evaluated.
	Objects int
	// Took is how long the last whole round did, and Ended when it ended.
	Took  time.Duration
	Ended time.Time
	// Policies are those active, Rules the built-in rules that something was found by.
	Policies []PolicyFigure
	Rules    []RuleFigure
	// Foreign is how many namespaces have a Report of somebody else's in the place of ours.
	Foreign int
}

// PolicyFigure counts the objects that a policy says something about.
type PolicyFigure struct {
	Name, Severity, Enforcement string
	Violating, Errors           int
}

// RuleFigure counts the objects that a built-in rule says something about.
type RuleFigure struct {
	Rule      string
	Violating int
}

// Metrics of the audit. There are none where no audit has been: on a replica that does not lead.
type Metrics struct {
	figures atomic.Pointer[Figures]
	failed  prometheus.Counter
}

var (
	descViolations = prometheus.NewDesc("virtward_policy_violations",
		"Objects that exist and violate a policy, as the last audit found them.", []string{"policy", "severity", "enforcement"}, nil)
	descErrors = prometheus.NewDesc("virtward_policy_errors",
		"Objects that exist and that a policy cannot be evaluated on.", []string{"policy"}, nil)
	descRules = prometheus.NewDesc("virtward_rule_violations",
		"Objects that exist and that a built-in rule finds something about.", []string{"rule"}, nil)
	descObjects = prometheus.NewDesc("virtward_audit_objects",
		"Virtual machines, instances and pools that the audit has evaluated.", nil, nil)
	descDuration = prometheus.NewDesc("virtward_audit_duration_seconds",
		"How long the last whole audit took.", nil, nil)
	descSuccess = prometheus.NewDesc("virtward_audit_last_success_timestamp_seconds",
		"When the last whole audit ended, in seconds since 1970.", nil, nil)
	descForeign = prometheus.NewDesc("virtward_audit_foreign_reports",
		"Namespaces in which the name of our Report is taken by somebody else's.", nil, nil)
)

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "virtward_audit_failures_total",
		Help: "Audits that could not be ended or published, and are tried again.",
	})}
	if err := registry.Register(m); err != nil {
		return nil, err
	}
	return m, registry.Register(m.failed)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descViolations, descErrors, descRules, descObjects, descDuration, descSuccess, descForeign} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	f := m.figures.Load()
	if f == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for i := range f.Policies {
		p := &f.Policies[i]
		gauge(descViolations, float64(p.Violating), p.Name, p.Severity, p.Enforcement)
		gauge(descErrors, float64(p.Errors), p.Name)
	}
	for i := range f.Rules {
		gauge(descRules, float64(f.Rules[i].Violating), f.Rules[i].Rule)
	}
	gauge(descObjects, float64(f.Objects))
	gauge(descDuration, f.Took.Seconds())
	gauge(descSuccess, float64(f.Ended.UnixMilli())/1000)
	gauge(descForeign, float64(f.Foreign))
}

// set is what the metrics tell from now on.
func (m *Metrics) set(f *Figures) { m.figures.Store(f) }
