package platform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/apikinds"
)

// readable describes how the objects of a kind are read.
type readable struct {
	schema.GroupVersionResource

	// clusterWide kinds have no namespace.
	clusterWide bool
	// watched kinds are read from a watch. They are cluster-wide, and only admins write them.
	watched bool
	// older is a version for clusters that do not serve the one of the resource; empty for none.
	older string
	// large kinds have objects of up to the API server's limit.
	large bool
	// reference kinds have objects of up to MaxReference.
	reference bool
	// metadata kinds are read without their content.
	metadata bool
	// immutable kinds have objects that never change.
	immutable bool
}

// resources has the kinds that a virtual machine can refer to, those that make or change it for a user, and the guards of these.
var resources = withMachines(map[schema.GroupKind]readable{
	apikinds.Instancetypes.GroupKind():          {GroupVersionResource: apikinds.Instancetypes.GroupVersionResource(), reference: true},
	apikinds.ClusterInstancetypes.GroupKind():   {GroupVersionResource: apikinds.ClusterInstancetypes.GroupVersionResource(), clusterWide: true, watched: true, reference: true},
	apikinds.Preferences.GroupKind():            {GroupVersionResource: apikinds.Preferences.GroupVersionResource(), reference: true},
	apikinds.ClusterPreferences.GroupKind():     {GroupVersionResource: apikinds.ClusterPreferences.GroupVersionResource(), clusterWide: true, watched: true, reference: true},
	apikinds.Presets.GroupKind():                {GroupVersionResource: apikinds.Presets.GroupVersionResource(), reference: true},
	apikinds.DataSources.GroupKind():            {GroupVersionResource: apikinds.DataSources.GroupVersionResource()},
	apikinds.VirtualImages.GroupKind():          {GroupVersionResource: apikinds.VirtualImages.GroupVersionResource()},
	apikinds.DataVolumes.GroupKind():            {GroupVersionResource: apikinds.DataVolumes.GroupVersionResource()},
	apikinds.PersistentVolumeClaims.GroupKind(): {GroupVersionResource: apikinds.PersistentVolumeClaims.GroupVersionResource()},
	apikinds.ResourceQuotas.GroupKind():         {GroupVersionResource: apikinds.ResourceQuotas.GroupVersionResource()},
	apikinds.StorageClasses.GroupKind():         {GroupVersionResource: apikinds.StorageClasses.GroupVersionResource(), clusterWide: true},
	apikinds.NetworkAttachments.GroupKind():     {GroupVersionResource: apikinds.NetworkAttachments.GroupVersionResource()},
	apikinds.ConfigMaps.GroupKind():             {GroupVersionResource: apikinds.ConfigMaps.GroupVersionResource(), metadata: true},
	apikinds.VolumeSnapshots.GroupKind():        {GroupVersionResource: apikinds.VolumeSnapshots.GroupVersionResource()},
	apikinds.Snapshots.GroupKind():              {GroupVersionResource: apikinds.Snapshots.GroupVersionResource()},
	apikinds.SnapshotContents.GroupKind():       {GroupVersionResource: apikinds.SnapshotContents.GroupVersionResource(), large: true},
	apikinds.Restores.GroupKind():               {GroupVersionResource: apikinds.Restores.GroupVersionResource()},
	apikinds.Clones.GroupKind():                 {GroupVersionResource: apikinds.Clones.GroupVersionResource()},
	apikinds.AdmissionPolicies.GroupKind():      {GroupVersionResource: apikinds.AdmissionPolicies.GroupVersionResource(), clusterWide: true},
	apikinds.AdmissionBindings.GroupKind():      {GroupVersionResource: apikinds.AdmissionBindings.GroupVersionResource(), clusterWide: true},
	apikinds.Rollouts.GroupKind():               {GroupVersionResource: apikinds.Rollouts.GroupVersionResource()},
	apikinds.ControllerRevisions.GroupKind():    {GroupVersionResource: apikinds.ControllerRevisions.GroupVersionResource(), immutable: true},
})

