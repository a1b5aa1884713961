package exceptionstatus

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
)

var descExceptions = prometheus.NewDesc("virtward_policy_exceptions",
	"VirtualMachinePolicyExceptions, by state: the reason of the condition Active.", []string{"state"}, nil)

// counts are the numbers of exceptions by state, at the time of each scrape.
type counts struct {
	exceptions func() *policies.Exceptions
	clock      clock.PassiveClock
}

// Metrics returns a collector of the numbers of exceptions. It has no values until the exceptions have been read.
func Metrics(exceptions func() *policies.Exceptions, clock clock.PassiveClock) prometheus.Collector {
	return &counts{exceptions, clock}
}

// Describe implements prometheus.Collector.
func (c *counts) Describe(to chan<- *prometheus.Desc) { to <- descExceptions }

// Collect implements prometheus.Collector.
func (c *counts) Collect(to chan<- prometheus.Metric) {
	current := c.exceptions()
	if current == nil {
		return
	}
	byState := map[string]int{}
	for _, state := range current.States(c.clock.Now()) {
		byState[state.Reason]++
	}
	for _, state := range policyv1alpha1.ExceptionReasons() {
		to <- prometheus.MustNewConstMetric(descExceptions, prometheus.GaugeValue, float64(byState[state]), state)
	}
}
