package policystatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/policycounts"
	"github.com/virtward/virtward/controllers/statuses"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-controller"

// Options configure a Reconciler.
type Options struct {
	Client dynamic.Interface
	// Policies are the active ones, sorted by name.
	Policies func() []configcache.Compiled
	// Tell creates an event on a policy, with its type, reason and message.
	Tell  func(policy *policyv1alpha1.VirtualMachinePolicy, kind, reason, message string)
	Clock clock.PassiveClock
}

// Reconciler writes statuses. Its keys are the names of the policies. Create it with New.
type Reconciler struct {
	Options

	trigger *controllers.Trigger
	store   *statuses.Policies

	mu      sync.Mutex
	counted Counted
	// counts are nil until they have been read. bases are the errors in the statuses when counting began, by name.
	counts *policycounts.Counts
	bases  map[string]base
}

// base has the errors of one generation of a policy.
type base struct {
	key    policycounts.Key
	errors []policyv1alpha1.PolicyEvaluationError
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, trigger: controllers.NewTrigger(), store: statuses.OfPolicies(options.Client, Owner), bases: map[string]base{}}
}

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("policystatus").
		WatchesRawSource(r.trigger.Source(r.keys)).
		WithOptions(controllers.Options()).
		Complete(r)
}

// Changed requests the statuses of all policies, because policies changed.
func (r *Reconciler) Changed() { r.trigger.Fire() }

// Audited sets the counts of an audit.
func (r *Reconciler) Audited(violations map[string]int, at time.Time) {
	r.mu.Lock()
	r.counted = Counted{Violations: violations, At: at}
	r.mu.Unlock()
	r.Changed()
}

// Counted sets the counts of evaluations.
func (r *Reconciler) Counted(counts policycounts.Counts) {
	r.mu.Lock()
	r.counts = &counts
	r.mu.Unlock()
	r.Changed()
}

// evaluations returns the counts of a policy. The first status that is planned with is the base.
func (r *Reconciler) evaluations(policy *configcache.Compiled, before *policyv1alpha1.VirtualMachinePolicyStatus) Evaluations {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := policycounts.Key{UID: policy.Object.UID, Generation: policy.Object.Generation}
	known, ok := r.bases[policy.Object.Name]
	if !ok || known.key != key {
		known = base{key: key}
		if before.ObservedGeneration == key.Generation {
			known.errors = before.Errors
		}
		r.bases[policy.Object.Name] = known
	}
	e := Evaluations{Known: r.counts != nil, Base: known.errors}
	if r.counts != nil {
		e.Read, e.Count = r.counts.Read, r.counts.Policies[key]
	}
	return e
}

// keys returns the active policies and those that were deleted since their status was written.
func (r *Reconciler) keys() []reconcile.Request {
	return controllers.Keys(r.Policies(), r.store.Keys())
}

// idle is the interval of reconciliations without a change; a clock that was set back is noticed within it.
const idle = time.Hour

// Reconcile updates the status of one policy: plan, apply, event.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	policy := configcache.Named(r.Policies(), request.Name)
	if policy == nil {
		r.store.Forget(request.NamespacedName)
		r.mu.Lock()
		delete(r.bases, request.Name)
		r.mu.Unlock()
		return reconcile.Result{}, nil
	}
	r.mu.Lock()
	counted := r.counted
	r.mu.Unlock()
	now := r.Clock.Now()
	before, status, err := r.store.Keep(ctx, policy.Object, statuses.PolicyPart{Own: own, Plan: func(before *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
		return Plan(policy, counted, r.evaluations(policy, before), before, now)
	}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("the status of VirtualMachinePolicy %s: %w", request.Name, err)
	}
	if before != nil {
		r.tell(before, status)
	}
	if next := policy.Policy.NextExpiry(now); !next.IsZero() {
		return reconcile.Result{RequeueAfter: min(idle, next.Sub(now)+time.Second)}, nil
	}
	return reconcile.Result{RequeueAfter: idle}, nil
}

// own returns the part of a status that this controller writes.
func own(s *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
	part := s.DeepCopy()
	part.Conditions = nil
	for _, kind := range conditions {
		if found := meta.FindStatusCondition(s.Conditions, kind); found != nil {
			part.Conditions = append(part.Conditions, *found)
		}
	}
	part.EnforcedBy = nil
	if slices.Contains(s.EnforcedBy, policyv1alpha1.PolicyByWebhook) {
		part.EnforcedBy = []policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByWebhook}
	}
	part.ExportNotes = nil
	return part
}

// tell creates an event if the policy started or stopped to compile, to be enabled, to be evaluated, or to be suspended.
func (r *Reconciler) tell(before *policyv1alpha1.VirtualMachinePolicy, now *policyv1alpha1.VirtualMachinePolicyStatus) {
	for _, kind := range conditions {
		was, is := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(now.Conditions, kind)
		switch {
		case failed(is) && (!failed(was) || was.Message != is.Message):
			r.Tell(before, corev1.EventTypeWarning, is.Reason, is.Message)
		case succeeded(is) && failed(was):
			r.Tell(before, corev1.EventTypeNormal, is.Reason, is.Message)
		}
	}
}

// failed reports whether a condition is that of a failure of the policy itself or of the chart's values. Ready is false too
// if the policy does not compile or is suspended, which other conditions report.
func failed(c *metav1.Condition) bool {
	if c == nil {
		return false
	}
	switch c.Type {
	case policyv1alpha1.PolicySuspended:
		return c.Status == metav1.ConditionTrue
	case policyv1alpha1.PolicyReady:
		return c.Status == metav1.ConditionFalse && c.Reason == policyv1alpha1.PolicyReasonReferencesNotEnabled
	}
	return c.Status == metav1.ConditionFalse
}

// succeeded reports whether a condition has its good status.
func succeeded(c *metav1.Condition) bool {
	if c.Type == policyv1alpha1.PolicySuspended {
		return c.Status == metav1.ConditionFalse
	}
	return c.Status == metav1.ConditionTrue
}