// withMachines adds the kinds that are virtual machines or from which KubeVirt makes them.
func withMachines(all map[schema.GroupKind]readable) map[schema.GroupKind]readable {
	machines := apikinds.MachineKinds(func(m *apikinds.Machine) bool { return !m.Parameters })
	for i := range machines {
		m := &machines[i]
		all[m.GroupKind()] = readable{GroupVersionResource: m.GroupVersionResource(), older: m.Older, large: true}
	}
	return all
}

// IsClusterWide reports whether objects of a kind have no namespace.
func IsClusterWide(kind schema.GroupKind) bool { return resources[kind].clusterWide }

// CanExist reports whether an object of a kind can have a namespace and a name. Users write both. For a path that is not that
// of an object, the API server answers as for a kind that it does not serve.
func CanExist(kind schema.GroupKind, namespace, name string) bool {
	return len(validation.IsDNS1123Subdomain(name)) == 0 && (IsClusterWide(kind) || len(validation.IsDNS1123Label(namespace)) == 0)
}

// Objects reads the objects that virtual machines refer to. Cluster-wide kinds, which only admins write, are read from
// watches. Other objects are read when they are needed, bounded before they are decoded, and cached for a moment. A watch
// of them would keep the objects of all users in memory.
type Objects struct {
	reader  *reader
	shares  readShares
	watches map[schema.GroupKind]*clusterWide
	cache   *objectCache
}

// NewObjects returns Objects without watches, for programs that run for a short time.
func NewObjects(config *rest.Config) (*Objects, error) {
	reader, err := newReader(config)
	if err != nil {
		return nil, err
	}
	return &Objects{reader: reader, shares: newReadShares(), cache: newObjectCache(MaxCached, clock.RealClock{})}, nil
}

