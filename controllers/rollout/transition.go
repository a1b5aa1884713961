package rollout

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// Metrics count rollouts and their virtual machines. Create them with NewMetrics; nil counts nothing.
type Metrics struct {
	rollouts *prometheus.GaugeVec
	machines *prometheus.CounterVec

	mu     sync.Mutex
	phases map[types.NamespacedName]v1alpha1.Phase
}

// maxCounted bounds the rollouts that are counted by their phases.
const maxCounted = 10_000

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		rollouts: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "virtward_rollouts", Help: "VirtualMachineRollouts, by their phases."}, []string{"phase"}),
		machines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtward_rollout_machines_total", Help: "Virtual machines whose change by a VirtualMachineRollout has ended, by the result: done, skipped or failed.",
		}, []string{"result"}),
		phases: map[types.NamespacedName]v1alpha1.Phase{},
	}
	for _, c := range []prometheus.Collector{m.rollouts, m.machines} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// results are the values of the label result.
var results = map[v1alpha1.State]string{v1alpha1.StateDone: "done", v1alpha1.StateSkipped: "skipped", v1alpha1.StateFailed: "failed"}

// record counts a rollout by its phase, and the virtual machines that have just ended.
func (m *Metrics) record(rollout *v1alpha1.VirtualMachineRollout, ended []v1alpha1.MachineStatus) {
	if m == nil {
		return
	}
	for i := range ended {
		m.machines.WithLabelValues(results[ended[i].State]).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: rollout.Namespace, Name: rollout.Name}
	was, known := m.phases[key]
	is := rollout.Status.Phase
	if known && was == is || !known && len(m.phases) >= maxCounted {
		return
	}
	if known {
		m.rollouts.WithLabelValues(string(was)).Dec()
	}
	m.phases[key] = is
	m.rollouts.WithLabelValues(string(is)).Inc()
}

// forget counts a deleted rollout no longer.
func (m *Metrics) forget(key types.NamespacedName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if phase, known := m.phases[key]; known {
		m.rollouts.WithLabelValues(string(phase)).Dec()
		delete(m.phases, key)
	}
}

// transition creates events: for a new phase, for another reason of a pause, and for each virtual machine that failed.
func (r *Reconciler) transition(before *v1alpha1.VirtualMachineRolloutStatus, rollout *v1alpha1.VirtualMachineRollout, ended []v1alpha1.MachineStatus) {
	for i := range ended {
		if ended[i].State == v1alpha1.StateFailed {
			r.Tell(rollout, corev1.EventTypeWarning, "VirtualMachineFailed", fmt.Sprintf("VirtualMachine %s: %s", ended[i].Name, ended[i].Reason))
		}
	}
	status := &rollout.Status
	is := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionProgressing)
	if before.Phase == status.Phase && was != nil && (was.Reason == is.Reason || status.Phase != v1alpha1.PhasePaused) {
		return
	}
	kind := corev1.EventTypeNormal
	switch status.Phase {
	case v1alpha1.PhaseDenied, v1alpha1.PhaseInvalid, v1alpha1.PhaseFailed:
		kind = corev1.EventTypeWarning
	case v1alpha1.PhaseComplete:
		if is.Reason == v1alpha1.ReasonNoMachines {
			kind = corev1.EventTypeWarning
		}
	case v1alpha1.PhasePaused:
		if is.Reason == v1alpha1.ReasonPausedByFailures || is.Reason == v1alpha1.ReasonNotAuthorized {
			kind = corev1.EventTypeWarning
		}
	}
	r.Tell(rollout, kind, is.Reason, is.Message)
}
