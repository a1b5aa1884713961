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
	// claim is the only one that they may clone; empty for all.
	claim   string
	reviews []string
	err     error
}

func (a *authorizer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	review, ok := object.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return fmt.Errorf("%T is created", object)
	}
	of := review.Spec.ResourceAttributes
	resource := strings.Trim(of.Resource+"/"+of.Subresource, "/")
	a.reviews = append(a.reviews, fmt.Sprintf("%s %s %s.%s %s/%s", review.Spec.User, of.Verb, resource, of.Group, of.Namespace, of.Name))
	review.Status.Allowed = a.permitted[review.Spec.User] == resource && (a.claim == "" || of.Name == a.claim) && slices.Contains(review.Spec.Groups, "system:authenticated")
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
		names, err := p.users(t.Context(), fedora, list)
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
	if first := a.reviews[0]; first != "system:serviceaccount:evil:default create datavolumes/source.cdi.kubevirt.io team/" || reviews != 16 || !strings.HasSuffix(a.reviews[3], "create pods. team/fedora-0b6c7c0e") {
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
	if names, err := p.users(t.Context(), other, []user{userIn("shop/web"), userIn("team/web")}); err != nil || !slices.Equal(names, []string{"shop/web"}) {
		t.Errorf("%v, %v", names, err)
	}
	a.err = errors.New("the API server does not answer")
	if _, err := p.users(t.Context(), fedora, []user{userIn("fourth/web")}); !errors.Is(err, a.err) {
		t.Errorf("error %v", err)
	}
}

// TestNamedPermission: a permission for one claim is one for one image.
func TestNamedPermission(t *testing.T) {
	a := &authorizer{permitted: map[string]string{"system:serviceaccount:shop:default": "datavolumes/source"}, claim: "fedora-0b6c7c0e"}
	p, _ := permissionsOf(a)
	other := fedora.DeepCopy()
	other.Name = "debian"
	for _, image := range []*v1alpha1.VirtualImage{fedora, other} {
		names, err := p.users(t.Context(), image, []user{userIn("shop/web")})
		if err != nil || len(names) > 0 != (image == fedora) {
			t.Errorf("%s: %v, %v", image.Name, names, err)
		}
	}
}

// TestReviews: the accounts that are considered are bounded, and a namespace with many does not hide others.
func TestReviews(t *testing.T) {
	a := &authorizer{permitted: map[string]string{"system:serviceaccount:evil:default": "pods", "system:serviceaccount:evil:zz": "pods", "system:serviceaccount:shop:default": "pods"}}
	p, _ := permissionsOf(a)
	list := []user{userIn("evil/last"), account(userIn("evil/zz"), "zz"), userIn("shop/web")}
	for i := range 1000 {
		list = append(list, account(userIn(fmt.Sprint("evil/vm-", i)), fmt.Sprintf("a%04d", i)))
	}
	names, err := p.users(t.Context(), fedora, list)
	if err != nil || !slices.Equal(names, []string{"evil/last", "shop/web"}) || len(a.reviews) != 4*(maxAccounts-1)+2+2 {
		t.Errorf("%v, %v, %d reviews", names, err, len(a.reviews))
	}
	list = nil
	for i := range 2 * maxForeign {
		list = append(list, userIn(fmt.Sprintf("n%04d/web", i)))
	}
	a.reviews = nil
	if names, err := p.users(t.Context(), fedora, list); err != nil || names != nil || len(a.reviews) != 4*maxForeign {
		t.Errorf("%v, %v after %d reviews", names, err, len(a.reviews))
	}
}
