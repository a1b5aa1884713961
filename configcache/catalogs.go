package configcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/limits/watch"
)

// MaxClaims bounds the memory of the names that all GoldenImageCatalogs use, in bytes: of at least 20,000 images. Names beyond it are
// not compared at admission. The controller of golden images compares them.
const MaxClaims = 4 << 20

// Catalogs keeps the names that GoldenImageCatalogs use, and the architectures of the nodes. The statuses of catalogs have them, so
// that the webhooks need no permission to read nodes.
type Catalogs struct {
	informer cache.SharedIndexInformer
	absent   atomic.Bool
	budget   *watch.Budget
	common   []v1alpha1.DataImportCronTemplate
	// nodes are the architectures of the nodes, by the statuses of all catalogs.
	nodes atomic.Pointer[[]string]
}

// claimed is what the watch keeps of a catalog.
type claimed struct {
	metav1.ObjectMeta

	claims goldenimages.Claims
	// nodes are the architectures of nodes.
	nodes []string
	cost  int64
}

// Cost implements watch.Sized.
func (c *claimed) Cost() int64 { return c.cost }

// NewCatalogs prepares a watch. Catalogs with the common images also use their names.
func NewCatalogs(client dynamic.Interface, common []v1alpha1.DataImportCronTemplate) (*Catalogs, error) {
	resource := client.Resource(v1alpha1.GroupVersion.WithResource("goldenimagecatalogs"))
	c := &Catalogs{
		informer: cache.NewSharedIndexInformer(watch.ListWatch(client, resource, nil), &unstructured.Unstructured{}, 0, cache.Indexers{}),
		common:   common,
		budget:   watch.NewBudget(MaxClaims),
	}
	_, err := c.informer.AddEventHandler(c.budget.Handler())
	_, failed := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.collect() }, UpdateFunc: func(any, any) { c.collect() }, DeleteFunc: func(any) { c.collect() },
	})
	err = errors.Join(err, failed, c.informer.SetTransform(c.keep), c.informer.SetWatchErrorHandlerWithContext(
		func(ctx context.Context, reflector *cache.Reflector, err error) {
			c.absent.Store(apierrors.IsNotFound(err))
			if !apierrors.IsNotFound(err) {
				cache.DefaultWatchErrorHandler(ctx, reflector, err)
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("watching GoldenImageCatalogs: %w", err)
	}
	return c, nil
}

// keep is the transform of the informer.
func (c *Catalogs) keep(object any) (any, error) {
	untyped, isUntyped := object.(*unstructured.Unstructured)
	if !isUntyped {
		return object, nil
	}
	kept := &claimed{ObjectMeta: metav1.ObjectMeta{Name: untyped.GetName(), UID: untyped.GetUID(), ResourceVersion: untyped.GetResourceVersion()}, cost: 512}
	kept.nodes = nodesOf(untyped)
	unstructured.RemoveNestedField(untyped.Object, "status")
	unstructured.RemoveNestedField(untyped.Object, "metadata", "managedFields")
	catalog := &v1alpha1.GoldenImageCatalog{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, catalog); err != nil {
		return kept, nil //nolint:nilerr // such a catalog has no images
	}
	claims := goldenimages.ClaimsOf(catalog, c.common)
	if cost := kept.cost + claims.Size(); c.budget.Take(kept.Name, cost) {
		kept.claims, kept.cost = claims, cost
	}
	return kept, nil
}

// nodesOf returns the architectures of nodes that run virtual machines, of which there are three.
func nodesOf(catalog *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(catalog.Object, "status", "nodes", "workloadArchitectures")
	var nodes []string
	for i := range list {
		counted, isObject := list[i].(map[string]any)
		if !isObject {
			continue
		}
		architecture, _, _ := unstructured.NestedString(counted, "architecture")
		count, _, _ := unstructured.NestedInt64(counted, "nodes")
		if count > 0 && architectures.Known(architecture) && !slices.Contains(nodes, architecture) {
			nodes = append(nodes, architecture)
		}
	}
	return nodes
}

// collect collects the architectures of all catalogs.
func (c *Catalogs) collect() {
	var all []string
	for _, object := range c.informer.GetStore().List() {
		if kept, isKept := object.(*claimed); isKept {
			all = append(all, kept.nodes...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	c.nodes.Store(&all)
}

// NodeArchitectures returns the architectures of the nodes that run virtual machines, as the controller of golden images
// observed them; nil if it observed none.
func (c *Catalogs) NodeArchitectures() []string {
	if nodes := c.nodes.Load(); nodes != nil {
		return *nodes
	}
	return nil
}

// Run watches until the context ends.
func (c *Catalogs) Run(ctx context.Context) error {
	c.informer.RunWithContext(ctx)
	return nil
}

// Ready returns nil once the catalogs have been read, or their kind does not exist.
func (c *Catalogs) Ready() error {
	if c.informer.HasSynced() || c.absent.Load() {
		return nil
	}
	return errors.New("the GoldenImageCatalogs have not been read yet")
}

// Claims returns the names that catalogs use.
func (c *Catalogs) Claims() []goldenimages.Claims {
	var all []goldenimages.Claims
	for _, object := range c.informer.GetStore().List() {
		if kept, isKept := object.(*claimed); isKept && len(kept.claims.Names) > 0 {
			all = append(all, kept.claims)
		}
	}
	return all
}
