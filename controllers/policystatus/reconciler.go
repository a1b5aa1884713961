package policystatus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/policycounts"
	"github.com/virtward/virtward/controllers/statuses"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-controller"

// Options configure a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes the statuses.
	Client client.Client
	// Policies are the active ones, sorted by name.
	Policies func() []configcache.Compiled
	// Tell creates an event on a policy.
	Tell  func(*policyv1alpha1.VirtualMachinePolicy, events.Event)
	Clock clock.PassiveClock
}

// Reconciler writes statuses. Its keys are the names of the policies. Create it with New.
type Reconciler struct {
	Options

	trigger *controllers.Trigger
	memory  *memory
	store   *statuses.Store[*policyv1alpha1.VirtualMachinePolicy, policyv1alpha1.VirtualMachinePolicyStatus]

	mu      sync.Mutex
	counted Counted
	// counts are nil until they have been read. bases are the errors in the statuses when counting began, by name.
	counts *policycounts.Counts
	bases  map[string]base
}

// base has the errors and the denials of one generation of a policy.
type base struct {
	key     policycounts.Key
	errors  []policyv1alpha1.PolicyEvaluationError
	denials *policyv1alpha1.PolicyDenials
	// settled reports whether a status with the base is stored.
	settled bool
}

// memory is this controller's part of a status: the suspension, and the counts that a later process continues.
type memory = statuses.Memory[*policyv1alpha1.VirtualMachinePolicy, policyv1alpha1.VirtualMachinePolicyStatus]

func statusOf(p *policyv1alpha1.VirtualMachinePolicy) *policyv1alpha1.VirtualMachinePolicyStatus {
	return &p.Status
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	r := &Reconciler{Options: options, trigger: controllers.NewTrigger(), bases: map[string]base{}}
	r.memory = &memory{Client: options.Client, Owner: Owner, Status: statusOf, Merge: merged, Tell: options.Tell}
	r.store = statuses.NewStore(options.Client, statusOf, r.memory, transition)
	return r
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

// evaluations returns the counts of a policy. The first status that is planned with and not out of date is the base.
func (r *Reconciler) evaluations(policy *configcache.Compiled, before *policyv1alpha1.VirtualMachinePolicyStatus) Evaluations {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := policycounts.Key{UID: policy.Object.UID, Generation: policy.Object.Generation}
	known, ok := r.bases[policy.Object.Name]
	if !ok || known.key != key {
		known = base{key: key}
		if before.ObservedGeneration == key.Generation {
			known.errors, known.denials = before.Errors, before.Denials
		}
		r.bases[policy.Object.Name] = known
	}
	e := Evaluations{Known: r.counts != nil, Base: known.errors, BaseDenials: known.denials}
	if r.counts != nil {
		e.Read, e.Count = r.counts.Read, r.counts.Policies[key]
	}
	return e
}

// settle keeps the base of a policy once a status with it is stored. Before that, a status that was out of date is no base: another
// process continued its counts.
func (r *Reconciler) settle(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.bases[name]
	switch {
	case !ok || known.settled:
	case err == nil:
		known.settled = true
		r.bases[name] = known
	case statuses.Stale(err):
		delete(r.bases, name)
	}
}

// keys returns the active policies and those that were deleted since their status was written.
func (r *Reconciler) keys() []reconcile.Request {
	return controllers.Keys(r.Policies(), r.store.Keys())
}

// behind is the time until the next attempt after another process wrote the status, and idle the interval of reconciliations without
// a change; a clock that was set back is noticed within it.
const behind, idle = time.Second, time.Hour

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
	err := r.store.Keep(ctx, policy.Object, func(before *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
		return Plan(policy, counted, r.evaluations(policy, before), before, now)
	})
	r.settle(request.Name, err)
	if err != nil {
		return statuses.Requeue(behind, reconcile.Result{}, fmt.Errorf("the status of VirtualMachinePolicy %s: %w", request.Name, err))
	}
	if next := policy.Policy.NextExpiry(now); !next.IsZero() {
		return reconcile.Result{RequeueAfter: min(idle, next.Sub(now)+time.Second)}, nil
	}
	return reconcile.Result{RequeueAfter: idle}, nil
}

// merged returns a status with this controller's part replaced. The rest of it is that of the controller of exports.
func merged(status, part *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
	next := part.DeepCopy()
	next.ExportNotes = status.ExportNotes
	next.Conditions, next.EnforcedBy = nil, nil
	for _, c := range status.Conditions {
		if is := meta.FindStatusCondition(part.Conditions, c.Type); is != nil {
			next.Conditions = append(next.Conditions, *is)
		} else if !slices.Contains(written, c.Type) {
			next.Conditions = append(next.Conditions, c)
		}
	}
	for _, c := range part.Conditions {
		if meta.FindStatusCondition(status.Conditions, c.Type) == nil {
			next.Conditions = append(next.Conditions, c)
		}
	}
	enforces := slices.Contains(part.EnforcedBy, policyv1alpha1.PolicyByWebhook)
	for _, by := range status.EnforcedBy {
		if by != policyv1alpha1.PolicyByWebhook || enforces {
			next.EnforcedBy = append(next.EnforcedBy, by)
		}
	}
	if enforces && !slices.Contains(status.EnforcedBy, policyv1alpha1.PolicyByWebhook) {
		next.EnforcedBy = append(next.EnforcedBy, policyv1alpha1.PolicyByWebhook)
	}
	return next
}

// Events are the reasons of the events on policies.
var Events = events.Table{
	events.Warning(policyv1alpha1.PolicyReasonCompileFailed, "the policy cannot be compiled"),
	events.Normal(policyv1alpha1.PolicyReasonCompiled, "the policy compiles again"),
	events.Warning(policyv1alpha1.PolicyReasonReferencesNotEnabled, "the policy reads references that the chart does not enable"),
	events.Normal(policyv1alpha1.PolicyReasonReady, "the policy is active again"),
	events.Warning(policyv1alpha1.PolicyReasonEvaluationErrors, "evaluations failed, or others than before"),
	events.Normal(policyv1alpha1.PolicyReasonNoErrors, "no evaluation failed in the last 24 hours"),
	events.Warning(policyv1alpha1.PolicyReasonExceedsLimits, "the policy is suspended"),
	events.Normal(policyv1alpha1.PolicyReasonWithinLimits, "the policy is not suspended any more"),
}

// transition returns an event if the policy started or stopped to compile, to be enabled, to be evaluated, or to be suspended.
func transition(before, after *policyv1alpha1.VirtualMachinePolicyStatus) (all []events.Event) {
	for _, kind := range written {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if failed(is) && (!failed(was) || was.Message != is.Message) || succeeded(is) && failed(was) {
			all = append(all, Events.Event(is.Reason, is.Message))
		}
	}
	return all
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
