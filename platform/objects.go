package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// resources are the kinds that a virtual machine may point at, and how they are read.
var resources = map[schema.GroupKind]struct {
	schema.GroupVersionResource
	cached bool
}{
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachineInstancetype"}:        {gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachineinstancetypes"), true},
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachineClusterInstancetype"}: {gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachineclusterinstancetypes"), true},
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachinePreference"}:          {gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachinepreferences"), true},
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachineClusterPreference"}:   {gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachineclusterpreferences"), true},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstancePreset"}:                   {gvr("kubevirt.io", "v1", "virtualmachineinstancepresets"), true},
	{Group: "cdi.kubevirt.io", Kind: "DataSource"}:                                 {gvr("cdi.kubevirt.io", "v1beta1", "datasources"), true},
	{Group: "cdi.kubevirt.io", Kind: "DataVolume"}:                                 {gvr("cdi.kubevirt.io", "v1beta1", "datavolumes"), false},
	{Group: "", Kind: "PersistentVolumeClaim"}:                                     {gvr("", "v1", "persistentvolumeclaims"), false},
	{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}:                     {gvr("snapshot.storage.k8s.io", "v1", "volumesnapshots"), false},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstance"}:                         {gvr("kubevirt.io", "v1", "virtualmachineinstances"), false},
	{Group: "apps", Kind: "ControllerRevision"}:                                    {gvr("apps", "v1", "controllerrevisions"), false},
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// Bounds of the ControllerRevisions that are remembered; they are immutable and a few kB each.
const (
	revisionsKept    = 256
	revisionsKeptFor = 10 * time.Minute
	largestRevision  = 64 << 10
)

// Objects reads what a virtual machine points at. The kinds that many VMs share are answered from watches;
// the others are read when they are needed. ControllerRevisions are never watched, because a cluster holds
// many that are not ours, and are remembered instead, because they cannot change.
type Objects struct {
	client    dynamic.Interface
	informers map[schema.GroupKind]watched
	revisions *expiring.LRUExpireCache
}

type watched struct {
	informer cache.SharedIndexInformer
	// absent is set while the API server says that the kind does not exist.
	absent *atomic.Bool
}

// NewObjects reads everything when it is asked for; nothing is watched. For short-lived programs.
func NewObjects(client dynamic.Interface) *Objects {
	return &Objects{client: client, revisions: expiring.NewLRUExpireCache(revisionsKept)}
}

// NewWatchedObjects answers the shared kinds from watches, once Run has been called and they have caught up.
func NewWatchedObjects(client dynamic.Interface) (*Objects, error) {
	o := NewObjects(client)
	o.informers = map[schema.GroupKind]watched{}
	for kind, r := range resources {
		if !r.cached {
			continue
		}
		w := watched{
			informer: dynamicinformer.NewFilteredDynamicInformer(client, r.GroupVersionResource, "", 0,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer(),
			absent: &atomic.Bool{},
		}
		if err := w.informer.SetTransform(withoutManagedFields); err != nil {
			return nil, fmt.Errorf("watching %s: %w", r.Resource, err)
		}
		err := w.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			w.absent.Store(apierrors.IsNotFound(err))
			if apierrors.IsNotFound(err) {
				return
			}
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		})
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", r.Resource, err)
		}
		back := func(any) { w.absent.Store(false) } // whoever sends events exists
		if _, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: back, UpdateFunc: func(_, obj any) { back(obj) }}); err != nil {
			return nil, fmt.Errorf("watching %s: %w", r.Resource, err)
		}
		o.informers[kind] = w
	}
	return o, nil
}

func withoutManagedFields(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	}
	return obj, nil
}

// Run watches until the context ends.
func (o *Objects) Run(ctx context.Context) error {
	for _, w := range o.informers {
		go w.informer.RunWithContext(ctx)
	}
	<-ctx.Done()
	return nil
}

// Ready returns nil once every watch has caught up or its kind turned out not to exist.
func (o *Objects) Ready() error {
	var behind []string
	for kind, w := range o.informers {
		if !w.informer.HasSynced() && !w.absent.Load() {
			behind = append(behind, kind.String())
		}
	}
	if len(behind) == 0 {
		return nil
	}
	slices.Sort(behind)
	return fmt.Errorf("the watches of %s have not caught up yet", strings.Join(behind, ", "))
}

// Get reads one object. What does not exist, its kind included, is a NotFound error. The object is shared:
// do not change it.
func (o *Objects) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	kind := gvk.GroupKind()
	r, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("reading %s %s: virtual machines do not point at this kind", kind, name)
	}
	if w, ok := o.informers[kind]; ok {
		switch {
		case w.absent.Load():
			return nil, apierrors.NewNotFound(r.GroupResource(), name)
		case w.informer.HasSynced():
			return fromStore(w.informer, r.GroupResource(), namespace, name)
		}
	}
	key := namespace + "/" + name
	revision := kind.Kind == "ControllerRevision"
	if revision {
		if cached, ok := o.revisions.Get(key); ok {
			return cached.(*unstructured.Unstructured), nil
		}
	}
	obj, err := o.client.Resource(r.GroupVersionResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if revision {
		o.remember(key, obj)
	}
	return obj, nil
}

// remember keeps a revision for a while, unless it is larger than an instancetype or a preference ever is. Its
// name may come back with another content, when a VM is deleted and made anew.
func (o *Objects) remember(key string, revision *unstructured.Unstructured) {
	revision.SetManagedFields(nil)
	if data, err := revision.MarshalJSON(); err == nil && len(data) <= largestRevision {
		o.revisions.Add(key, revision, revisionsKeptFor)
	}
}

func fromStore(informer cache.SharedIndexInformer, resource schema.GroupResource, namespace, name string) (*unstructured.Unstructured, error) {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	obj, exists, err := informer.GetStore().GetByKey(key)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s from the watch: %w", resource, key, err)
	}
	if !exists {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return obj.(*unstructured.Unstructured), nil
}

// List reads all objects of a kind in a namespace, sorted by name. A kind that does not exist has none.
func (o *Objects) List(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	kind := gvk.GroupKind()
	r, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("listing %s: virtual machines do not point at this kind", kind)
	}
	var found []*unstructured.Unstructured
	if w, ok := o.informers[kind]; ok && w.informer.HasSynced() {
		objects, err := w.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		if err != nil {
			return nil, fmt.Errorf("listing %s from the watch: %w", r.Resource, err)
		}
		for _, obj := range objects {
			found = append(found, obj.(*unstructured.Unstructured))
		}
	} else if !ok || !w.absent.Load() {
		list, err := o.client.Resource(r.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return found, nil
}
