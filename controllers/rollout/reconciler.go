package rollout

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts/fleet"
)

// Owner is the field manager of the writes.
const Owner = "virtward-rollouts"

// Options configure a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes.
	Client client.Client
	// Pages reads lists in pages.
	Pages *pages.Reader
	// Objects reads what virtual machines refer to.
	Objects *platform.Objects
	// Evaluator evaluates virtual machines with the change.
	Evaluator  *evaluator.Evaluator
	Authorizer Authorizer
	// Guards must have been active since a rollout was created: they verify the requester, for whom it acts.
	Guards    *guarded.Guards
	Restarter Restarter
	// Ready returns nil once the configuration is known. Nothing is written before.
	Ready func() error
	// Interval is the time between two observations of a rollout that changes virtual machines. It grows with their number.
	Interval time.Duration
	// Tell creates an event on a rollout.
	Tell    func(*v1alpha1.VirtualMachineRollout, events.Event)
	Metrics *Metrics
	Clock   clock.PassiveClock
}

// Reconciler carries out rollouts. Its keys are their names. Create it with New.
type Reconciler struct {
	Options

	progress *progress
	// room bounds the memory of evaluations.
	room memory.Gate

	mu sync.Mutex
	// planned are the outcomes of rollouts that have not ended, and epoch counts changes of the configuration.
	planned map[types.UID]*outcomes
	epoch   int64
}

// progress is the status of a rollout: all of it decides what comes next.
type progress = statuses.Memory[*v1alpha1.VirtualMachineRollout, v1alpha1.VirtualMachineRolloutStatus]

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, room: memory.NewQueue(maxEvaluating), planned: map[types.UID]*outcomes{},
		progress: &progress{Client: options.Client, Owner: Owner, Tell: options.Tell, Status: func(r *v1alpha1.VirtualMachineRollout) *v1alpha1.VirtualMachineRolloutStatus { return &r.Status }},
	}
}

// Changed reports that the configuration changed: what changes do is planned again.
func (r *Reconciler) Changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
}

// behind is the time until the next attempt while the configuration is unknown, or after a conflict, and idle that of a rollout that
// waits.
const behind, idle = time.Second, 30 * time.Second

// Reconcile continues a rollout: observe, decide, write the status, and then apply.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	if ready := r.Ready() == nil; !ready {
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	rollout := &v1alpha1.VirtualMachineRollout{}
	err := r.Client.Get(ctx, key.NamespacedName, rollout)
	if apierrors.IsNotFound(err) {
		r.Metrics.forget(key.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading VirtualMachineRollout %s: %w", key, err)
	}
	if rollout.DeletionTimestamp != nil {
		r.forget(rollout)
		return reconcile.Result{}, nil
	}
	after, err := r.continues(ctx, rollout)
	if err != nil {
		return statuses.Requeue(behind, reconcile.Result{}, fmt.Errorf("VirtualMachineRollout %s: %w", key, err))
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

func (r *Reconciler) continues(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout) (time.Duration, error) {
	began := r.Clock.Now()
	o, err := r.situation(ctx, rollout)
	if err != nil {
		return 0, err
	}
	took := r.Clock.Since(began)
	decision := fleet.Next(&o.input)
	if err := r.remembers(ctx, rollout, &decision); err != nil {
		return 0, err
	}
	if decision.Status.Finished != nil {
		r.forget(rollout)
	}
	if err := r.apply(ctx, o, decision.Actions); err != nil { // the next observation shows what is left
		log.FromContext(ctx).Error(err, "some virtual machines cannot be changed now")
	}
	return r.after(&decision, len(o.input.Machines), took), nil
}

// situation observes a rollout. Of one that has ended, only the migrations are read.
func (r *Reconciler) situation(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout) (*observed, error) {
	if rollout.Status.Finished == nil || rollout.Status.ObservedGeneration != rollout.Generation {
		return r.observe(ctx, rollout)
	}
	o := &observed{input: fleet.Input{Rollout: rollout, Now: r.Clock.Now()}}
	migrations, err := r.migrations(ctx, rollout.Namespace)
	if err == nil {
		o.migrations(migrations)
	}
	return o, err
}

// remembers writes the status before the actions. The error is Conflict if the rollout changed after it was read.
func (r *Reconciler) remembers(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout, decision *fleet.Decision) error {
	written, err := r.progress.Write(ctx, rollout, &decision.Status, func(before, after *v1alpha1.VirtualMachineRolloutStatus) []events.Event {
		return transition(before, after, decision.Ended)
	})
	switch {
	case err != nil:
		return err
	case written:
		r.Metrics.record(rollout, decision.Ended)
	default:
		r.Metrics.record(rollout, nil)
	}
	return nil
}

// after is when a rollout is observed again. Observing takes at most half of the time.
func (r *Reconciler) after(decision *fleet.Decision, machines int, took time.Duration) time.Duration {
	after := decision.After
	c := &decision.Status.Counts
	if c.Updating+c.Migrating+c.Restarting+c.Verifying > 0 || decision.Status.Phase == v1alpha1.PhaseProgressing || len(decision.Actions) > 0 {
		interval := max(r.Interval+time.Duration(machines)*time.Millisecond, took)
		if after == 0 || interval < after {
			after = interval
		}
	}
	if after == 0 && decision.Status.Finished == nil || after > idle && decision.Status.Finished == nil {
		after = idle
	}
	return after
}

func (r *Reconciler) forget(rollout *v1alpha1.VirtualMachineRollout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.planned, rollout.UID)
}
