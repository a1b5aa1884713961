package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// authorizer answers SubjectAccessReviews: the users of permitted may create a resource.
type authorizer struct {
	client.Client

	permitted map[string]string
	reviews   []string
	err       error
}

func (a *authorizer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review, ok := object.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return fmt.Errorf("%T is created", object)
	}
	of := review.Spec.ResourceAttributes
	resource := strings.Trim(of.Resource+"/"+of.Subresource, "/")
	a.reviews = append(a.reviews, fmt.Sprintf("%s %s %s.%s %s/%s", review.Spec.User, of.Verb, resource, of.Group, of.Namespace, of.Name))
	review.Status.Allowed = a.permitted[review.Spec.User] == resource && slices.Contains(review.Spec.Groups, "system:authenticated")
	return a.err
}

func permissionsOf(a *authorizer) (*permissions, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	return newPermissions(a, clock), clock
}

var fedora = &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fedora", UID: "0b6c7c0e-52a9"}}

func account(of user, name string) user {
	of.account = name
	return of
}

// TestForeignUsers: a user in another namespace counts while CDI would clone for it.
func TestForeignUsers(t *testing.T) {
	a := &authorizer{permitted: map[string]string{
		"system:serviceaccount:shop:default": "datavolumes/source", "system:serviceaccount:lab:default": "pods", "system:serviceaccount:store:cloner": "datavolumes/source",
	}}
	p, clock := permissionsOf(a)
	list := []user{userIn("team/web"), userIn("evil/web"), userIn("shop/web"), userIn("shop/db"), userIn("lab/web"), userIn("store/other"), account(userIn("store/web"), "cloner"), account(userIn("evil/db"), "cloner")}
	count := func() []string {
		t.Helper()
		names, err := p.users(t.Context(), fedora, list, true)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names
	}
	want := []string{"lab/web", "shop/db", "shop/web", "store/web", "team/web"}
	if diff := cmp.Diff(want, count()); diff != "" {
		t.Error(diff)
	}
	reviews := len(a.reviews)
	if first := a.reviews[0]; first != "system:serviceaccount:evil:default create datavolumes/source.cdi.kubevirt.io team/fedora-0b6c7c0e" || reviews != 10 {
		t.Errorf("%d reviews, the first one is %q", reviews, first)
	}
	delete(a.permitted, "system:serviceaccount:shop:default")
	if diff := cmp.Diff(want, count()); diff != "" || len(a.reviews) != reviews {
		t.Errorf("%s: %d reviews", diff, len(a.reviews))
	}
	clock.SetTime(clock.Now().Add(remembered))
	if diff := cmp.Diff([]string{"lab/web", "store/web", "team/web"}, count()); diff != "" {
		t.Error(diff)
	}
	other := fedora.DeepCopy()
	other.Namespace = "shop"
	if names, err := p.users(t.Context(), other, []user{userIn("shop/web"), userIn("team/web")}, true); err != nil || !slices.Equal(names, []string{"shop/web"}) {
		t.Errorf("%v, %v", names, err)
	}
	a.err = errors.New("the API server does not answer")
	if _, err := p.users(t.Context(), fedora, []user{userIn("fourth/web")}, true); !errors.Is(err, a.err) {
		t.Errorf("error %v", err)
	}
}

// TestReviews: the accounts of a namespace, and the reviews of a pass, are bounded.
func TestReviews(t *testing.T) {
	a := &authorizer{permitted: map[string]string{"system:serviceaccount:evil:default": "pods", "system:serviceaccount:evil:zz": "pods"}}
	p, _ := permissionsOf(a)
	list := []user{userIn("evil/last"), account(userIn("evil/zz"), "zz")}
	for i := range 1000 {
		list = append(list, account(userIn(fmt.Sprint("evil/vm-", i)), fmt.Sprintf("a%04d", i)))
	}
	names, err := p.users(t.Context(), fedora, list, true)
	if err != nil || !slices.Equal(names, []string{"evil/last"}) || len(a.reviews) != 2*maxAccounts {
		t.Errorf("%v, %v, %d reviews", names, err, len(a.reviews))
	}
	list = nil
	for i := range 2 * maxReviews {
		list = append(list, userIn(fmt.Sprintf("n%04d/web", i)))
	}
	a.reviews = nil
	if _, err := p.users(t.Context(), fedora, list, true); !errors.Is(err, errReviewing) || len(a.reviews) != 2*maxReviews {
		t.Errorf("%v after %d reviews", err, len(a.reviews))
	}
	if names, err := p.users(t.Context(), fedora, list, true); err != nil || names != nil { // the second pass
		t.Errorf("%v, %v", names, err)
	}
	if names, err := p.users(t.Context(), fedora, append(list, list...), false); err != nil || names != nil {
		t.Errorf("%v, %v", names, err)
	}
}
