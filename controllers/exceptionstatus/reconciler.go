package exceptionstatus

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/policies"
)

// Owner is the field owner of the statuses.
const Owner = "virtward-controller"

// Options has the parameters of a Reconciler.
type Options struct {
	Client dynamic.Interface
	// Exceptions returns the exceptions.
	Exceptions func() *policies.Exceptions
	// Tell creates an event on an exception, with its type, reason and message.
	Tell func(exception *policyv1alpha1.VirtualMachinePolicyException, kind, reason, message string)
	// Changed is called after a transition: the results of the audit change.
	Changed func()
	Clock   clock.PassiveClock
}

// Reconciler writes the statuses. Create it with New; only one runs in a cluster, in the leader.
type Reconciler struct {
	options Options
	trigger *controllers.Trigger
	store   *statuses.Exceptions
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{options: options, trigger: controllers.NewTrigger(), store: statuses.OfExceptions(options.Client, Owner)}
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
	before, _, err := r.store.Keep(ctx, state.Object, statuses.Part[policyv1alpha1.VirtualMachinePolicyExceptionStatus]{
		Own: own,
		Plan: func(before *policyv1alpha1.VirtualMachinePolicyExceptionStatus) *policyv1alpha1.VirtualMachinePolicyExceptionStatus {
			return Plan(&state, before, now)
		},
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("the status of VirtualMachinePolicyException %s: %w", request, err)
	}
	if before != nil {
		r.tell(before, &state)
	}
	if state.Next.IsZero() {
		return reconcile.Result{RequeueAfter: idle}, nil
	}
	return reconcile.Result{RequeueAfter: min(idle, state.Next.Sub(now)+time.Second)}, nil
}

// tell reports a transition, after the status has it. The first state of an exception is none, but users learn at once that
// a new exception is not active.
func (r *Reconciler) tell(before *policyv1alpha1.VirtualMachinePolicyException, state *policies.ExceptionState) {
	was := activeIn(&before.Status)
	if was != nil && was.Reason == state.Reason || was == nil && state.Active {
		return
	}
	kind := corev1.EventTypeWarning
	if state.Reason == policyv1alpha1.ExceptionReasonActive {
		kind = corev1.EventTypeNormal
	}
	r.options.Tell(before, kind, state.Reason, state.Message)
	r.options.Changed()
}
