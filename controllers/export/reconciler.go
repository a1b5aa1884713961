package export

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies/export"
)

// Owner is the field manager of this controller.
const Owner = "virtward-export"

// Options configure a Reconciler.
type Options struct {
	// Client writes the exported policies. It reads them from the manager's cache, which has objects with Virtward's
	// label.
	Client client.Client
	// Live reads from the API server what the cache does not have.
	Live client.Reader
	// Statuses reads policies from the API server, and writes their statuses.
	Statuses client.Client
	// Policies returns the active ones, sorted by name, and Facts the facts about the cluster.
	Policies func() []configcache.Compiled
	Facts    func() *platform.Facts
	// Ready returns nil once the facts and the policies are known. Nothing is written before.
	Ready func() error
	// Namespace is Virtward's own, and Exempt are the others that the webhooks do not match.
	Namespace string
	Exempt    []string
	// ExemptByLabel tells that the webhooks do not match namespaces with the label policyv1alpha1.ExemptLabel either.
	ExemptByLabel bool
	Clock         clock.PassiveClock
}

// Reconciler keeps the exported policies. Its keys are the names of the policies. Create it with New.
type Reconciler struct {
	Options

	trigger *controllers.Trigger
	report  *report
	store   *statuses.Store[*policyv1alpha1.VirtualMachinePolicy, policyv1alpha1.VirtualMachinePolicyStatus]

	mu sync.Mutex
	// made are the exported policies by name, so that unchanged policies are not exported again.
	made map[string]memo
}

// report is this controller's part of the status of a policy: what is exported is read from the exported objects.
type report = statuses.Report[*policyv1alpha1.VirtualMachinePolicy, policyv1alpha1.VirtualMachinePolicyStatus]

func statusOf(p *policyv1alpha1.VirtualMachinePolicy) *policyv1alpha1.VirtualMachinePolicyStatus {
	return &p.Status
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	r := &Reconciler{Options: options, trigger: controllers.NewTrigger(), made: map[string]memo{}}
	r.report = &report{Client: options.Statuses, Owner: Owner, Status: statusOf, Own: own}
	r.store = statuses.NewStore(options.Statuses, statusOf, r.report, nil)
	return r
}

// Cached returns the objects that the manager's cache must hold for the Reconciler: those with Virtward's label.
func Cached() map[client.Object]cache.ByObject {
	labelled := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{export.ManagedBy: export.Manager}), Transform: cache.TransformStripManagedFields()}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}:        labelled,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}: labelled,
	}
}

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	byName := handler.EnqueueRequestsFromMapFunc(policyOf)
	return ctrl.NewControllerManagedBy(mgr).Named("export").
		WatchesRawSource(r.trigger.Source(r.keys)).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, byName).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, byName).
		WithOptions(controllers.Options()).
		Complete(r)
}

// policyOf returns the key of the policy whose exported policy has the name of an object.
func policyOf(_ context.Context, object client.Object) []reconcile.Request {
	name, ok := strings.CutPrefix(object.GetName(), export.Prefix)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// Changed requests the reconciliation of all policies, because policies or facts changed.
func (r *Reconciler) Changed() { r.trigger.Fire() }

// keys returns the active policies and those that were deleted since.
func (r *Reconciler) keys() []reconcile.Request {
	r.mu.Lock()
	remembered := r.store.Keys()
	for name := range r.made {
		remembered = append(remembered, types.NamespacedName{Name: name})
	}
	r.mu.Unlock()
	return controllers.Keys(r.Policies(), remembered)
}

// The times after which a policy is reconciled again: while the facts are unknown or the cache is behind, and without a
// change.
const behind, idle = time.Second, time.Hour

// Reconcile updates the exported policy and the status of one policy: plan, apply, status.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if ready := r.Ready() == nil; !ready {
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	c := configcache.Named(r.Policies(), request.Name)
	if c == nil { // Kubernetes deletes the native form with it
		r.forget(request.Name)
		return reconcile.Result{}, nil
	}
	now := r.Clock.Now()
	made := r.export(c, now)
	o, err := r.act(ctx, c, &made)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	if o = o.failed(c, err); o != nil {
		err = errors.Join(err, r.status(ctx, c, o, now))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("VirtualMachinePolicy %s: %w", request.Name, err)
	}
	if made.native != nil && made.native.Until != nil {
		return reconcile.Result{RequeueAfter: max(time.Millisecond, min(idle, made.native.Until.Sub(now)))}, nil
	}
	return reconcile.Result{RequeueAfter: idle}, nil
}

// act plans and applies.
func (r *Reconciler) act(ctx context.Context, c *configcache.Compiled, made *memo) (*outcome, error) {
	there, err := r.observe(ctx, export.Prefix+c.Object.Name, made.native != nil)
	if err != nil {
		return nil, err
	}
	steps, o := plan(c, made, there)
	return &o, r.apply(ctx, steps)
}

// observe reads the objects with a name. With live, it also reads objects without Virtward's label from the API server.
func (r *Reconciler) observe(ctx context.Context, name string, live bool) (there observed, err error) {
	there.policy, err = read(ctx, r, name, live, &admissionregistrationv1.ValidatingAdmissionPolicy{})
	if err != nil {
		return there, err
	}
	there.binding, err = read(ctx, r, name, live, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})
	return there, err
}

func read[O client.Object](ctx context.Context, r *Reconciler, name string, live bool, into O) (found O, err error) {
	err = r.Client.Get(ctx, client.ObjectKey{Name: name}, into)
	if apierrors.IsNotFound(err) && live {
		err = r.Live.Get(ctx, client.ObjectKey{Name: name}, into)
	}
	switch {
	case apierrors.IsNotFound(err):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("reading %s %s: %w", kindOf(into), name, err)
	}
	into.SetManagedFields(nil) // which may not be sent back
	return into, nil
}

// apply executes a plan, in its order.
func (r *Reconciler) apply(ctx context.Context, steps []step) error {
	for _, s := range steps {
		var err error
		switch s.verb {
		case create:
			err = r.Client.Create(ctx, s.object, client.FieldOwner(Owner))
		case update: // of the version that was read
			err = r.Client.Update(ctx, s.object, client.FieldOwner(Owner))
		case remove:
			uid := s.object.GetUID()
			err = client.IgnoreNotFound(r.Client.Delete(ctx, s.object, client.Preconditions{UID: &uid}))
		}
		if err != nil {
			return &writeError{step: s, err: err}
		}
	}
	return nil
}

// status writes this controller's part of the status.
func (r *Reconciler) status(ctx context.Context, c *configcache.Compiled, o *outcome, now time.Time) error {
	return r.store.Keep(ctx, c.Object, func(before *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
		return o.status(c, before, now)
	})
}

// export exports a policy, or returns the previous result.
func (r *Reconciler) export(c *configcache.Compiled, now time.Time) memo {
	name := c.Object.Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if !wanted(c) {
		delete(r.made, name)
		return memo{}
	}
	cluster := export.Cluster{Namespace: r.Namespace, Exempt: r.Exempt, ExemptByLabel: r.ExemptByLabel, KubeVirt: r.Facts().KubeVirtUsers()}
	m, known := r.made[name]
	if !known || !m.still(c, &cluster, now) {
		m = memo{policy: c.Policy, cluster: cluster}
		m.native, m.problems = export.Export(c.Policy, cluster, now)
		r.made[name] = m
	}
	return m
}

func (r *Reconciler) forget(name string) {
	r.store.Forget(types.NamespacedName{Name: name})
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, name)
}
