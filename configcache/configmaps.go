package configcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/limits/watch"
)

// configMapResource is the resource that may hold parameters of policies.
var configMapResource = corev1.SchemeGroupVersion.WithResource("configmaps")

// configMaps reads the ConfigMaps of a few namespaces, which are watched.
type configMaps struct {
	// namespaces are sorted.
	namespaces []string
	client     dynamic.Interface
	// informers keep names and versions only: the data is read when a policy names the ConfigMap.
	informers map[string]cache.SharedIndexInformer
	// changed is called when one that is wanted did, or when a namespace can be read or cannot be.
	changed func()

	mu sync.Mutex
	// rejected is why a namespace cannot be read.
	rejected map[string]error
	// wanted are those that policies name; nil until policies are known.
	wanted map[types.NamespacedName]bool
	// read are those among them that were read.
	read map[types.NamespacedName]configMapRead
	// retrying is set while a failed read waits to be repeated.
	retrying bool
}

// configMapRead is the data of a ConfigMap in a version.
type configMapRead struct {
	version string
	data    map[string]string
	cost    int64
}

// parameters are the data of a ConfigMap.
type parameters struct {
	data  map[string]string
	found bool
	// unreadable is why the ConfigMap cannot be read; nil if it can.
	unreadable error
}

func (p parameters) equal(other parameters) bool {
	return p.found == other.found && maps.Equal(p.data, other.data) && fmt.Sprint(p.unreadable) == fmt.Sprint(other.unreadable)
}

// MaxParameters bounds the memory of all ConfigMaps that policies name, in bytes. Policies that do not deny get at most
// half of it, so that they cannot use up the memory of the others.
const MaxParameters = 6 << 20

// A read of a ConfigMap, or of a policy, may take readTimeout. One that failed is repeated after readRetry.
const (
	readTimeout = 5 * time.Second
	readRetry   = 10 * time.Second
)

func newConfigMaps(client dynamic.Interface, namespaces []string, changed func()) (*configMaps, error) {
	c := &configMaps{
		client:     client,
		namespaces: slices.Compact(slices.Sorted(slices.Values(namespaces))),
		informers:  map[string]cache.SharedIndexInformer{}, changed: changed, rejected: map[string]error{}, read: map[types.NamespacedName]configMapRead{},
	}
	for _, namespace := range c.namespaces {
		informer := cache.NewSharedIndexInformer(watch.ListWatch(client, client.Resource(configMapResource).Namespace(namespace), onlyName), &unstructured.Unstructured{}, 0, cache.Indexers{})
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    c.notice,
			UpdateFunc: func(_, obj any) { c.notice(obj) },
			DeleteFunc: c.notice,
		})
		err = errors.Join(err, informer.SetTransform(nameOf), informer.SetWatchErrorHandlerWithContext(
			func(ctx context.Context, r *cache.Reflector, err error) { c.failed(ctx, namespace, r, err) }))
		if err != nil {
			return nil, fmt.Errorf("watching the ConfigMaps of namespace %s: %w", namespace, err)
		}
		c.informers[namespace] = informer
	}
	return c, nil
}

// onlyName removes everything but its name and version from a ConfigMap of a list.
func onlyName(listed runtime.Object) {
	if untyped, ok := listed.(*unstructured.Unstructured); ok {
		untyped.Object = map[string]any{"metadata": map[string]any{
			"name": untyped.GetName(), "namespace": untyped.GetNamespace(), "resourceVersion": untyped.GetResourceVersion(),
		}}
	}
}

// nameOf is what the watch keeps of a ConfigMap.
func nameOf(object any) (any, error) {
	untyped, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	return &metav1.ObjectMeta{Name: untyped.GetName(), Namespace: untyped.GetNamespace(), ResourceVersion: untyped.GetResourceVersion()}, nil
}

// notice reports a change of a ConfigMap that is wanted.
func (c *configMaps) notice(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	changed, ok := obj.(*metav1.ObjectMeta)
	c.mu.Lock()
	matters := !ok || c.wanted == nil || c.wanted[types.NamespacedName{Namespace: changed.Namespace, Name: changed.Name}]
	c.mu.Unlock()
	if matters {
		c.changed()
	}
}

