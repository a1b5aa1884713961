package templates

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/kills"
)

// unknown are the facts of a cluster that was not read.
type unknown struct{}

// Facts implements evaluator.Facts.
func (unknown) Facts() *platform.Facts { return nil }

func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	return New(Options{
		Client: kills.Server(scheme, clock, []client.Object{&v1beta1.VirtualMachineTemplate{}}, objects...), Evaluator: &evaluator.Evaluator{Facts: unknown{}},
		Ready: func() error { return nil }, Clock: clock,
	})
}

// TestUnobserved: a template that cannot be evaluated says so, and the error is returned, so that it is evaluated again.
func TestUnobserved(t *testing.T) {
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "web", Generation: 1}}
	r := newReconciler(t, template)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(template)}); !errors.Is(err, evaluator.ErrNoFacts) {
		t.Errorf("the error is %v", err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateReady); c == nil || c.Status != metav1.ConditionUnknown || c.Message == "" {
		t.Errorf("the conditions are %+v", template.Status.Conditions)
	}
}

// TestForgotten: nothing is kept of a template that was deleted.
func TestForgotten(t *testing.T) {
	r := newReconciler(t)
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "web"}}
	image := objectOf(apikinds.DataSources, types.NamespacedName{Namespace: "team", Name: "fedora"})
	r.objects.Set(key, []dependents.Object{image})
	r.known[key] = struct{}{}
	if _, err := r.Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if found := r.objects.Keys(image); len(found) > 0 || len(r.known) > 0 {
		t.Errorf("it keeps %v and %v", found, r.known)
	}
}
