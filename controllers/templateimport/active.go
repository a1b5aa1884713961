package templateimport

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
)

// maxActive bounds the imports with the metrics of active; others have none.
const maxActive = 10_000

var (
	activeDesc  = prometheus.NewDesc("virtward_template_imports_active", "Imports of virtual appliances that have not ended, by the reason of the condition Progressing.", []string{"reason"}, nil)
	stalledDesc = prometheus.NewDesc("virtward_template_import_stalled_seconds", "Time since the last progress of the import that has made none for the longest time, by the reason of the condition Progressing.", []string{"reason"}, nil)
)

// active has the imports that have not ended, and since when each has made no progress. It implements prometheus.Collector.
type active struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	imports map[types.UID]step
}

// step is how far an import is. The progress is what its status says; a message of an error is none.
type step struct {
	reason, progress string
	since            time.Time
}

func newActive(now clock.PassiveClock) *active {
	return &active{clock: now, imports: map[types.UID]step{}}
}

// note notes how far an import is. The time starts again if the process does.
func (a *active) note(uid types.UID, p *progress, percent string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.State != requests.IsWorking {
		delete(a.imports, uid)
		return
	}
	s := step{reason: p.Reason, progress: percent}
	if p.Reason == v1beta1.ReasonVerifying || p.Reason == v1beta1.ReasonStaging {
		s.progress = p.Message // it has the part of the file that was read
	}
	before, known := a.imports[uid]
	switch {
	case known && before.reason == s.reason && before.progress == s.progress, !known && len(a.imports) >= maxActive:
		return
	}
	s.since = a.clock.Now()
	a.imports[uid] = s
}

// forget removes an import that does not exist.
func (a *active) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.imports, uid)
}

// Describe implements prometheus.Collector.
func (a *active) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- activeDesc
	descriptions <- stalledDesc
}

// Collect implements prometheus.Collector.
func (a *active) Collect(metrics chan<- prometheus.Metric) {
	numbers, longest, now := map[string]float64{}, map[string]float64{}, a.clock.Now()
	a.mu.Lock()
	for _, s := range a.imports {
		numbers[s.reason]++
		longest[s.reason] = max(longest[s.reason], now.Sub(s.since).Seconds())
	}
	a.mu.Unlock()
	for reason, number := range numbers {
		metrics <- prometheus.MustNewConstMetric(activeDesc, prometheus.GaugeValue, number, reason)
		metrics <- prometheus.MustNewConstMetric(stalledDesc, prometheus.GaugeValue, longest[reason], reason)
	}
}
