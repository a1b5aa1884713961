package templateexport

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/ovf/servers"
)

// Options configure a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes.
	Client client.Client
	// Prober reads the statuses of pods.
	Prober Prober
	// Server is the pod that serves an OVA.
	Server servers.Program
	// Namespace is that of Virtward, whose pods connect to those of exports.
	Namespace string
	// Outside says how clients outside of the cluster reach exports.
	Outside exports.Outside
	Limits  Limits
	// Guards must have been active since an export was created: they check what its author is permitted to read.
	Guards *guarded.Guards
	// CloneGuards must have been active since then, too, while there is no pod: they check who labels its clones.
	CloneGuards *guarded.Guards
	// Tell creates an event on an export.
	Tell func(*v1beta1.VirtualMachineTemplateExport, events.Event)
	// Metrics count exports; nil for none.
	Metrics *Metrics
	Clock   clock.PassiveClock
}

// Reconciler serves templates. Its keys are the names of the exports. Create it with New.
type Reconciler struct {
	Options

	kept *kept
	// children are the DataVolumes that the active exports wait for.
	children *dependents.Index
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, children: dependents.New(maxChildren),
		kept: &kept{Client: options.Client, Owner: Owner, Tell: options.Tell, Status: func(r *v1beta1.VirtualMachineTemplateExport) *v1beta1.VirtualMachineTemplateExportStatus {
			return &r.Status
		}},
	}
}

// maxRounds bounds the plans of one reconciliation. An export without waiting needs four.
const maxRounds = 8

// soon is the delay before the reconciliation that follows a status, and behind that after a conflict.
const soon, behind = time.Millisecond, time.Second

// unwatchedInterval is the interval at which objects are read that do not fit into the index.
const unwatchedInterval = 30 * time.Second

// Reconcile continues an export as far as it can without waiting: observe, plan, apply, and at the end the status.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	result, err := r.continues(ctx, key)
	if err != nil {
		return statuses.Requeue(behind, reconcile.Result{}, fmt.Errorf("VirtualMachineTemplateExport %s: %w", key, err))
	}
	return result, nil
}

func (r *Reconciler) continues(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	for range maxRounds {
		request, err := requests.Read(ctx, r.Client, key.Namespace, key.Name, &v1beta1.VirtualMachineTemplateExport{})
		if request == nil || err != nil {
			if err == nil {
				r.children.Set(key, nil)
			}
			return reconcile.Result{}, err
		}
		o, err := r.observe(ctx, request)
		if err != nil {
			return reconcile.Result{}, err
		}
		r.watch(key, o)
		d := o.plan(r.Limits)
		if len(d.steps) == 0 && !d.serve {
			return r.finish(ctx, o, &d)
		}
		if err := r.apply(ctx, o, &d); err != nil && !apierrors.IsConflict(err) {
			return r.denied(ctx, o, &d, err)
		}
	}
	return reconcile.Result{RequeueAfter: behind}, nil
}

// finish writes the status of a plan without steps.
func (r *Reconciler) finish(ctx context.Context, o *observed, d *decision) (reconcile.Result, error) {
	if err := r.remembers(ctx, o, &d.progress); err != nil {
		return reconcile.Result{}, err
	}
	after := d.after
	earlier := func(than time.Duration) {
		if than = max(soon, than); after == 0 || than < after {
			after = than
		}
	}
	if o.unwatched {
		earlier(unwatchedInterval)
	}
	if expires := o.request.Status.Expires; expires != nil {
		earlier(expires.Sub(o.now))
	} else if !d.deadline.IsZero() {
		earlier(d.deadline.Sub(o.now))
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// apply executes a plan, in its order.
func (r *Reconciler) apply(ctx context.Context, o *observed, d *decision) error {
	if d.serve {
		return r.serve(ctx, o, d)
	}
	return requests.Apply(ctx, r.Client, Owner, d.steps...) //nolint:wrapcheck // it names the step
}

// serve creates the pod and its objects, and notes the link. What fails is not continued: the pod is deleted with what belongs to it.
func (r *Reconciler) serve(ctx context.Context, o *observed, d *decision) error {
	suffix, err := diskservers.NewSuffix()
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	material, err := diskservers.NewMaterial(&exports.Servers, o.request.Namespace, suffix, o.now, r.Limits.Deadline+r.Limits.MaxTTL)
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	observer, err := diskservers.NewToken()
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	plan, err := exports.PlanOf(o.request, o.template, observer, o.claims)
	if err != nil {
		return err //nolint:wrapcheck // it is a fault
	}
	pod := exports.Pod(o.request, &r.Server, suffix, observer, o.claims)
	err = diskservers.Create(ctx, r.Client, Owner, pod, func(pod *corev1.Pod) ([]servers.Object, error) {
		return exports.Objects(pod, plan, material, r.Namespace, &r.Outside) //nolint:wrapcheck // it says what failed
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the step
	}
	d.progress.links, d.progress.token = exports.Links(o.request.Namespace, o.request.Spec.Format, material, &r.Outside), exports.Servers.TokenName(suffix)
	return r.remembers(ctx, o, &d.progress)
}

// denied handles a write that the API server denies: for good, or for now.
func (r *Reconciler) denied(ctx context.Context, o *observed, d *decision, err error) (reconcile.Result, error) {
	var final *exports.Fault
	if errors.As(err, &final) {
		ended := failed(final.Reason, final.Message)
		return r.finish(ctx, o, &ended)
	}
	if apierrors.IsAlreadyExists(err) { // another process wrote it; the next plan sees whose it is
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	return requests.OnDenial(err, func(text string) (reconcile.Result, error) { //nolint:wrapcheck // as it was
		rejected := failed(v1beta1.ReasonRejected, text)
		return r.finish(ctx, o, &rejected)
	}, func(text string) (reconcile.Result, error) { return r.blocked(ctx, o, d, text) })
}

// blocked says what is denied, and tries again until the deadline.
func (r *Reconciler) blocked(ctx context.Context, o *observed, d *decision, text string) (reconcile.Result, error) {
	if !d.deadline.IsZero() && !o.now.Before(d.deadline) {
		late := failed(v1beta1.ReasonDeadlineExceeded, fmt.Sprintf("it is not ready after %s: %s", r.Limits.Deadline, text))
		return r.finish(ctx, o, &late)
	}
	d.progress = progress{reason: v1beta1.ReasonBlocked, message: text}
	if err := r.remembers(ctx, o, &d.progress); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: requests.NextAttempt(o.request.CreationTimestamp.Time, o.now)}, nil
}
