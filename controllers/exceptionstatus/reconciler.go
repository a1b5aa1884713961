package exceptionstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers"
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
	// Ended is called when an exception becomes active or ends: the results of the audit change.
	Ended func()
	Clock clock.PassiveClock
}

// Reconciler writes the statuses. Create it with New; only one runs in a cluster, in the leader.
type Reconciler struct {
	Options

	trigger *controllers.Trigger

	mu sync.Mutex
	// written are the conditions that were written, by exception.
	written map[types.NamespacedName]written
}

type written struct {
	uid        types.UID
	generation int64
	reason     string
	message    string
	since      metav1.Time
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, trigger: controllers.NewTrigger(), written: map[types.NamespacedName]written{}}
}

// SetupWithManager adds the Reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("exceptionstatus").
		WatchesRawSource(r.trigger.Source(r.keys)).WithOptions(controllers.Options()).Complete(r)
}

// Changed requests a reconciliation of all exceptions.
func (r *Reconciler) Changed() { r.trigger.Fire() }

// keys returns the exceptions, and forgets those that are gone.
func (r *Reconciler) keys() []reconcile.Request {
	found := map[types.NamespacedName]bool{}
	var requests []reconcile.Request
	for _, s := range r.Exceptions().States(r.Clock.Now()) {
		key := types.NamespacedName{Namespace: s.Object.Namespace, Name: s.Object.Name}
		found[key] = true
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.written {
		if !found[key] {
			delete(r.written, key)
		}
	}
	return requests
}

// idle is the longest time without a look at the clock, which can change.
const idle = time.Hour

// Reconcile writes the status of one exception.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	now := r.Clock.Now()
	state, found := r.Exceptions().State(request.Namespace, request.Name, now)
	if !found {
		return reconcile.Result{}, nil
	}
	r.mu.Lock()
	before, known := r.written[request.NamespacedName]
	r.mu.Unlock()
	is := written{state.Object.UID, state.Object.Generation, state.Reason, state.Message, metav1.NewTime(now).Rfc3339Copy()}
	if known = known && before.uid == is.uid; known && before.reason == is.reason {
		is.since = before.since
	}
	if !known || before != is {
		if err := r.apply(ctx, &state, is.since); err != nil {
			return reconcile.Result{}, err
		}
		r.mu.Lock()
		r.written[request.NamespacedName] = is
		r.mu.Unlock()
		if known && before.reason != is.reason {
			r.tell(&state)
		}
	}
	if state.Next.IsZero() {
		return reconcile.Result{RequeueAfter: idle}, nil
	}
	return reconcile.Result{RequeueAfter: min(idle, state.Next.Sub(now)+time.Second)}, nil
}

// tell reports a transition.
func (r *Reconciler) tell(state *policies.ExceptionState) {
	kind := corev1.EventTypeWarning
	if state.Reason == policyv1alpha1.ExceptionReasonActive {
		kind = corev1.EventTypeNormal
	}
	r.Tell(state.Object, kind, state.Reason, state.Message)
	if r.Ended != nil {
		r.Ended()
	}
}

// apply writes the status. An exception that is gone, or was created again, has none to write.
func (r *Reconciler) apply(ctx context.Context, state *policies.ExceptionState, since metav1.Time) error {
	condition := metav1.Condition{
		Type: policyv1alpha1.ExceptionActive, Status: metav1.ConditionFalse, Reason: state.Reason, Message: state.Message,
		ObservedGeneration: state.Object.Generation, LastTransitionTime: since,
	}
	if state.Active {
		condition.Status = metav1.ConditionTrue
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&policyv1alpha1.VirtualMachinePolicyExceptionStatus{
		ObservedGeneration: state.Object.Generation, Conditions: []metav1.Condition{condition},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of an exception: %w", err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(apikinds.PolicyExceptions.GroupVersionKind)
	object.SetNamespace(state.Object.Namespace)
	object.SetName(state.Object.Name)
	object.SetUID(state.Object.UID)
	_, err = r.Client.Resource(apikinds.PolicyExceptions.GroupVersionResource()).Namespace(state.Object.Namespace).
		ApplyStatus(ctx, state.Object.Name, object, metav1.ApplyOptions{FieldManager: Owner, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the status of VirtualMachinePolicyException %s/%s: %w", state.Object.Namespace, state.Object.Name, err)
	}
	return nil
}