// want sets the ConfigMaps that policies name. The data of others is dropped.
func (c *configMaps) want(objects []policyRead) {
	wanted := map[types.NamespacedName]bool{}
	for i := range objects {
		if p := objects[i].Object.Spec.Params; p != nil && p.ConfigMap != nil {
			wanted[types.NamespacedName{Namespace: p.ConfigMap.Namespace, Name: p.ConfigMap.Name}] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = wanted
	maps.DeleteFunc(c.read, func(key types.NamespacedName, _ configMapRead) bool { return !wanted[key] })
}

// failed notes that a namespace cannot be read, so that nothing waits for it. Data that has been read stays.
func (c *configMaps) failed(ctx context.Context, namespace string, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	if !apierrors.IsForbidden(err) || c.informers[namespace].HasSynced() {
		return
	}
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		err = status // without what the watch adds
	}
	c.reject(namespace, err)
}

// reject notes why a namespace cannot be read, or that it can be.
func (c *configMaps) reject(namespace string, why error) {
	c.mu.Lock()
	before := c.rejected[namespace]
	c.rejected[namespace] = why
	c.mu.Unlock()
	if fmt.Sprint(before) != fmt.Sprint(why) {
		c.changed()
	}
}

func (c *configMaps) rejection(namespace string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected[namespace]
}

// unread returns an error if a namespace has not been read yet.
func (c *configMaps) unread() error {
	for _, namespace := range c.namespaces {
		if !c.informers[namespace].HasSynced() && c.rejection(namespace) == nil {
			return fmt.Errorf("the ConfigMaps of namespace %s have not been read yet", namespace)
		}
	}
	return nil
}

// find returns the data of a ConfigMap, for a policy that denies or one that does not. The data is shared: do not change
// it.
func (c *configMaps) find(namespace, name string, denies bool) parameters {
	informer := c.informers[namespace]
	if informer == nil {
		return parameters{unreadable: fmt.Errorf("ConfigMaps of namespace %s are not read, only those of %s: the value policies.paramsNamespaces of the chart lists the namespaces", namespace, strings.Join(c.namespaces, ", "))}
	}
	if err := c.rejection(namespace); err != nil {
		return parameters{unreadable: fmt.Errorf("the ConfigMaps of namespace %s cannot be read: %w", namespace, err)}
	}
	obj, _, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil {
		return parameters{unreadable: fmt.Errorf("reading ConfigMap %s/%s from the watch: %w", namespace, name, err)}
	}
	stored, ok := obj.(*metav1.ObjectMeta)
	if !ok {
		return parameters{}
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.mu.Lock()
	known, read := c.read[key]
	c.mu.Unlock()
	if read && known.version == stored.ResourceVersion {
		return parameters{data: known.data, found: true}
	}
	return c.get(key, denies)
}

// get reads a ConfigMap from the API server, and keeps its data if a policy names it.
func (c *configMaps) get(key types.NamespacedName, denies bool) parameters {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	object, err := c.client.Resource(configMapResource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return parameters{}
	}
	var data map[string]string
	if err == nil {
		data, _, err = unstructured.NestedStringMap(object.Object, "data")
	}
	if err != nil {
		c.retry()
		return parameters{unreadable: fmt.Errorf("reading ConfigMap %s: %w", key, err)}
	}
	limit, total := int64(MaxParameters), costOfObject+sizeOf(data)
	if !denies {
		limit /= 2
	}
	read := configMapRead{version: object.GetResourceVersion(), data: data, cost: total}
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, known := range c.read {
		if other != key {
			total += known.cost
		}
	}
	if total > limit {
		delete(c.read, key)
		return parameters{unreadable: fmt.Errorf("ConfigMap %s is not read: the ConfigMaps that policies name need more than %d MiB together", key, limit>>20)}
	}
	if c.wanted[key] {
		c.read[key] = read
	}
	return parameters{data: data, found: true}
}

// retry reports a change later, so that a failed read is repeated.
func (c *configMaps) retry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retrying {
		return
	}
	c.retrying = true
	time.AfterFunc(readRetry, func() {
		c.mu.Lock()
		c.retrying = false
		c.mu.Unlock()
		c.changed()
	})
}

// run watches until the context ends.
func (c *configMaps) run(ctx context.Context) {
	var watches sync.WaitGroup
	for _, namespace := range c.namespaces {
		watches.Go(func() { c.informers[namespace].RunWithContext(ctx) })
		watches.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), c.informers[namespace].HasSynced) {
				c.reject(namespace, nil)
				c.changed()
			}
		})
	}
	watches.Wait()
}
