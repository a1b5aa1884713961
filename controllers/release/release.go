package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects of a page. Only their metadata are read.
const pageSize = 200

// Finalizer is a finalizer of the objects of a kind.
type Finalizer struct {
	Kind schema.GroupVersionKind
	Name string
}

// Releaser removes finalizers.
type Releaser struct {
	Client client.Client
	Log    logr.Logger
	// Namespace is that of Deployments, whose controllers would add the finalizers again.
	Namespace   string
	Deployments []string
	Finalizers  []Finalizer
	// Quiet is the time after which no object has a finalizer again: a controller that ends can still add one.
	Quiet time.Duration
}

// Release stops the controllers, and removes the finalizers of all objects until none comes back. The context bounds the time.
func (r *Releaser) Release(ctx context.Context) error {
	for _, name := range r.Deployments {
		if err := r.stop(ctx, name); err != nil {
			return err
		}
	}
	for last := error(nil); ; {
		removed, err := r.pass(ctx)
		if err == nil && removed == 0 {
			return nil
		}
		if err != nil {
			last = err
			r.Log.Error(err, "finalizers are removed again")
		}
		r.Log.Info("removed finalizers", "objects", removed)
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(r.Quiet):
		}
	}
}

// stop scales a Deployment to zero. One that does not exist is stopped.
func (r *Releaser) stop(ctx context.Context, name string) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
	err := r.Client.SubResource("scale").Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("stopping Deployment %s/%s: %w", r.Namespace, name, err)
	}
	return nil
}

// pass removes each finalizer once, and returns the number of objects that had one. An object that changes or is forbidden is an
// error, which does not keep others.
func (r *Releaser) pass(ctx context.Context) (removed int, _ error) {
	var errs []error
	for _, f := range r.Finalizers {
		list := &metav1.PartialObjectMetadataList{}
		for more := true; more; more = list.Continue != "" {
			from := list.Continue
			list = &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(f.Kind.GroupVersion().WithKind(f.Kind.Kind + "List"))
			err := r.Client.List(ctx, list, client.Limit(pageSize), client.Continue(from))
			if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // the kind does not exist
				break
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("listing objects of kind %s: %w", f.Kind.Kind, err))
				break
			}
			for i := range list.Items {
				object := &list.Items[i]
				if !slices.Contains(object.Finalizers, f.Name) {
					continue
				}
				removed++
				if err := r.remove(ctx, f, object); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}
	return removed, errors.Join(errs[:min(len(errs), maxErrors)]...)
}

// maxErrors bounds the errors of a pass.
const maxErrors = 10

// remove removes the finalizer from an object as it was read. One that changed has its turn in the next pass.
func (r *Releaser) remove(ctx context.Context, f Finalizer, object *metav1.PartialObjectMetadata) error {
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(name string) bool { return name == f.Name })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": left, "resourceVersion": object.ResourceVersion}})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	target.SetGroupVersionKind(f.Kind)
	err = r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the finalizer %s of %s %s/%s: %w", f.Name, f.Kind.Kind, object.Namespace, object.Name, err)
	}
	return nil
}
