package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Bounds of what is kept of the cluster-wide kinds that virtual machines point at. Only admins write them.
const (
	// MaxClusterWide bounds the memory of all objects of one kind, by the estimate of MaxRemembered. What is beyond is
	// read when it is needed.
	MaxClusterWide = 4 << 20
	// pageSize is how many objects a first list decodes at once.
	pageSize = 50
)

// clusterWide keeps the objects of one kind by watching them.
type clusterWide struct {
	informer cache.SharedIndexInformer
	// absent is set while the API server says that the kind does not exist.
	absent atomic.Bool
	// cost is the memory that the objects take.
	cost atomic.Int64
}

// kept is an object of a watch.
type kept struct {
	metav1.ObjectMeta

	// object is nil if it is not kept; it is read when it is needed then.
	object *unstructured.Unstructured
	cost   int64
}

func watchClusterWide(client dynamic.Interface, resource schema.GroupVersionResource) (*clusterWide, error) {
	w := &clusterWide{informer: cache.NewSharedIndexInformer(pagedListWatch(client.Resource(resource), shrink), &unstructured.Unstructured{}, 0, cache.Indexers{})}
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { w.changed(nil, added) },
		UpdateFunc: w.changed,
		DeleteFunc: func(gone any) { w.changed(gone, nil) },
	})
	err = errors.Join(err, w.informer.SetTransform(w.keep), w.informer.SetWatchErrorHandlerWithContext(
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

// keep makes of an object what the watch keeps.
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
	if cost := costPerByte * int64(len(raw)); len(raw) <= largestRemembered && w.cost.Load()+cost <= MaxClusterWide {
		k.object, k.cost = object, k.cost+cost
	}
	return k, nil
}

// shrink takes from an object what nobody asks for.
func shrink(object *unstructured.Unstructured) {
	object.SetManagedFields(nil)
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
}

func (w *clusterWide) changed(before, after any) {
	w.absent.Store(false) // whoever sends events exists
	if gone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = gone.Obj
	}
	if k, ok := before.(*kept); ok {
		w.cost.Add(-k.cost)
	}
	if k, ok := after.(*kept); ok {
		w.cost.Add(k.cost)
	}
}

// find is an object; known tells that the watch knows about it: it exists, is not kept (nil), or does not exist.
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

// pagedListWatch lists objects page by page, and shrinks each page before it asks for the next one: a list as a whole
// could take any amount of memory.
func pagedListWatch(client dynamic.ResourceInterface, shrink func(*unstructured.Unstructured)) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return PagedList(ctx, options, func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
				page, err := client.List(ctx, options)
				if err != nil {
					return nil, err
				}
				for i := range page.Items {
					shrink(&page.Items[i])
				}
				return page, nil
			})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}
}

// PagedList lists everything in pages, from the start again if a page comes too late.
func PagedList[List interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, options metav1.ListOptions, page func(context.Context, metav1.ListOptions) (List, error)) (List, error) {
	var none List
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = pageSize, "", ""
	first, err := page(ctx, options)
	if err != nil {
		return none, err
	}
	items, err := meta.ExtractList(first)
	if err != nil {
		return none, err
	}
	for next := first.GetContinue(); next != ""; {
		options.Continue = next
		more, err := page(ctx, options)
		if err != nil {
			return none, err
		}
		found, err := meta.ExtractList(more)
		if err != nil {
			return none, err
		}
		items, next = append(items, found...), more.GetContinue()
		first.SetResourceVersion(more.GetResourceVersion())
	}
	first.SetContinue("")
	first.SetRemainingItemCount(nil)
	return first, meta.SetList(first, items)
}
