package configcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/boundedwatch"
)

// configMapResource is the resource that may hold parameters of policies.
var configMapResource = corev1.SchemeGroupVersion.WithResource("configmaps")

// configMaps are those of a few namespaces, each of which is watched.
type configMaps struct {
	// namespaces are sorted.
	namespaces []string
	informers  map[string]cache.SharedIndexInformer
	budget     *boundedwatch.Budget
	// changed is called when one that is wanted did, or when a namespace can be read or cannot be.
	changed func()
	wanted  atomic.Pointer[map[types.NamespacedName]bool]

	mu sync.Mutex
	// refused says why a namespace cannot be read.
	refused map[string]error
}

// parameters are what a ConfigMap holds.
type parameters struct {
	data  map[string]string
	found bool
	// unreadable says why nobody can tell.
	unreadable error
}

func (p parameters) equal(other parameters) bool {
	return p.found == other.found && maps.Equal(p.data, other.data) && fmt.Sprint(p.unreadable) == fmt.Sprint(other.unreadable)
}

// kept is what the watch keeps of a ConfigMap.
type kept struct {
	metav1.ObjectMeta

	data map[string]string
	// cost is what it takes of the budget, in bytes; 0 if there is no room for its data.
	cost int64
}

// MaxParameters bounds the memory of all ConfigMaps that may hold parameters, in bytes.
const MaxParameters = 6 << 20

func newConfigMaps(client dynamic.Interface, namespaces []string, changed func()) (*configMaps, error) {
	c := &configMaps{
		budget:     boundedwatch.NewBudget(MaxParameters),
		namespaces: slices.Compact(slices.Sorted(slices.Values(namespaces))),
		informers:  map[string]cache.SharedIndexInformer{}, changed: changed, refused: map[string]error{},
	}
	for _, namespace := range c.namespaces {
		informer := cache.NewSharedIndexInformer(boundedwatch.ListWatch(client, client.Resource(configMapResource).Namespace(namespace), onlyData), &unstructured.Unstructured{}, 0, cache.Indexers{})
		_, failed := informer.AddEventHandler(c.budget.Handler(func(object any) int64 {
			if k, ok := object.(*kept); ok {
				return k.cost
			}
			return 0
		}))
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    c.notice,
			UpdateFunc: func(_, obj any) { c.notice(obj) },
			DeleteFunc: c.notice,
		})
		err = errors.Join(failed, err, informer.SetTransform(c.keep), informer.SetWatchErrorHandlerWithContext(
			func(ctx context.Context, r *cache.Reflector, err error) { c.failed(ctx, namespace, r, err) }))
		if err != nil {
			return nil, fmt.Errorf("watching the ConfigMaps of namespace %s: %w", namespace, err)
		}
		c.informers[namespace] = informer
	}
	return c, nil
}

// onlyData removes what is no parameter from a ConfigMap of a list.
func onlyData(listed runtime.Object) {
	if untyped, ok := listed.(*unstructured.Unstructured); ok {
		metadata := map[string]any{"name": untyped.GetName(), "namespace": untyped.GetNamespace(), "resourceVersion": untyped.GetResourceVersion()}
		untyped.Object = map[string]any{"metadata": metadata, "data": untyped.Object["data"]}
	}
}

// keep makes of a ConfigMap what the watch keeps.
func (c *configMaps) keep(object any) (any, error) {
	untyped, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	data, _, err := unstructured.NestedStringMap(untyped.Object, "data")
	if err != nil {
		return nil, err
	}
	k := &kept{ObjectMeta: metav1.ObjectMeta{Name: untyped.GetName(), Namespace: untyped.GetNamespace(), ResourceVersion: untyped.GetResourceVersion()}}
	if cost := costOfNamespace + sizeOf(data); c.budget.Take(k.Namespace+"/"+k.Name, cost) {
		k.data, k.cost = data, cost
	}
	return k, nil
}

// notice tells of a change if anybody wants to know.
func (c *configMaps) notice(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	changed, ok := obj.(*kept)
	wanted := c.wanted.Load()
	if !ok || wanted == nil || (*wanted)[types.NamespacedName{Namespace: changed.Namespace, Name: changed.Name}] {
		c.changed()
	}
}

// want says whose changes are to be told from now on: those that policies name.
func (c *configMaps) want(objects []policyRead) {
	wanted := map[types.NamespacedName]bool{}
	for i := range objects {
		if p := objects[i].Object.Spec.Params; p != nil && p.ConfigMap != nil {
			wanted[types.NamespacedName{Namespace: p.ConfigMap.Namespace, Name: p.ConfigMap.Name}] = true
		}
	}
	c.wanted.Store(&wanted)
}

// failed notices that we may not read a namespace: there is nothing to wait for then. What has been read before stays.
func (c *configMaps) failed(ctx context.Context, namespace string, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	if !apierrors.IsForbidden(err) || c.informers[namespace].HasSynced() {
		return
	}
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		err = status // without what the watch adds
	}
	c.refuse(namespace, err)
}

// refuse notes why a namespace cannot be read, or that it can be.
func (c *configMaps) refuse(namespace string, why error) {
	c.mu.Lock()
	before := c.refused[namespace]
	c.refused[namespace] = why
	c.mu.Unlock()
	if fmt.Sprint(before) != fmt.Sprint(why) {
		c.changed()
	}
}

func (c *configMaps) refusal(namespace string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused[namespace]
}

// unread says which namespace has not been read yet.
func (c *configMaps) unread() error {
	for _, namespace := range c.namespaces {
		if !c.informers[namespace].HasSynced() && c.refusal(namespace) == nil {
			return fmt.Errorf("the ConfigMaps of namespace %s have not been read yet", namespace)
		}
	}
	return nil
}

// find is what a ConfigMap holds. What is found is shared: do not change it.
func (c *configMaps) find(namespace, name string) parameters {
	informer := c.informers[namespace]
	if informer == nil {
		return parameters{unreadable: fmt.Errorf("ConfigMaps of namespace %s are not read, only those of %s: the value policies.paramsNamespaces of the chart lists the namespaces", namespace, strings.Join(c.namespaces, ", "))}
	}
	if err := c.refusal(namespace); err != nil {
		return parameters{unreadable: fmt.Errorf("the ConfigMaps of namespace %s cannot be read: %w", namespace, err)}
	}
	obj, _, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil {
		return parameters{unreadable: fmt.Errorf("reading ConfigMap %s/%s from the watch: %w", namespace, name, err)}
	}
	found, ok := obj.(*kept)
	if !ok {
		return parameters{}
	}
	if found.cost == 0 {
		return parameters{unreadable: fmt.Errorf("ConfigMap %s/%s is not read: the ConfigMaps of %s take more than %d MiB together. Delete some of them, then change this one",
			namespace, name, strings.Join(c.namespaces, ", "), MaxParameters>>20)}
	}
	return parameters{data: found.data, found: true}
}

// run watches until the context ends.
func (c *configMaps) run(ctx context.Context) {
	var watches sync.WaitGroup
	for _, namespace := range c.namespaces {
		watches.Go(func() { c.informers[namespace].RunWithContext(ctx) })
		watches.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), c.informers[namespace].HasSynced) {
				c.refuse(namespace, nil)
				c.changed()
			}
		})
	}
	watches.Wait()
}
