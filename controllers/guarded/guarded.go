package guarded

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
)

// Reason is that of conditions of objects that are not trusted.
const Reason = "NotGuarded"

// Guards are those of a kind of objects. Nil trusts every object.
type Guards struct {
	// Reader reads from the API server, without a cache.
	Reader client.Reader
	// All must have been active since an object was created.
	All []admissionpolicies.Guard
}

// Missing says why an object is not trusted; empty if it is trusted. No client can set the time at which an object, or a
// guard, was created.
func (g *Guards) Missing(ctx context.Context, object metav1.Object) (string, error) {
	if g == nil {
		return "", nil
	}
	for i := range g.All {
		since, err := g.activeSince(ctx, &g.All[i])
		switch {
		case err != nil:
			return "", err
		case since.IsZero():
			return fmt.Sprintf("the ValidatingAdmissionPolicy %s, which checks the permissions of authors, is not active", g.All[i].Name), nil
		case object.GetCreationTimestamp().Time.Before(since):
			return fmt.Sprintf("it can have been written without a check of its author's permissions: the ValidatingAdmissionPolicy %s is active since %s. Delete the object, and create it again",
				g.All[i].Name, since.UTC().Format(time.RFC3339)), nil
		}
	}
	return "", nil
}

// activeSince is the time since which a guard is active; zero if it is not.
func (g *Guards) activeSince(ctx context.Context, guard *admissionpolicies.Guard) (time.Time, error) {
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		err := g.Reader.Get(ctx, client.ObjectKey{Name: guard.Name}, object)
		if apierrors.IsNotFound(err) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("reading the guard %s: %w", guard.Name, err)
		}
	}
	return guard.ActiveSince(policy, binding), nil
}