// NewWatchedObjects returns Objects with watches of the cluster-wide kinds. They are used once Run has synced them.
func NewWatchedObjects(config *rest.Config) (*Objects, error) {
	o, err := NewObjects(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	o.watches = map[schema.GroupKind]*clusterWide{}
	for kind, r := range resources {
		if !r.watched {
			continue
		}
		if o.watches[kind], err = watchClusterWide(client, r.GroupVersionResource); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Run watches until the context ends.
func (o *Objects) Run(ctx context.Context) error {
	for _, w := range o.watches {
		go w.informer.RunWithContext(ctx)
	}
	<-ctx.Done()
	return nil
}

// Ready returns nil once every watch has synced or its kind does not exist.
func (o *Objects) Ready() error {
	var behind []string
	for kind, w := range o.watches {
		if !w.ready() {
			behind = append(behind, kind.String())
		}
	}
	if len(behind) == 0 {
		return nil
	}
	slices.Sort(behind)
	return fmt.Errorf("the watches of %s have not synced yet", strings.Join(behind, ", "))
}

// ReserveReads bounds the reads of one request. Until end is called, its reads reserve memory of all requests, and of those of
// its namespace.
func (o *Objects) ReserveReads(ctx context.Context, namespace string) (_ context.Context, end func()) {
	return begin(ctx, o.shares, namespace)
}

// ReserveReads is Objects.ReserveReads, for what reads objects through others. If it is nil, the reads have no bound.
type ReserveReads func(ctx context.Context, namespace string) (_ context.Context, end func())

// Begin bounds the reads of one request, until end is called.
func (r ReserveReads) Begin(ctx context.Context, namespace string) (_ context.Context, end func()) {
	if r == nil {
		return ctx, func() {}
	}
	return r(ctx, namespace)
}

// Statistics returns the counts of reads, and the size of the cache.
func (o *Objects) Statistics() CacheStats { return o.cache.statistics() }

// Get reads one object. The error is NotFound if the object or its kind does not exist, and ErrTooLarge if it is too
// large. The object is shared: do not change it.
func (o *Objects) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	kind := gvk.GroupKind()
	r, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("reading %s %s: virtual machines do not refer to this kind", kind, name)
	}
	if w := o.watches[kind]; w != nil {
		if found, known, err := w.find(r.GroupResource(), name); known || err != nil {
			return found, err
		}
	}
	if o.isAbsent(r) || !CanExist(kind, namespace, name) {
		return nil, apierrors.NewNotFound(r.GroupResource(), name)
	}
	key := strings.Join([]string{r.Group, r.Resource, namespace, name}, "/")
	switch found, _ := o.cache.get(key); found := found.(type) {
	case *unstructured.Unstructured:
		return found, nil
	case error:
		return nil, found
	}
	bytes := int64(reserveSmall)
	if r.large {
		bytes = reserveLarge
	}
	done, err := reserve(ctx, o.shares, bytes)
	if err != nil {
		return nil, o.failed(r, key, err)
	}
	defer done()
	answer, evaluated := r.bounds()
	object, size, err := o.reader.object(ctx, r.GroupVersionResource, namespace, name, answer, evaluated, r.metadata)
	if r.older != "" && notServed(err) {
		object, size, err = o.reader.object(ctx, r.GroupResource().WithVersion(r.older), namespace, name, answer, evaluated, r.metadata)
	}
	if err != nil {
		return nil, o.failed(r, key, err)
	}
	o.cache.add(key, object, size, ttl(r))
	return object, nil
}

// bounds returns the limits of an object, in bytes of JSON: of the response, and of its evaluated part.
func (r *readable) bounds() (answer, evaluated int64) {
	switch {
	case r.large:
		return maxLarge, maxLarge
	case r.reference:
		return maxSmall, MaxReference
	}
	return maxSmall, maxSmall
}

func ttl(r readable) time.Duration {
	if r.immutable {
		return immutableTTL
	}
	return objectTTL
}

// failed caches that an object is too large, or that its kind does not exist.
func (o *Objects) failed(r readable, key string, err error) error {
	o.cache.failed(err)
	switch {
	case errors.Is(err, ErrTooLarge):
		o.cache.add(key, ErrTooLarge, 0, tooLargeTTL)
	case notServed(err):
		o.cache.add(absentKey(r), struct{}{}, 0, absentTTL)
	}
	return err
}

func absentKey(r readable) string { return "absent/" + r.Group + "/" + r.Resource }

func (o *Objects) isAbsent(r readable) bool {
	_, absent := o.cache.get(absentKey(r))
	return absent
}

// notServed reports whether an error says that the API server does not serve a kind, not that an object is missing.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// List reads the objects of a kind in a namespace, sorted by name. A kind that does not exist has none. The error is
// ErrTooLarge if there are more than maxListed, or if they are too large.
func (o *Objects) List(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	kind := gvk.GroupKind()
	r, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("listing %s: virtual machines do not refer to this kind", kind)
	}
	if o.isAbsent(r) {
		return nil, nil
	}
	key := strings.Join([]string{"list", r.Group, r.Resource, namespace}, "/")
	switch found, _ := o.cache.get(key); found := found.(type) {
	case []*unstructured.Unstructured:
		return found, nil
	case error:
		return nil, found
	}
	done, err := reserve(ctx, o.shares, reserveSmall)
	if err != nil {
		return nil, o.failed(r, key, err)
	}
	defer done()
	list, size, err := o.reader.list(ctx, r.GroupVersionResource, namespace, maxListed)
	if err != nil {
		if err := o.failed(r, key, err); !apierrors.IsNotFound(err) {
			return nil, err
		}
		return nil, nil
	}
	if list.GetContinue() != "" {
		return nil, o.failed(r, key, ErrTooLarge)
	}
	found := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	o.cache.add(key, found, size, objectTTL)
	return found, nil
}
