package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/nodes/process"
	"github.com/virtward/virtward/nodetuning"
	"github.com/virtward/virtward/platform"
)

// Points are the hook points at which a guest is tuned: before it starts, when it runs, and on the target of a migration before and after
// it arrives.
var Points = []string{"PreVMStart", "PostVMStart", "PreMigrationTarget", "PostMigrationTarget"}

// Tuner is a Handler that tunes the processes of an instance.
type Tuner struct {
	node   string
	tuner  nodetuning.DomainTuner
	facts  *platform.Facts
	kernel *process.Node
	log    logr.Logger
	calls  *prometheus.CounterVec
}

// NewTuner returns a tuner for a node.
func NewTuner(node string, tuner nodetuning.DomainTuner, facts *platform.Facts, kernel *process.Node, log logr.Logger, registry prometheus.Registerer) (*Tuner, error) {
	if node == "" {
		return nil, errors.New("the name of the node is empty")
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "virtward_node_tuner_hooks_total", Help: "Node hooks that virt-handler called, by result."}, []string{"result"})
	if err := registry.Register(calls); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	for _, result := range []string{"tuned", "unchanged", "failed"} {
		calls.WithLabelValues(result)
	}
	return &Tuner{node: node, tuner: tuner, facts: facts, kernel: kernel, log: log, calls: calls}, nil
}

// Execute implements Handler. It is idempotent: a process that is tuned stays as it is.
func (t *Tuner) Execute(_ context.Context, request *Request) error {
	changed, name, err := t.execute(request)
	result := "unchanged"
	switch {
	case err != nil:
		result = "failed"
		t.log.Error(err, "the instance is not tuned", "instance", name, "hook", request.Point)
	case changed:
		result = "tuned"
		t.log.Info("tuned the instance", "instance", name, "hook", request.Point)
	}
	t.calls.WithLabelValues(result).Inc()
	return err
}

func (t *Tuner) execute(request *Request) (changed bool, name string, err error) {
	if !slices.Contains(Points, request.Point) {
		return false, "", nil
	}
	if request.Node != t.node {
		return false, "", fmt.Errorf("the hook is for the node %q, and this is %q", request.Node, t.node)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(request.VMI, vmi); err != nil {
		return false, "", fmt.Errorf("the instance is not JSON of a VirtualMachineInstance: %w", err)
	}
	name = vmi.Namespace + "/" + vmi.Name
	limit, err := t.tuner.AdjustResources(vmi, t.facts)
	if err != nil {
		return false, name, err
	}
	cpu := vmi.Spec.Domain.CPU
	if limit == 0 && (cpu == nil || !cpu.IsolateEmulatorThread) {
		return false, name, nil
	}
	pods := podsOn(vmi, t.node)
	if len(pods) == 0 {
		return false, name, fmt.Errorf("the instance has no pod on the node %s in status.activePods", t.node)
	}
	found := false
	for _, pod := range pods {
		did, err := t.pod(vmi, pod, limit)
		if errors.Is(err, process.ErrNotFound) {
			continue // an attempt that has ended
		}
		if err != nil {
			return changed, name, fmt.Errorf("pod %s: %w", pod, err)
		}
		found, changed = true, changed || did
	}
	if !found {
		return changed, name, process.ErrNotFound
	}
	return changed, name, nil
}

// pod tunes the process of a pod.
func (t *Tuner) pod(vmi *v1.VirtualMachineInstance, pod types.UID, limit int64) (changed bool, err error) {
	p, running, err := t.kernel.Find(pod)
	if err != nil {
		return false, err
	}
	if limit > 0 {
		if changed, err = t.kernel.LockMemory(p.ID, limit); err != nil {
			return changed, err
		}
	}
	if cpu := vmi.Spec.Domain.CPU; !running || cpu == nil || !cpu.IsolateEmulatorThread {
		return changed, nil
	}
	threads, err := t.kernel.Pod(&p)
	if err != nil {
		return changed, err
	}
	h := t.tuner.HandleHousekeeping(vmi, threads)
	if len(h.CPUs) == 0 {
		return changed, nil
	}
	moved, err := t.kernel.Housekeep(&p, h)
	return changed || moved, err
}

// podsOn are the pods of an instance on a node, sorted.
func podsOn(vmi *v1.VirtualMachineInstance, node string) []types.UID {
	var pods []types.UID
	for pod, on := range vmi.Status.ActivePods {
		if on == node {
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	return pods
}
