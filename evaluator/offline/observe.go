package offline

import (
	"context"
	"errors"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
)

// Observe evaluates an object with one policy only, and hands its documents to a function. The function must not keep
// them. It is an error if the policy does not match the object.
func (w *Evaluator) Observe(ctx context.Context, d manifests.Document, policy *policies.Policy, observe func(*cel.Documents)) error {
	called := false
	set := policies.NewSet("", policy).Observed(func(_ *policies.Policy, documents *cel.Documents) {
		if !called {
			called = true
			observe(documents)
		}
	})
	one, made := *w, *w.Evaluator
	one.policies = &policySource{Set: set}
	made.Facts, made.Configuration, one.Evaluator = &one, &one, &made
	var err error
	if one.snapshot, err = made.Snapshot(w.now); err != nil {
		return err
	}
	if _, err := one.evaluate(ctx, d, 0, one.snapshot.Evaluate); err != nil {
		return err
	}
	if !called {
		return errors.New("no policy is evaluated on this object: it cannot be completed, or is in a namespace that policies do not apply to")
	}
	return nil
}
