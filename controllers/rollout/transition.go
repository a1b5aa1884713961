package rollout

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
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

// Events are the reasons of the events on rollouts.
var Events = events.Table{
	events.Normal(v1alpha1.ReasonRollingOut, "the rollout begins or continues to change virtual machines"),
	events.Normal(v1alpha1.ReasonWaiting, "the rollout waits: for a window, for its turn, or for virtual machines"),
	events.Normal(v1alpha1.ReasonComplete, "all virtual machines are done or skipped"),
	events.Normal(v1alpha1.ReasonDryRun, "the rollout is a dry run, and its plan is in the status"),
	events.Normal(v1alpha1.ReasonPausedByUser, "`spec.paused` is true"),
	events.Normal(v1alpha1.ReasonPausedByCanary, "the canary is changed"),
	events.Normal(v1alpha1.ReasonPausedByPartition, "the remaining virtual machines are in the partition"),
	events.Warning(v1alpha1.ReasonPausedByFailures, "too many virtual machines failed"),
	events.Warning(v1alpha1.ReasonNotAuthorized, "the requester no longer has the permissions that the rollout uses"),
	events.Warning(v1alpha1.ReasonNoMachines, "the selector matches no virtual machine"),
	events.Warning(v1alpha1.ReasonInvalid, "the spec is invalid"),
	events.Warning(v1alpha1.ReasonDenied, "the change is denied for some virtual machines, and none is changed"),
	events.Warning(v1alpha1.ReasonFailed, "the rollout ended, and virtual machines failed"),
	events.Warning(reasonMachineFailed, "the change of one virtual machine failed"),
}

// reasonMachineFailed is the reason of the event for a virtual machine that failed.
const reasonMachineFailed = "VirtualMachineFailed"

// transition returns the events: for each virtual machine that failed, for a new phase, and for another reason of a pause.
func transition(before, after *v1alpha1.VirtualMachineRolloutStatus, ended []v1alpha1.MachineStatus) (all []events.Event) {
	for i := range ended {
		if ended[i].State == v1alpha1.StateFailed {
			all = append(all, Events.Event(reasonMachineFailed, fmt.Sprintf("VirtualMachine %s: %s", ended[i].Name, ended[i].Reason)))
		}
	}
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionProgressing)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionProgressing)
	if before.Phase == after.Phase && was != nil && (was.Reason == is.Reason || after.Phase != v1alpha1.PhasePaused) {
		return all
	}
	return append(all, Events.Event(is.Reason, is.Message))
}
