package statuses

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/controllers/events"
)

// Memory writes statuses that a controller reads again to decide what comes next. The type of the objects is O, and that of their
// statuses S.
type Memory[O client.Object, S any] struct {
	Client client.StatusClient
	// Owner is the field manager.
	Owner string
	// Status returns the status of an object.
	Status func(O) *S
	// Merge returns a stored status with the owner's part replaced. It is pure; nil if the owner writes the whole status.
	Merge func(stored, part *S) *S
	// Tell creates an event on an object; nil for none.
	Tell func(O, events.Event)
}

// Write writes the next status of an object before anything is done that the status records, and then tells the events of the
// transition. It writes nothing if the status is equal. Afterwards, the object has the status and the resourceVersion of the write.
//
// The error is Stale if the object was changed or deleted since it was read: the status is out of date, so nothing may be done. See
// Requeue.
func (m *Memory[O, S]) Write(ctx context.Context, object O, next *S, transition func(before, after *S) []events.Event) (written bool, err error) {
	stored := m.Status(object)
	if m.Merge != nil {
		next = m.Merge(stored, next)
	}
	if equality.Semantic.DeepEqual(stored, next) {
		return false, nil
	}
	update, _ := object.DeepCopyObject().(O) // it has the same type
	*m.Status(update) = *next
	err = m.Client.Status().Update(ctx, update, client.FieldOwner(m.Owner))
	if apierrors.IsNotFound(err) {
		err = errGone
	}
	if err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	before := *stored
	*stored = *m.Status(update)
	object.SetResourceVersion(update.GetResourceVersion())
	tell(m.Tell, object, transition, &before, stored)
	return true, nil
}

// errGone is the error of a status whose object was deleted since it was read.
var errGone = errors.New("the object does not exist any more")

// Stale reports whether a status could not be written because the object was changed or deleted since it was read. Nothing may be
// done that the status was to record.
func Stale(err error) bool { return apierrors.IsConflict(err) || errors.Is(err, errGone) }

// Requeue returns the result of a reconciliation. Stale is no failure. After a conflict, the key is requested again after a moment,
// and the object is read again. For a deleted object nothing more is done: its watch reports it.
func Requeue(after time.Duration, result reconcile.Result, err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, errGone):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: after}, nil
	}
	return result, err
}

// tell creates the events of a transition.
func tell[O client.Object, S any](to func(O, events.Event), object O, transition func(before, after *S) []events.Event, before, after *S) {
	if to == nil || transition == nil {
		return
	}
	for _, e := range transition(before, after) {
		to(object, e)
	}
}
