package statuses

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/events"
)

// Report writes what a controller tells users: one owner's part of the statuses of a kind. The type of the objects is O, and that
// of their statuses S.
type Report[O client.Object, S any] struct {
	// Client reads from the API server, without a cache, and writes.
	Client client.Client
	// Owner is the field manager of the part.
	Owner string
	// Status returns the status of an object, and Own the owner's part of a status. Both are pure.
	Status func(O) *S
	Own    func(*S) *S
	// Tell creates an event on an object; nil for none.
	Tell func(O, events.Event)
}

// Write writes the owner's part of the status of an object, and then tells the events of the transition. It writes nothing if the
// stored part is equal. Fields that the owner wrote before and that are not in the part are removed; fields of others stay.
//
// It is no error if the object was deleted. After a conflict the write is repeated with the current version: what was observed is
// reported whatever others have written. An object that was created again under the name gets no status of another one.
func (r *Report[O, S]) Write(ctx context.Context, object O, part *S, transition func(before, after *S) []events.Event) (written bool, err error) {
	before := r.Own(r.Status(object))
	if equality.Semantic.DeepEqual(part, before) {
		return false, nil
	}
	applied, err := r.configuration(object, part)
	if err == nil {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.apply(ctx, applied) })
	}
	switch {
	case apierrors.IsNotFound(err), errors.Is(err, errGone):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing the status: %w", err)
	}
	tell(r.Tell, object, transition, before, part)
	return true, nil
}

// apply applies a part to the version of the object that it names. After a conflict, it names the current version. The error is
// NotFound or errGone if the object does not exist any more.
func (r *Report[O, S]) apply(ctx context.Context, applied *unstructured.Unstructured) error {
	err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied.DeepCopy()), client.FieldOwner(r.Owner), client.ForceOwnership)
	if !apierrors.IsConflict(err) {
		return err
	}
	current := &metav1.PartialObjectMetadata{} // the object can be large
	current.SetGroupVersionKind(applied.GroupVersionKind())
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(applied), current); err != nil {
		return err
	}
	if current.GetUID() != applied.GetUID() {
		return errGone
	}
	applied.SetResourceVersion(current.GetResourceVersion())
	return err
}

// configuration is a part as it is applied to the object that was read: it has its UID and its resourceVersion.
func (r *Report[O, S]) configuration(object O, part *S) (*unstructured.Unstructured, error) {
	kind, err := r.Client.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return nil, err
	}
	if fields["conditions"] == nil { // a status of which nothing is left would be null, which the definition rejects
		fields["conditions"] = []any{}
	}
	applied := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	applied.SetGroupVersionKind(kind)
	applied.SetNamespace(object.GetNamespace())
	applied.SetName(object.GetName())
	applied.SetUID(object.GetUID())
	applied.SetResourceVersion(object.GetResourceVersion())
	return applied, nil
}
