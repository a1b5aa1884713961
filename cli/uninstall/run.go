package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/texts"
)

// Runner removes Virtward. It keeps no state: each step begins with what the cluster has.
type Runner struct {
	Reader  *Reader
	Choices Choices
	// Helm uninstalls a release.
	Helm func(context.Context, Release) error
	// ErrOut gets a line for each step.
	ErrOut io.Writer
	// Settle is the time after which no finalizer is back, and Pause that between two looks at objects that are being deleted.
	Settle, Pause time.Duration
	// Patience bounds the time that objects of a step may take to be gone.
	Patience time.Duration
}

const (
	// maxErrors bounds the errors of a step.
	maxErrors = 10
	// maxRounds bounds how often a step changes objects: what others write again and again is never gone.
	maxRounds = 20
)

// Run does what is left to do, and returns the plan of what stays. A step that fails ends it: the next steps assume it.
func (r *Runner) Run(ctx context.Context) (*Plan, error) {
	waiting, rounds, settled := map[string]time.Duration{}, map[string]int{}, false
	for {
		inventory, err := r.Reader.Read(ctx)
		if err != nil {
			return nil, err
		}
		plan := PlanOf(inventory, r.Choices)
		if len(plan.Steps) == 0 {
			if settled {
				return plan, nil
			}
			settled = true // a controller that ends can write once more
			if err := pause(ctx, r.Settle); err != nil {
				return plan, err
			}
			continue
		}
		step := plan.Steps[0]
		done, err := r.do(ctx, inventory, &step)
		if err != nil {
			return plan, fmt.Errorf("%s: %w. Run the command again to continue", step.Name, err)
		}
		if done > 0 {
			fmt.Fprintf(r.ErrOut, "%s: %s\n", step.Name, texts.Count(done, "object", "objects"))
			if rounds[step.Name]++; rounds[step.Name] <= maxRounds {
				continue
			}
			return plan, fmt.Errorf("%s: %s: another program writes these objects again. Stop it, and run the command again", step.Name, describe(step.Groups))
		}
		if waiting[step.Name] += r.Pause; waiting[step.Name] > r.Patience {
			return plan, fmt.Errorf("%s: %s: these objects are being deleted, and have finalizers of others. Run the command again to continue", step.Name, describe(step.Groups))
		}
		if err := pause(ctx, r.Pause); err != nil {
			return plan, err
		}
	}
}

// describe names the objects of a step.
func describe(all []Group) string {
	var parts []string
	for _, g := range all {
		parts = append(parts, g.Kind+" "+texts.OneLine(texts.First(g.Names, mostNamed)))
	}
	return strings.Join(parts, "; ")
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// do does a step once, and returns the number of objects that it changed. It tries each object of the step.
func (r *Runner) do(ctx context.Context, inventory *Inventory, step *Step) (done int, _ error) {
	if step.do == runsHelm {
		if err := r.Helm(ctx, *inventory.Release); err != nil {
			return 0, err
		}
		return len(step.targets), nil
	}
	var errs []error
	for i := range step.targets {
		o := &step.targets[i]
		if step.do == deletes && o.deleting {
			continue
		}
		err := r.change(ctx, step.do, o)
		switch {
		case ctx.Err() != nil:
			return done, context.Cause(ctx)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), step.do == releases && apierrors.IsInvalid(err): // it is gone, or has its turn in the next round
		case err != nil:
			errs = append(errs, fmt.Errorf("%s %s: %w", o.Kind, o.title(), err))
		}
		done++
	}
	return done, errors.Join(errs[:min(len(errs), maxErrors)]...)
}

// change deletes an object as it was read, or removes its finalizer of Virtward.
func (r *Runner) change(ctx context.Context, do action, o *Object) error {
	objects := r.Reader.Metadata.Resource(o.resource).Namespace(o.Namespace)
	if do == deletes {
		background := metav1.DeletePropagationBackground
		return objects.Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.uid}, PropagationPolicy: &background})
	}
	// The API server tries again if the object changes meanwhile: a user who writes it again and again does not keep the finalizer.
	at := slices.Index(o.finalizers, ownFinalizer(o.Kind))
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": o.uid}, {"op": "test", "path": path, "value": ownFinalizer(o.Kind)}, {"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-virtward"})
	return err
}
