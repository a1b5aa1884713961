package goldenimages

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/goldenimages"
)

// writers bounds the writes at the same time. The writes of one plan are independent of each other: what depends on a write
// is in a later plan.
const writers = 8

// apply executes the writes. An object that changed since it was observed is left to the next plan. The error is that of the
// first write that failed.
func (r *Reconciler) apply(ctx context.Context, writes []goldenimages.Write) error {
	errs := make([]error, len(writes))
	free := make(chan struct{}, writers)
	var pending sync.WaitGroup
	for i := range writes {
		free <- struct{}{}
		pending.Go(func() {
			defer func() { <-free }()
			errs[i] = r.write(ctx, &writes[i])
		})
	}
	pending.Wait()
	failed := 0
	var first error
	for _, err := range errs {
		if err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w; %d more writes failed", first, failed-1)
	}
	return first
}

func (r *Reconciler) write(ctx context.Context, w *goldenimages.Write) error {
	object, isObject := w.Object.(client.Object)
	if !isObject {
		return fmt.Errorf("%T is no object", w.Object)
	}
	var err error
	switch w.Verb {
	case goldenimages.Create:
		err = r.Client.Create(ctx, object, client.FieldOwner(Owner))
	case goldenimages.Update:
		err = client.IgnoreNotFound(r.Client.Update(ctx, object, client.FieldOwner(Owner)))
	case goldenimages.Delete:
		err = r.remove(ctx, object)
	}
	if err == nil || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", w.Verb, kindOf(object), object.GetName(), err)
}

// remove deletes an object as it was observed. CDI deletes marked DataSources together with their DataImportCron, so before
// a DataImportCron is deleted, the DataSources that it would delete are read again: a pointer has to stay.
func (r *Reconciler) remove(ctx context.Context, object client.Object) error {
	if _, isCron := object.(*cdiv1beta1.DataImportCron); isCron {
		marked := &cdiv1beta1.DataSourceList{}
		err := r.Client.List(ctx, marked, client.InNamespace(object.GetNamespace()), client.MatchingLabels{goldenimages.CronLabel: object.GetName(), goldenimages.CleanupLabel: "true"}, client.Limit(maxMarked))
		if err != nil {
			return err
		}
		for i := range marked.Items {
			if marked.Items[i].Spec.Source.DataSource != nil {
				return nil // the next plan removes the label
			}
		}
	}
	uid, version := object.GetUID(), object.GetResourceVersion()
	return client.IgnoreNotFound(r.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

// maxMarked bounds the DataSources that are read before a DataImportCron is deleted. CDI marks one.
const maxMarked = 20

// kindOf is the kind of an object of CDI, or of metadata.
func kindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	_, kind, _ := strings.Cut(fmt.Sprintf("%T", object), ".")
	return kind
}
