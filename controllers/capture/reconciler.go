package capture

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/statuses"
)

// Options configure a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes.
	Client client.Client
	// Expander applies instancetypes and preferences.
	Expander Expander
	// Deadlines bound the steps.
	Deadlines Deadlines
	// Guards must have been active since a request was created: they check what its author is permitted to capture.
	Guards *guarded.Guards
	// Tell creates an event on a request.
	Tell func(*v1beta1.VirtualMachineTemplateRequest, events.Event)
	// Metrics count captures; nil for none.
	Metrics *Metrics
	Clock   clock.PassiveClock
}

// Expander replaces the references to an instancetype and a preference of a VirtualMachine with their fields. An error of
// type *capture.Error is final.
type Expander interface {
	Expand(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineSpec, error)
}

// Reconciler captures VirtualMachines. Its keys are the names of the requests. Create it with New.
type Reconciler struct {
	Options

	kept *kept
	// children are the objects that the active captures wait for.
	children *dependents.Index
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, children: dependents.New(maxChildren),
		kept: &kept{Client: options.Client, Owner: Owner, Tell: options.Tell, Status: func(r *v1beta1.VirtualMachineTemplateRequest) *v1beta1.VirtualMachineTemplateRequestStatus {
			return &r.Status
		}},
	}
}

// maxRounds bounds the plans of one reconciliation. A capture without waiting needs eight.
const maxRounds = 12

// soon is the delay before the reconciliation that follows a status, and behind that after a conflict.
const soon, behind = time.Millisecond, time.Second

// Reconcile continues a capture as far as it can without waiting: observe, plan, apply, and at the end the status.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	result, err := r.continues(ctx, key)
	if err != nil {
		return statuses.Requeue(behind, reconcile.Result{}, fmt.Errorf("VirtualMachineTemplateRequest %s: %w", key, err))
	}
	return result, nil
}

func (r *Reconciler) continues(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	for range maxRounds {
		request, err := requests.Read(ctx, r.Client, key.Namespace, key.Name, &v1beta1.VirtualMachineTemplateRequest{})
		if request == nil || err != nil {
			r.children.Set(key, nil)
			return reconcile.Result{}, err
		}
		o, err := r.observe(ctx, request)
		if err != nil {
			return reconcile.Result{}, err
		}
		r.watch(key, o)
		d := o.plan(r.Deadlines)
		if len(d.steps) == 0 {
			return r.finish(ctx, o, &d)
		}
		switch err := r.apply(ctx, d.steps); {
		case err == nil:
			r.Metrics.measure(o, &d)
		case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
			return r.denied(ctx, o, &d, err)
		}
	}
	return reconcile.Result{RequeueAfter: behind}, nil
}

// unwatchedInterval is the interval at which objects are read that do not fit into the index.
const unwatchedInterval = 30 * time.Second

// finish writes the status of a plan without steps.
func (r *Reconciler) finish(ctx context.Context, o *observed, d *decision) (reconcile.Result, error) {
	if o.request.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	ended := requests.IsFailed(o.request.Status.Conditions) || requests.IsCompleted(o.request.Status.Conditions)
	if err := r.remembers(ctx, o, &d.progress); err != nil {
		return reconcile.Result{}, err
	}
	if !ended && d.progress.State != requests.IsWorking { // what follows the end is planned from the status
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if o.unwatched {
		d.after = unwatchedInterval
	}
	if !d.deadline.IsZero() {
		d.after = max(soon, min(d.after, d.deadline.Sub(o.now)))
	}
	return reconcile.Result{RequeueAfter: d.after}, nil
}

// apply executes a plan, in its order.
func (r *Reconciler) apply(ctx context.Context, steps []requests.Step) error {
	return requests.Apply(ctx, r.Client, Owner, steps...) //nolint:wrapcheck // it names the step
}

// denied handles a write that the API server denies: for good, or for now.
func (r *Reconciler) denied(ctx context.Context, o *observed, d *decision, err error) (reconcile.Result, error) {
	if o.request.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	return requests.OnDenial(err, func(text string) (reconcile.Result, error) { //nolint:wrapcheck // as it was
		rejected := failed(v1beta1.ReasonRejected, text)
		return r.finish(ctx, o, &rejected)
	}, func(text string) (reconcile.Result, error) { return r.blocked(ctx, o, d, text) })
}

// blocked says what is denied, and tries again until the deadline of the step.
func (r *Reconciler) blocked(ctx context.Context, o *observed, d *decision, text string) (reconcile.Result, error) {
	if !d.deadline.IsZero() && !o.now.Before(d.deadline) {
		late := failed(v1beta1.ReasonDeadlineExceeded, fmt.Sprintf("it took longer than %s: %s", d.deadline.Sub(d.since), text))
		return r.finish(ctx, o, &late)
	}
	d.progress = requests.Working(v1beta1.ReasonBlocked, text)
	if err := r.remembers(ctx, o, &d.progress); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: requests.NextAttempt(d.since, o.now)}, nil
}
