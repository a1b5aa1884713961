package answers

import (
	"context"
	"fmt"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// Plan is what an update of a VM changes, and when the guest gets it. It is that of rollout plan for an instance that was just started of
// the version before, and can be migrated; or without an instance, if that version is halted.
type Plan struct {
	rollouts.Result

	// Missing says why there is no plan.
	Missing string `json:"missing,omitempty"`
}

// running is the version that runs.
type running struct {
	evaluator *offline.Evaluator
	documents map[string]manifests.Document
}

// running returns the virtual machines of the version that runs.
func (a *Answerer) running(ctx context.Context, q *Question, content *manifests.Content, p Platform) (*running, error) {
	files, evaluator, err := a.evaluator(ctx, q, q.Before, content, p)
	if err != nil {
		return nil, err
	}
	r := &running{evaluator: evaluator, documents: map[string]manifests.Document{}}
	for _, d := range files.Subjects {
		r.documents[nameOf(d)] = d
	}
	return r, nil
}

func nameOf(d manifests.Document) string {
	return d.Object.GetKind() + " " + d.Object.GetNamespace() + "/" + d.Object.GetName()
}

// plan returns the plan of a change to a document; nil if it is no VirtualMachine.
func (r *running) plan(ctx context.Context, evaluator *offline.Evaluator, d manifests.Document) *Plan {
	if d.Object.GetKind() != apikinds.VirtualMachine {
		return nil
	}
	p := &Plan{Result: rollouts.Result{Changes: []rollouts.Change{}}}
	before, found := r.documents[nameOf(d)]
	if !found {
		p.Missing = "the version that runs has no virtual machine of this name"
		return p
	}
	in := &rollouts.Input{Facts: evaluator.Facts()}
	old, spec, kinds, err := completed(ctx, r.evaluator, before)
	if err != nil {
		p.Missing = fmt.Sprintf("the version that runs: %v", err)
		return p
	}
	in.LastStarted, in.StartedKinds = &old.Spec, kinds
	if strategy, err := old.RunStrategy(); err != nil || strategy != v1.RunStrategyHalted {
		in.Running = rollouts.Start(old, spec)
	}
	if in.Desired, _, in.DesiredKinds, err = completed(ctx, evaluator, d); err != nil {
		p.Missing = err.Error()
		return p
	}
	p.Result = rollouts.Plan(in)
	return p
}

// completed returns a virtual machine as KubeVirt persists it, its effective spec, and its instancetype and preference.
func completed(ctx context.Context, evaluator *offline.Evaluator, d manifests.Document) (*v1.VirtualMachine, *v1.VirtualMachineInstanceSpec, rollouts.Kinds, error) {
	result, err := evaluator.EvaluateMade(ctx, d)
	switch {
	case err != nil:
		return nil, nil, rollouts.Kinds{}, err
	case result.Unreadable != nil:
		return nil, nil, rollouts.Kinds{}, result.Unreadable
	case result.Verdict == nil || result.Verdict.VM == nil || result.Verdict.Spec == nil || result.Verdict.VM.Spec.Template == nil:
		return nil, nil, rollouts.Kinds{}, fmt.Errorf("%s cannot be completed", nameOf(d))
	}
	found, _, err := references.References(ctx, evaluator.Evaluator.References, result.Verdict.VM)
	if err != nil {
		return nil, nil, rollouts.Kinds{}, err
	}
	vm := result.Verdict.VM.DeepCopy()
	rollouts.WithUUID(vm)
	return vm, result.Verdict.Spec, references.KindsOf(found), nil
}
