package kills_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/kills"
)

var now = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

func fakeServer(objects ...client.Object) client.WithWatch {
	return kills.Server(scheme.Scheme, clocktesting.NewFakePassiveClock(now), []client.Object{&corev1.Pod{}}, objects...)
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// A connection to a fake server ends as one to a real server does: at writes that the server accepts, and never at a rejected one,
// a read or a review.
func TestFakeEnd(t *testing.T) {
	requests := []func(client.Client) error{
		func(c client.Client) error { return c.List(t.Context(), &corev1.PodList{}) },
		func(c client.Client) error {
			return c.Create(t.Context(), &authorizationv1.SubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: "review"}})
		},
		func(c client.Client) error { return c.Create(t.Context(), pod("taken")) },
		func(c client.Client) error { return c.Create(t.Context(), pod("first")) },
		func(c client.Client) error { return c.Update(t.Context(), pod("missing")) },
		func(c client.Client) error { return c.Delete(t.Context(), pod("taken")) },
	}
	first := []string{"POST Pod/shop/taken", "POST Pod/shop/first"}
	all := slices.Concat(first, []string{"PUT Pod/shop/missing", "DELETE Pod/shop/taken"})
	accepted := []string{"POST Pod/shop/first", "DELETE Pod/shop/taken"}
	for name, c := range map[string]struct {
		connection       *kills.Connection
		writes, accepted []string
		killed           int
		stored           []string
	}{
		"never":              {&kills.Connection{Left: -1}, all, accepted, 0, []string{"first"}},
		"before the first":   {&kills.Connection{Left: 0}, nil, nil, 4, []string{"taken"}},
		"after the first":    {&kills.Connection{Left: 1}, first, accepted[:1], 2, []string{"first", "taken"}},
		"first answer lost":  {&kills.Connection{Left: 1, Lost: true}, first, accepted[:1], 3, []string{"first", "taken"}},
		"second answer lost": {&kills.Connection{Left: 2, Lost: true}, all, accepted, 1, []string{"first"}},
		"after the last":     {&kills.Connection{Left: 2}, all, accepted, 0, []string{"first"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := fakeServer(pod("taken"))
			through, killed := c.connection.Fake(server), 0
			for i, request := range requests {
				switch err := request(through); {
				case errors.Is(err, kills.Err):
					killed++
				case err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
					t.Fatalf("request %d: %v", i, err)
				}
			}
			if diff := cmp.Diff(c.writes, c.connection.Writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.accepted, c.connection.Accepted()); diff != "" {
				t.Errorf("accepted (-want +got):\n%s", diff)
			}
			if killed != c.killed {
				t.Errorf("%d requests are killed, want %d", killed, c.killed)
			}
			if diff := cmp.Diff(c.stored, names(t, server)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func names(t *testing.T, server client.Client) (found []string) {
	t.Helper()
	list := &corev1.PodList{}
	if err := server.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	return found
}

// Every kind of write counts, and every request of a connection that has ended fails.
func TestFakeRequests(t *testing.T) {
	known := func() *corev1.Pod {
		p := &corev1.Pod{}
		if err := fakeServer(pod("known")).Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "known"}, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	applied := func() *corev1apply.PodApplyConfiguration {
		return corev1apply.Pod("known", "shop").WithLabels(map[string]string{"a": "b"})
	}
	for name, c := range map[string]struct {
		do   func(client.WithWatch) error
		want []string
	}{
		"get": {func(c client.WithWatch) error {
			return c.Get(t.Context(), client.ObjectKeyFromObject(known()), pod(""))
		}, nil},
		"list":   {func(c client.WithWatch) error { return c.List(t.Context(), &corev1.PodList{}) }, nil},
		"watch":  {func(c client.WithWatch) error { _, err := c.Watch(t.Context(), &corev1.PodList{}); return err }, nil},
		"create": {func(c client.WithWatch) error { return c.Create(t.Context(), pod("new")) }, []string{"POST Pod/shop/new"}},
		"update": {func(c client.WithWatch) error { return c.Update(t.Context(), known()) }, []string{"PUT Pod/shop/known"}},
		"patch":  {func(c client.WithWatch) error { return c.Patch(t.Context(), known(), client.MergeFrom(known())) }, []string{"PATCH Pod/shop/known"}},
		"apply":  {func(c client.WithWatch) error { return c.Apply(t.Context(), applied(), client.FieldOwner("test")) }, []string{"PATCH Pod/shop/known"}},
		"delete": {func(c client.WithWatch) error { return c.Delete(t.Context(), known()) }, []string{"DELETE Pod/shop/known"}},
		"delete all": {func(c client.WithWatch) error {
			return c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("shop"))
		}, []string{"DELETE Pod"}},
		"update status": {func(c client.WithWatch) error { return c.Status().Update(t.Context(), known()) }, []string{"PUT Pod/shop/known/status"}},
		"patch status": {func(c client.WithWatch) error {
			return c.Status().Patch(t.Context(), known(), client.MergeFrom(known()))
		}, []string{"PATCH Pod/shop/known/status"}},
		"apply status": {func(c client.WithWatch) error {
			return c.Status().Apply(t.Context(), applied(), client.FieldOwner("test"))
		}, []string{"PATCH Pod/shop/known/status"}},
	} {
		t.Run(name, func(t *testing.T) {
			alive, dead := &kills.Connection{Left: -1}, &kills.Connection{Left: 1}
			if err := c.do(alive.Fake(fakeServer(pod("known")))); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, alive.Accepted()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			ended := dead.Fake(fakeServer(pod("known")))
			if err := ended.Create(t.Context(), pod("last")); err != nil {
				t.Fatal(err)
			}
			if err := c.do(ended); !errors.Is(err, kills.Err) {
				t.Errorf("error %v of a connection that has ended", err)
			}
		})
	}
}

// The fake server gives objects a UID and a time, and a request to delete an object with a UID deletes no other one.
func TestServer(t *testing.T) {
	server := fakeServer()
	one, two := pod("one"), pod("two")
	for _, p := range []*corev1.Pod{one, two} {
		if err := server.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if one.UID == "" || one.UID == two.UID || !one.CreationTimestamp.Time.Equal(now) {
		t.Errorf("UIDs %q and %q, created at %s", one.UID, two.UID, one.CreationTimestamp)
	}
	uid := func(of types.UID) client.Preconditions { return client.Preconditions{UID: &of} }
	if err := server.Delete(t.Context(), one, uid(two.UID)); !apierrors.IsConflict(err) {
		t.Errorf("error %v for the UID of another object", err)
	}
	if err := server.Delete(t.Context(), one, uid(one.UID)); err != nil {
		t.Error(err)
	}
	if err := server.Delete(t.Context(), one, uid(one.UID)); !apierrors.IsNotFound(err) {
		t.Errorf("error %v for an object that does not exist", err)
	}
}
