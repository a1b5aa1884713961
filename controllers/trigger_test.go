package controllers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
)

type (
	policy = policyv1alpha1.VirtualMachinePolicy
	status = policyv1alpha1.VirtualMachinePolicyStatus
)

// Reconciler keeps a ConfigMap for each policy.
type Reconciler struct {
	client.Client

	Policies func() []configcache.Compiled
	trigger  *controllers.Trigger
	memory   *statuses.Memory[*policy, status]
	report   *statuses.Report[*policy, status]
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("caps").
		WatchesRawSource(r.trigger.Source(r.keys)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(policyOf)).
		WithOptions(controllers.Options()).
		Complete(r)
}

func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &policy{}
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	there, err := r.observe(ctx, object)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, r.reports(ctx, object, nil, err))
	}
	steps, next := plan(object, there)
	if _, err := r.memory.Write(ctx, object, next, transition); err != nil {
		return statuses.Requeue(time.Second, reconcile.Result{}, err)
	}
	err = r.apply(ctx, steps)
	return reconcile.Result{RequeueAfter: time.Hour}, errors.Join(err, r.reports(ctx, object, steps, err))
}

func (r *Reconciler) reports(ctx context.Context, object *policy, steps []client.Object, failed error) error {
	_, err := r.report.Write(ctx, object, outcome(object, steps, failed), transition)
	return err
}

func (r *Reconciler) keys() []reconcile.Request { return controllers.Keys(r.Policies(), nil) }

func policyOf(context.Context, client.Object) []reconcile.Request { return nil }

func (r *Reconciler) observe(context.Context, *policy) (*corev1.ConfigMap, error) { return nil, nil }

func plan(*policy, *corev1.ConfigMap) (steps []client.Object, next *status) { return nil, nil }

func outcome(*policy, []client.Object, error) *status { return nil }

func transition(*status, *status) []events.Event { return nil }

func (r *Reconciler) apply(context.Context, []client.Object) error { return nil }

// A reconciler in the shape that all controllers have: see the documentation of the package.
func ExampleTrigger() {
	var mgr ctrl.Manager            // ctrl.NewManager
	var active configcache.Policies // configcache.NewPolicies
	r := &Reconciler{Policies: active.Compiled, trigger: controllers.NewTrigger()}
	active.OnChange(func(configcache.Change) { r.trigger.Fire() })
	if err := r.SetupWithManager(mgr); err != nil {
		panic(err)
	}
}

// many are policies with these names.
func many(names ...string) []configcache.Compiled {
	var all []configcache.Compiled
	for _, name := range names {
		all = append(all, configcache.Compiled{Object: &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	return all
}

func names(requests []reconcile.Request) []string {
	var all []string
	for _, r := range requests {
		all = append(all, r.Name)
	}
	return all
}

func TestKeys(t *testing.T) {
	got := names(controllers.Keys(many("a", "c", "e"), []types.NamespacedName{{Name: "b"}, {Name: "c"}, {Name: "f"}}))
	if diff := cmp.Diff([]string{"a", "c", "e", "b", "f"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

// The keys are read when the reconciler begins, and once for all changes that come before they are read again.
func TestTrigger(t *testing.T) {
	trigger := controllers.NewTrigger()
	for range 100 {
		trigger.Fire() // no replica leads
	}
	asked, answer := make(chan struct{}), make(chan []reconcile.Request)
	source := trigger.Source(func() []reconcile.Request {
		asked <- struct{}{}
		return <-answer
	})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	<-asked
	trigger.Fire() // the first list may be without it
	answer <- controllers.Keys(many("a"), nil)
	<-asked
	answer <- controllers.Keys(many("b"), nil)
	for _, want := range []string{"a", "b"} {
		got, _ := queue.Get()
		if got.Name != want {
			t.Errorf("key %s, want %s", got.Name, want)
		}
	}
	select {
	case <-asked:
		t.Error("the keys are read without a change")
	case <-time.After(50 * time.Millisecond):
	}
}

// Each key has delays of its own, which grow and are bounded.
func TestDelays(t *testing.T) {
	limiter := controllers.Options().RateLimiter
	failing, other := controllers.Keys(many("a"), nil)[0], controllers.Keys(many("b"), nil)[0]
	var delays []time.Duration
	for range 10 {
		delays = append(delays, limiter.When(failing))
	}
	if delays[0] != 200*time.Millisecond || delays[1] != 400*time.Millisecond || delays[9] != 30*time.Second {
		t.Errorf("delays %v", delays)
	}
	if got := limiter.When(other); got != 200*time.Millisecond {
		t.Errorf("another key waits for %s", got)
	}
}
