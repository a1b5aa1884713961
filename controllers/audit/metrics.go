package audit

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/migrations"
)

// Figures are the values of the metrics.
type Figures struct {
	// Objects is the number of evaluated objects.
	Objects int
	// Took is the duration of the last whole round, and Ended its end.
	Took  time.Duration
	Ended time.Time
	// Policies are the active ones, and Rules the built-in rules with findings.
	Policies []PolicyFigure
	Rules    []RuleFigure
	// Foreign is the number of namespaces in which another component owns the Report named virtward.
	Foreign int
	// Targets are the numbers of running instances by how many nodes could receive them.
	Targets [migrations.Levels]int
}

// PolicyFigure has the numbers of objects that violate a policy, and that it cannot be evaluated on.
type PolicyFigure struct {
	Name, Severity, Enforcement string
	Violating, Errors           int
}

// RuleFigure has the number of objects with findings of a built-in rule.
type RuleFigure struct {
	Rule      string
	Violating int
}

// Metrics of the audit. A replica that does not lead has none.
type Metrics struct {
	figures atomic.Pointer[Figures]
	// exists reports whether a policy still exists: its values end with it, and not with the next audit.
	exists func(policy string) bool
	failed prometheus.Counter
}

var (
	descViolations = prometheus.NewDesc("virtward_policy_violations",
		"Objects that violate a policy, in the last audit.", []string{"policy", "severity", "enforcement"}, nil)
	descErrors = prometheus.NewDesc("virtward_policy_errors",
		"Objects that a policy cannot be evaluated on, in the last audit.", []string{"policy"}, nil)
	descRules = prometheus.NewDesc("virtward_rule_violations",
		"Objects with findings of a built-in rule, in the last audit.", []string{"rule"}, nil)
	descObjects = prometheus.NewDesc("virtward_audit_objects",
		"Virtual machines, instances and pools that the last audit evaluated.", nil, nil)
	descDuration = prometheus.NewDesc("virtward_audit_duration_seconds",
		"Duration of the last complete audit, in seconds.", nil, nil)
	descSuccess = prometheus.NewDesc("virtward_audit_last_success_timestamp_seconds",
		"End of the last complete audit, in seconds since 1970.", nil, nil)
	descTargets = prometheus.NewDesc("virtward_instances_by_migration_targets",
		"Running virtual machine instances by how many other nodes could receive them by live migration, in the last audit.", []string{"targets"}, nil)
	descForeign = prometheus.NewDesc("virtward_audit_foreign_reports",
		"Namespaces without a Report of Virtward, because another component owns the Report of that name.", nil, nil)
)

// NewMetrics registers the metrics. A policy has values while exists reports it; nil reports any.
func NewMetrics(registry prometheus.Registerer, exists func(policy string) bool) (*Metrics, error) {
	m := &Metrics{exists: exists, failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "virtward_audit_failures_total",
		Help: "Audits that failed, or whose results could not be published. They are retried.",
	})}
	if err := registry.Register(m); err != nil {
		return nil, err
	}
	return m, registry.Register(m.failed)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descViolations, descErrors, descRules, descObjects, descDuration, descSuccess, descTargets, descForeign} {
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
		if m.exists != nil && !m.exists(p.Name) {
			continue
		}
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
	if !f.countsTargets() {
		return
	}
	for level := migrations.NoTarget; int(level) < migrations.Levels; level++ {
		gauge(descTargets, float64(f.Targets[level]), level.String())
	}
}

// countsTargets reports whether the targets of an instance were counted.
func (f *Figures) countsTargets() bool {
	return slices.ContainsFunc(f.Targets[migrations.NoTarget:], func(n int) bool { return n > 0 })
}

// set replaces the values.
func (m *Metrics) set(f *Figures) { m.figures.Store(f) }
