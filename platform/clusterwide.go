package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/limits/watch"
)

// MaxClusterWide bounds the memory of all objects of one kind, in bytes, by the estimate of MaxCached. Objects beyond it
// are read when they are needed. Only admins write them.
const MaxClusterWide = 4 << 20

// clusterWide watches the objects of one kind.
type clusterWide struct {
	informer cache.SharedIndexInformer
	// absent is set while the API server says that the kind does not exist.
	absent atomic.Bool
	// budget bounds the memory that the objects take.
	budget *watch.Budget
}

// kept is an object of a watch.
type kept struct {
	metav1.ObjectMeta

	// object is nil if it exceeds the budget. It is read when it is needed then.
	object *unstructured.Unstructured
	cost   int64
}

// Cost implements watch.Sized.
func (k *kept) Cost() int64 { return k.cost }

func watchClusterWide(client dynamic.Interface, resource schema.GroupVersionResource) (*clusterWide, error) {
	w := &clusterWide{
		informer: cache.NewSharedIndexInformer(watch.ListWatch(client, client.Resource(resource), shrinkListed), &unstructured.Unstructured{}, 0, cache.Indexers{}),
		budget:   watch.NewBudget(MaxClusterWide),
	}
	exists := func(any) { w.absent.Store(false) } // a kind that sends events exists
	_, failedBudget := w.informer.AddEventHandler(w.budget.Handler())
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: exists, UpdateFunc: func(_, after any) { exists(after) }, DeleteFunc: exists,
	})
	err = errors.Join(failedBudget, err, w.informer.SetTransform(w.keep), w.informer.SetWatchErrorHandlerWithContext(
		func(ctx context.Context, reflector *cache.Reflector, err error) {
			w.absent.Store(apierrors.IsNotFound(err))
			if !apierrors.IsNotFound(err) {
				cache.DefaultWatchErrorHandler(ctx, reflector, err)
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	return w, nil
}

// keep is the transform of the informer.
func (w *clusterWide) keep(obj any) (any, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	shrink(object)
	k := &kept{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}, cost: costPerEntry}
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	if cost := k.cost + costPerByte*int64(len(raw)); len(raw) <= maxCachedObject && w.budget.Take(k.Name, cost) {
		k.object, k.cost = object, cost
	}
	return k, nil
}

// shrink removes the parts of an object that are never read.
func shrink(object *unstructured.Unstructured) {
	object.SetManagedFields(nil)
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
}

func shrinkListed(listed runtime.Object) {
	if object, ok := listed.(*unstructured.Unstructured); ok {
		shrink(object)
	}
}

// find returns an object of the watch. If known is false, the caller reads it from the API server.
func (w *clusterWide) find(resource schema.GroupResource, name string) (object *unstructured.Unstructured, known bool, err error) {
	if w.absent.Load() {
		return nil, true, apierrors.NewNotFound(resource, name)
	}
	if !w.informer.HasSynced() {
		return nil, false, nil
	}
	obj, exists, err := w.informer.GetStore().GetByKey(name)
	if err != nil {
		return nil, false, fmt.Errorf("reading %s %s from the watch: %w", resource, name, err)
	}
	if !exists {
		return nil, true, apierrors.NewNotFound(resource, name)
	}
	if k, ok := obj.(*kept); ok && k.object != nil {
		return k.object, true, nil
	}
	return nil, false, nil
}

func (w *clusterWide) ready() bool { return w.informer.HasSynced() || w.absent.Load() }
