package pending

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/rollouts"
)

// The metrics of all running VMs. Only the leader has values.
var (
	descChanges = prometheus.NewDesc("virtward_vm_pending_changes",
		"Pending changes of running virtual machines, by when they take effect.", []string{"kind"}, nil)
	descRestart = prometheus.NewDesc("virtward_vm_restart_required",
		"Running virtual machines with a change that needs a restart.", nil, nil)
	descRunning = prometheus.NewDesc("virtward_vm_compared",
		"Running virtual machines that are compared with what they were started with.", nil, nil)
	descWaits = prometheus.NewDesc("virtward_vm_migration_never_comes",
		"Running virtual machines with a change that waits for a live migration which KubeVirt does not start, by the reason.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (l *ledger) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descChanges, descRestart, descRunning, descWaits} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (l *ledger) Collect(values chan<- prometheus.Metric) {
	t := l.totals()
	if !t.listed {
		return
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		values <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	for i, kind := range kinds {
		gauge(descChanges, t.changes[i], string(kind))
	}
	gauge(descRestart, t.machines[kindRestart])
	gauge(descRunning, t.running)
	for _, reason := range []rollouts.Waits{rollouts.NotMigratable, rollouts.NoLiveMigrate} {
		gauge(descWaits, t.waits[reason], string(reason))
	}
}

// Collector returns the metrics.
func (r *Reconciler) Collector() prometheus.Collector { return r.ledger }
