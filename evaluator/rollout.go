package evaluator

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// planTimeout bounds the time in which the running instance is read. A plan is advice: the request does not wait for it.
const planTimeout = 500 * time.Millisecond

// rollout is the plan of an update of a running VM.
type rollout struct {
	*evaluation

	old     *v1.VirtualMachine
	running *rollouts.Input
}

// rolloutOf reads the running instance if an update changes the spec of a VM that runs. It is nil for other requests, and
// if the instance cannot be read. It reads before all other references, so that no request waits for more memory while it
// has some.
func (e *evaluation) rolloutOf(ctx context.Context, m machine, d decoded) *rollout {
	old, isVM := d.old.(*v1.VirtualMachine)
	switch {
	case !isVM || d.wasUnreadable || m.vm == nil || m.container != nil || e.request.SubResource != "":
		return nil
	case !old.Status.Created && !old.Status.Ready || m.vm.Spec.Template == nil || old.DeletionTimestamp != nil:
		return nil
	case e.facts.ByKubeVirt(e.request.requester()) || sameSpec(old, m.vm):
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	running, err := references.RunningRollout(limited, e.evaluator.References, e.facts, old)
	if running == nil || err != nil {
		return nil
	}
	return &rollout{evaluation: e, old: old, running: running}
}

// plan plans what the update changes, without what was pending before. It is nil if that cannot be read.
func (r *rollout) plan(ctx context.Context, in *effective.Input) *rollouts.Result {
	if r == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	result, err := r.planOf(limited, in.VM, references.KindsOf(in.References))
	if err != nil || !result.Pending() {
		return result
	}
	kinds := references.KindsOf(in.References)
	if !equality.Semantic.DeepEqual(r.old.Spec.Instancetype, in.VM.Spec.Instancetype) || !equality.Semantic.DeepEqual(r.old.Spec.Preference, in.VM.Spec.Preference) {
		found, _, err := references.References(limited, r.evaluator.References, r.old)
		if err != nil {
			return nil
		}
		kinds = references.KindsOf(found)
	}
	before, err := r.planOf(limited, r.old, kinds)
	if err != nil {
		return nil
	}
	since := result.Since(before)
	return &since
}

func (r *rollout) planOf(ctx context.Context, desired *v1.VirtualMachine, kinds rollouts.Kinds) (*rollouts.Result, error) {
	in, err := references.DesiredRollout(ctx, r.evaluator.References, r.running, desired, kinds)
	if err != nil {
		return nil, err
	}
	result := rollouts.Plan(in)
	return &result, nil
}

// sameSpec reports whether an update leaves the spec. API servers count changes of the spec in the generation.
func sameSpec(old, vm *v1.VirtualMachine) bool {
	if old.Generation > 0 && vm.Generation > 0 {
		return old.Generation == vm.Generation
	}
	return equality.Semantic.DeepEqual(old.Spec, vm.Spec)
}
