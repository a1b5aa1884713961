package policystatus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/configcache"
)

var descSuspended = prometheus.NewDesc("virtward_policy_suspended",
	"1 for a policy that is suspended, because it exceeded its limits again and again.", []string{"policy"}, nil)

// Metrics returns the metrics of policies that are suspended. Every replica has them.
func Metrics(active func() []configcache.Compiled) prometheus.Collector { return collector(active) }

// collector implements prometheus.Collector.
type collector func() []configcache.Compiled

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) { to <- descSuspended }

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, policy := range c() {
		if policy.Suspended {
			to <- prometheus.MustNewConstMetric(descSuspended, prometheus.GaugeValue, 1, policy.Object.Name)
		}
	}
}
