package evaluator

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// planTimeout bounds the time in which the running instance is read. A plan is advice: the request does not wait for it.
const planTimeout = 500 * time.Millisecond

// rollout is the plan of an update of a running VM.
type rollout struct {
	*evaluation

	old *v1.VirtualMachine
	// running is nil if the instance, or what it was started with, cannot be read.
	running *rollouts.Input
}

// rolloutOf reads the running instance if an update changes the spec of a VM that runs. It is nil for other requests,
// and if there is no instance. It reads before all other references, so that no request waits for more memory while it has
// some.
func (e *evaluation) rolloutOf(ctx context.Context, m machine, d decoded) *rollout {
	old, isVM := d.old.(*v1.VirtualMachine)
	switch {
	case !isVM || d.wasUnreadable || m.vm == nil || m.container != nil || e.request.SubResource != "":
		return nil
	case halted(old) || m.vm.Spec.Template == nil || old.DeletionTimestamp != nil:
		return nil
	case e.facts.ByKubeVirt(e.request.requester()) || sameSpec(old, m.vm):
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	running, err := references.RunningRollout(limited, e.evaluator.References, e.facts, old)
	if running == nil && err == nil {
		return nil
	}
	return &rollout{evaluation: e, old: old, running: running}
}

// plan plans what the update changes, without what was pending before. The plan is nil if it is not known. Policies read
// the fields.
func (r *rollout) plan(ctx context.Context, in *effective.Input) (*rollouts.Result, cel.Rollout) {
	if r == nil {
		return nil, cel.Rollout{}
	}
	if r.running == nil {
		return nil, cel.Rollout{Unknown: true}
	}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	result, err := r.changes(limited, in)
	if err != nil {
		return nil, cel.Rollout{Unknown: true}
	}
	return result, cel.Rollout{
		Restart: result.Fields(rollouts.Restart), Migration: result.Fields(rollouts.LiveOnMigration), Never: result.Fields(rollouts.Never),
		Unknown: result.Omitted > 0,
	}
}

func (r *rollout) changes(ctx context.Context, in *effective.Input) (*rollouts.Result, error) {
	kinds := references.KindsOf(in.References)
	result, err := r.planOf(ctx, in.VM, kinds)
	if err != nil || !result.Pending() || result.SinceVM(r.old, in.VM, kinds) {
		return result, err
	}
	if !equality.Semantic.DeepEqual(r.old.Spec.Instancetype, in.VM.Spec.Instancetype) || !equality.Semantic.DeepEqual(r.old.Spec.Preference, in.VM.Spec.Preference) {
		found, _, err := references.References(ctx, r.evaluator.References, r.old)
		if err != nil {
			return nil, err
		}
		kinds = references.KindsOf(found)
	}
	before, err := r.planOf(ctx, r.old, kinds)
	if err != nil {
		return nil, err
	}
	since := result.Since(before)
	return &since, nil
}

func (r *rollout) planOf(ctx context.Context, desired *v1.VirtualMachine, kinds rollouts.Kinds) (*rollouts.Result, error) {
	in, err := references.DesiredRollout(ctx, r.evaluator.References, r.running, desired, kinds)
	if err != nil {
		return nil, err
	}
	result := rollouts.Plan(in)
	return &result, nil
}

// halted reports whether a VM has no instance, or none that keeps running. The status of another VM may not show its instance
// yet, so the instance is read.
func halted(vm *v1.VirtualMachine) bool {
	strategy, err := vm.RunStrategy()
	return !vm.Status.Created && !vm.Status.Ready && (err != nil || strategy == v1.RunStrategyHalted)
}

// sameSpec reports whether an update leaves the spec. API servers count changes of the spec in the generation.
func sameSpec(old, vm *v1.VirtualMachine) bool {
	if old.Generation > 0 && vm.Generation > 0 {
		return old.Generation == vm.Generation
	}
	return equality.Semantic.DeepEqual(old.Spec, vm.Spec)
}
