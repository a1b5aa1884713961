package exceptionstatus

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/policies"
)

// Owner is the field owner of the statuses.
const Owner = "virtward-controller"

// Options has the parameters of a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes the statuses.
	Client client.Client
	// Exceptions returns the exceptions.
	Exceptions func() *policies.Exceptions
	// Tell creates an event on an exception.
	Tell func(*policyv1alpha1.VirtualMachinePolicyException, events.Event)
	// Changed is called after a transition: the results of the audit change.
	Changed func()
	Clock   clock.PassiveClock
}

// Reconciler writes the statuses. Create it with New; only one runs in a cluster, in the leader.
type Reconciler struct {
	options Options
	trigger *controllers.Trigger
	report  *report
	store   *statuses.Store[*policyv1alpha1.VirtualMachinePolicyException, policyv1alpha1.VirtualMachinePolicyExceptionStatus]
}

// report is the status of an exception. Nothing that is evaluated depends on it.
type report = statuses.Report[*policyv1alpha1.VirtualMachinePolicyException, policyv1alpha1.VirtualMachinePolicyExceptionStatus]

func statusOf(e *policyv1alpha1.VirtualMachinePolicyException) *policyv1alpha1.VirtualMachinePolicyExceptionStatus {
	return &e.Status
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	r := &Reconciler{options: options, trigger: controllers.NewTrigger()}
	r.report = &report{Client: options.Client, Owner: Owner, Status: statusOf, Own: own, Tell: func(exception *policyv1alpha1.VirtualMachinePolicyException, e events.Event) {
		options.Tell(exception, e)
		options.Changed()
	}}
	r.store = statuses.NewStore(options.Client, statusOf, r.report, transition)
	return r
}

// SetupWithManager adds the Reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("exceptionstatus").
		WatchesRawSource(r.trigger.Source(r.keys)).WithOptions(controllers.Options()).Complete(r)
}

// Changed requests a reconciliation of all exceptions.
func (r *Reconciler) Changed() { r.trigger.Fire() }

// keys returns the exceptions, and those that were deleted since their status was written.
func (r *Reconciler) keys() []reconcile.Request {
	found := map[types.NamespacedName]bool{}
	var requests []reconcile.Request
	add := func(key types.NamespacedName) {
		if !found[key] {
			found[key] = true
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	for _, s := range r.options.Exceptions().States(r.options.Clock.Now()) {
		add(types.NamespacedName{Namespace: s.Object.Namespace, Name: s.Object.Name})
	}
	for _, key := range r.store.Keys() {
		add(key)
	}
	return requests
}

// idle is the longest time without a look at the clock, which can change.
const idle = time.Hour

// Reconcile writes the status of one exception: plan, apply, event.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	now := r.options.Clock.Now()
	state, found := r.options.Exceptions().State(request.Namespace, request.Name, now)
	if !found {
		r.store.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	err := r.store.Keep(ctx, state.Object, func(before *policyv1alpha1.VirtualMachinePolicyExceptionStatus) *policyv1alpha1.VirtualMachinePolicyExceptionStatus {
		return Plan(&state, before, now)
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("the status of VirtualMachinePolicyException %s: %w", request, err)
	}
	if state.Next.IsZero() {
		return reconcile.Result{RequeueAfter: idle}, nil
	}
	return reconcile.Result{RequeueAfter: min(idle, state.Next.Sub(now)+time.Second)}, nil
}

// Events are the reasons of the events on exceptions.
var Events = events.Table{
	events.Normal(policyv1alpha1.ExceptionReasonActive, "the exception is active again"),
	events.Warning(policyv1alpha1.ExceptionReasonExpiring, "the exception ends within seven days"),
	events.Warning(policyv1alpha1.ExceptionReasonExpired, "the exception has ended"),
	events.Warning(policyv1alpha1.ExceptionReasonNotPermitted, "the permission of the author was not checked"),
	events.Warning(policyv1alpha1.ExceptionReasonTooLong, "the end of the exception is too far in the future"),
	events.Warning(policyv1alpha1.ExceptionReasonTooMany, "the namespace or the cluster has too many exceptions"),
	events.Warning(policyv1alpha1.ExceptionReasonInvalid, "the exception is invalid"),
}

// transition returns an event for another reason. The first state of an exception is none, but users learn at once that a new
// exception is not active.
func transition(before, after *policyv1alpha1.VirtualMachinePolicyExceptionStatus) []events.Event {
	was, is := activeIn(before), activeIn(after)
	if was != nil && was.Reason == is.Reason || was == nil && is.Status == metav1.ConditionTrue {
		return nil
	}
	return []events.Event{Events.Event(is.Reason, is.Message)}
}
