package requests

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/policies"
)

// Verb is what a step does with its object.
type Verb string

// The verbs.
const (
	Create Verb = "creating"
	Update Verb = "updating"
	Remove Verb = "deleting"
)

// Step is one write.
type Step struct {
	Verb   Verb
	Object client.Object
	// Before is the object that is updated, as it was read.
	Before client.Object
}

// Change is a step that updates an object.
func Change[O client.Object](object O, do func(O)) Step {
	after, _ := object.DeepCopyObject().(O) // it has the same type
	do(after)
	return Step{Verb: Update, Object: after, Before: object}
}

// Apply executes steps in their order. Updates and deletions are of the object that was read. The error is a *StepError.
func Apply(ctx context.Context, c client.Client, owner string, steps ...Step) error {
	for i := range steps {
		s := &steps[i]
		var err error
		switch s.Verb {
		case Create:
			err = c.Create(ctx, s.Object, client.FieldOwner(owner))
		case Update:
			err = c.Patch(ctx, s.Object, client.MergeFromWithOptions(s.Before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(owner))
		case Remove:
			err = client.IgnoreNotFound(c.Delete(ctx, s.Object, Deletion(s.Object)...))
		}
		if err != nil {
			return &StepError{Step: s, err: err}
		}
	}
	return nil
}

// StepError is the error of a write.
type StepError struct {
	Step *Step
	err  error
}

// Error implements error.
func (e *StepError) Error() string {
	return fmt.Sprintf("%s %T %s: %s", e.Step.Verb, e.Step.Object, Named(e.Step.Object), e.err)
}

// Unwrap returns the error of the API server.
func (e *StepError) Unwrap() error { return e.err }

// Denial is what the API server says of an object that is created.
type Denial int

// The denials.
const (
	// NotDenied: another error, after which the step is repeated.
	NotDenied Denial = iota
	// Rejected: it rejects the object for good.
	Rejected
	// Blocked: it denies the object for now, such as by a quota or a missing permission.
	Blocked
)

// DenialOf returns what the error of Apply says of an object that is created.
func DenialOf(err error) Denial {
	var failure *StepError
	switch {
	case !errors.As(err, &failure) || failure.Step.Verb != Create:
		return NotDenied
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return Rejected
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return Blocked
	}
	return NotDenied
}

// OnDenial calls a function for a write that the API server denies, with the text for a status: rejected for good, or blocked for now. It
// returns another error.
func OnDenial(err error, rejected, blocked func(text string) (reconcile.Result, error)) (reconcile.Result, error) {
	switch DenialOf(err) {
	case Rejected:
		return rejected(policies.PublicError(err))
	case Blocked:
		return blocked(policies.PublicError(err))
	case NotDenied:
	}
	return reconcile.Result{}, err
}

// The delays before another attempt to write what was denied: a quarter of the time since the step started.
const firstAttempt, lastAttempt = 2 * time.Second, 2 * time.Minute

// NextAttempt is the delay before another attempt to write what was denied for now.
func NextAttempt(since, now time.Time) time.Duration {
	return min(lastAttempt, max(firstAttempt, now.Sub(since)/4))
}

// Read reads an object; nil if it does not exist.
func Read[O client.Object](ctx context.Context, c client.Reader, namespace, name string, into O) (none O, err error) {
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s/%s: %w", into, namespace, name, err)
	}
	return into, nil
}

// IsController reports whether an object belongs to the object with the UID.
func IsController(object metav1.Object, uid types.UID) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == uid
}

// Named is the namespace and the name of an object.
func Named(object client.Object) string { return object.GetNamespace() + "/" + object.GetName() }
