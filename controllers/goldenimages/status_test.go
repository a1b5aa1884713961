package goldenimages

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/goldenimages"
)

// server is a reconciler on a fake API server with one catalog, of which generation 2 was observed.
type server struct {
	*Reconciler

	// reject is the answer to updates of statuses; nil for none.
	reject error
	told   []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site", UID: "u-1", Generation: 3}}
	catalog.Status.ObservedGeneration = 2
	catalog.Status.Conditions = []metav1.Condition{{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonImported, ObservedGeneration: 2}}
	s := &server{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(catalog).WithStatusSubresource(catalog).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if s.reject != nil {
				return s.reject
			}
			return c.SubResource(name).Update(ctx, object, options...)
		},
	}).Build()
	s.Reconciler = New(Options{
		Client: c, Clock: testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0)),
		Tell: func(_ *v1alpha1.GoldenImageCatalog, e events.Event) { s.told = append(s.told, e.String()) },
	})
	return s
}

// read is the catalog as it is stored, and an observation of it.
func (s *server) read(t *testing.T) (*v1alpha1.GoldenImageCatalog, *goldenimages.Input) {
	t.Helper()
	catalog := &v1alpha1.GoldenImageCatalog{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog); err != nil {
		t.Fatal(err)
	}
	in := &goldenimages.Input{Catalog: catalog.DeepCopy(), Now: metav1.NewTime(s.Clock.Now())}
	in.Nodes.WorkloadArchitectures = []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 1}}
	return catalog, in
}

// TestNotObserved: a failure to read says so once, and the generation that was observed stays.
func TestNotObserved(t *testing.T) {
	s := newServer(t)
	_, in := s.read(t)
	if _, err := s.waits(t.Context(), in, errors.New("dial tcp 10.0.0.1:40001: connection refused")); err == nil {
		t.Error("the failure is not returned")
	}
	first, in := s.read(t)
	ready := meta.FindStatusCondition(first.Status.Conditions, conditionReady)
	want := "the objects of the catalog could not be read; the log of the controller has the error"
	if first.Status.ObservedGeneration != 2 || ready.Status != metav1.ConditionUnknown || ready.Reason != reasonNotObserved || ready.Message != want || ready.ObservedGeneration != 3 {
		t.Errorf("observed %d, %+v", first.Status.ObservedGeneration, ready)
	}
	if _, err := s.waits(t.Context(), in, errors.New("dial tcp 10.0.0.1:40002: connection refused")); err == nil {
		t.Error("the failure is not returned")
	}
	if second, _ := s.read(t); second.ResourceVersion != first.ResourceVersion {
		t.Errorf("the same failure is written again: %+v", second.Status)
	}
}

// TestNotRemembered: a plan that cannot be remembered is reported, unless the catalog changed or was deleted since it was read.
func TestNotRemembered(t *testing.T) {
	catalogs := v1alpha1.GroupVersion.WithResource("goldenimagecatalogs").GroupResource()
	for name, c := range map[string]struct {
		reject   error
		stale    bool
		observed int64
		message  string
	}{
		"forbidden": {apierrors.NewForbidden(catalogs, "site", errors.New("not you")), false, 3, "the status could not be written, so nothing was done; the log of the controller has the error Forbidden"},
		"no answer": {errors.New("connection refused"), false, 3, "the status could not be written, so nothing was done; the log of the controller has the error"},
		"changed":   {apierrors.NewConflict(catalogs, "site", errors.New("it changed")), true, 2, ""},
		"deleted":   {apierrors.NewNotFound(catalogs, "site"), true, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.reject = c.reject
			_, in := s.read(t)
			if _, err := s.waits(t.Context(), in, errNoCDI); err == nil || statuses.Stale(err) != c.stale {
				t.Errorf("the error is %v", err)
			}
			catalog, _ := s.read(t)
			ready := meta.FindStatusCondition(catalog.Status.Conditions, conditionReady)
			if catalog.Status.ObservedGeneration != c.observed || ready.Message != c.message || (ready.Reason == reasonWriteFailed) == c.stale || len(catalog.Status.Nodes.WorkloadArchitectures) > 0 {
				t.Errorf("%+v", catalog.Status)
			}
			var told []string
			if !c.stale {
				told = []string{"Warning WriteFailed: " + c.message}
			}
			if diff := cmp.Diff(told, s.told); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
