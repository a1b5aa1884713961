package virtualimages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/virtualimages"
)

const (
	// maxPermissions bounds the answers that are remembered, and perPermission is the memory of one with the longest names.
	maxPermissions = 2500
	perPermission  = 1000
	// remembered is the time after which a permission is read again.
	remembered = time.Minute
	// maxAccounts bounds the service accounts of another namespace that are considered for an image, and maxForeign those of all
	// namespaces. The users of further ones do not count.
	maxAccounts = 16
	maxForeign  = 500
)

// permissions answers whether service accounts may clone images of other namespaces, as CDI decides it. The zero value is not
// usable: create it with newPermissions. It is safe for concurrent use.
type permissions struct {
	client  client.Client
	clock   clock.PassiveClock
	answers *lru.Cache
}

func newPermissions(c client.Client, clock clock.PassiveClock) *permissions {
	return &permissions{client: c, clock: clock, answers: lru.New(maxPermissions)}
}

// clone is a question: may the account clone a claim of a namespace, or each one if it has no name?
type clone struct{ account, claim types.NamespacedName }

// permission is an answer, and when it was read.
type permission struct {
	allowed bool
	at      time.Time
}

// users returns the names of those users of an image that count. Users in the namespace of the image do. One in another namespace
// does while the service account that clones for it may clone the claim of the image: a reference without this permission has no
// effect.
func (p *permissions) users(ctx context.Context, image *v1alpha1.VirtualImage, list []user) ([]string, error) {
	var names []string
	foreign := map[types.NamespacedName][]string{}
	for i := range list {
		if u := &list[i]; u.namespace == image.Namespace {
			names = append(names, u.shown)
		} else {
			account := types.NamespacedName{Namespace: u.namespace, Name: u.account}
			foreign[account] = append(foreign[account], u.shown)
		}
	}
	for _, account := range considered(maps.Keys(foreign)) {
		allowed, err := p.clones(ctx, account, image)
		if err != nil {
			return nil, err
		}
		if allowed {
			names = append(names, foreign[account]...)
		}
	}
	return names, nil
}

// clones reports whether an account may clone an image: by a permission for the namespace, or for the claim.
func (p *permissions) clones(ctx context.Context, account types.NamespacedName, image *v1alpha1.VirtualImage) (bool, error) {
	for _, claim := range []string{"", virtualimages.VolumeName(image.Name, image.UID)} {
		question := clone{account, types.NamespacedName{Namespace: image.Namespace, Name: claim}}
		allowed, known := p.known(question)
		if !known {
			var err error
			if allowed, err = p.review(ctx, question); err != nil {
				return false, err
			}
		}
		if allowed {
			return true, nil
		}
	}
	return false, nil
}

// considered are the accounts whose permissions are read, sorted: of each namespace the first maxAccounts, and the default
// account before all others.
func considered(accounts func(func(types.NamespacedName) bool)) []types.NamespacedName {
	sorted := slices.SortedFunc(accounts, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), -compareBool(isDefault(a), isDefault(b)), strings.Compare(a.Name, b.Name))
	})
	perNamespace := map[string]int{}
	sorted = slices.DeleteFunc(sorted, func(account types.NamespacedName) bool {
		perNamespace[account.Namespace]++
		return perNamespace[account.Namespace] > maxAccounts
	})
	return sorted[:min(len(sorted), maxForeign)]
}

func (p *permissions) known(question clone) (allowed, known bool) {
	found, _ := p.answers.Get(question)
	answer, known := found.(permission)
	return answer.allowed, known && p.clock.Since(answer.at) < remembered
}

// review reads a permission. CDI clones for an account with either of two permissions on the claim.
func (p *permissions) review(ctx context.Context, question clone) (bool, error) {
	allowed := false
	for _, of := range []authorizationv1.ResourceAttributes{
		{Group: "cdi.kubevirt.io", Resource: "datavolumes", Subresource: "source"},
		{Resource: "pods"},
	} {
		of.Verb, of.Namespace, of.Name = "create", question.claim.Namespace, question.claim.Name
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + question.account.Namespace + ":" + question.account.Name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + question.account.Namespace, "system:authenticated"},
			ResourceAttributes: &of,
		}}
		if err := p.client.Create(ctx, review); err != nil {
			return false, fmt.Errorf("reading whether users of other namespaces may clone the image: %w", err)
		}
		if allowed = review.Status.Allowed; allowed {
			break
		}
	}
	p.answers.Add(question, permission{allowed, p.clock.Now()})
	return allowed, nil
}

func isDefault(account types.NamespacedName) bool {
	return account.Name == virtualimages.DefaultAccount
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
