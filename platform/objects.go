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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// readable is how the objects of a kind are read.
type readable struct {
	schema.GroupVersionResource

	// watched tells of a cluster-wide kind, which only admins write, that it is answered from a watch.
	watched bool
	// large tells that an object of the kind may be as large as the API server lets it be.
	large bool
	// reference tells of a kind of small objects, by MaxReference.
	reference bool
	// immutable tells that an object of the kind never changes.
	immutable bool
}

// resources are the kinds that a virtual machine may point at.
var resources = map[schema.GroupKind]readable{
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachineInstancetype"}:        {GroupVersionResource: gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachineinstancetypes"), reference: true},
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachineClusterInstancetype"}: {GroupVersionResource: gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachineclusterinstancetypes"), watched: true, reference: true},
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachinePreference"}:          {GroupVersionResource: gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachinepreferences"), reference: true},
	{Group: "instancetype.kubevirt.io", Kind: "VirtualMachineClusterPreference"}:   {GroupVersionResource: gvr("instancetype.kubevirt.io", "v1beta1", "virtualmachineclusterpreferences"), watched: true, reference: true},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstancePreset"}:                   {GroupVersionResource: gvr("kubevirt.io", "v1", "virtualmachineinstancepresets"), reference: true},
	{Group: "cdi.kubevirt.io", Kind: "DataSource"}:                                 {GroupVersionResource: gvr("cdi.kubevirt.io", "v1beta1", "datasources")},
	{Group: "cdi.kubevirt.io", Kind: "DataVolume"}:                                 {GroupVersionResource: gvr("cdi.kubevirt.io", "v1beta1", "datavolumes")},
	{Group: "", Kind: "PersistentVolumeClaim"}:                                     {GroupVersionResource: gvr("", "v1", "persistentvolumeclaims")},
	{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}:                     {GroupVersionResource: gvr("snapshot.storage.k8s.io", "v1", "volumesnapshots")},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstance"}:                         {GroupVersionResource: gvr("kubevirt.io", "v1", "virtualmachineinstances"), large: true},
	{Group: "kubevirt.io", Kind: "VirtualMachine"}:                                 {GroupVersionResource: gvr("kubevirt.io", "v1", "virtualmachines"), large: true},
	{Group: "kubevirt.io", Kind: "VirtualMachineInstanceReplicaSet"}:               {GroupVersionResource: gvr("kubevirt.io", "v1", "virtualmachineinstancereplicasets"), large: true},
	{Group: "pool.kubevirt.io", Kind: "VirtualMachinePool"}:                        {GroupVersionResource: gvr("pool.kubevirt.io", "v1beta1", "virtualmachinepools"), large: true},
	{Group: "snapshot.kubevirt.io", Kind: "VirtualMachineSnapshot"}:                {GroupVersionResource: gvr("snapshot.kubevirt.io", "v1beta1", "virtualmachinesnapshots")},
	{Group: "snapshot.kubevirt.io", Kind: "VirtualMachineSnapshotContent"}:         {GroupVersionResource: gvr("snapshot.kubevirt.io", "v1beta1", "virtualmachinesnapshotcontents"), large: true},
	{Group: "apps", Kind: "ControllerRevision"}:                                    {GroupVersionResource: gvr("apps", "v1", "controllerrevisions"), immutable: true},
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// Objects reads what a virtual machine points at. Cluster-wide kinds, which only admins write, are answered from watches.
// Those that users write are read when they are needed, each of them bounded before it is decoded, and remembered for a
// moment: a watch would hold whatever the users of all namespaces wrote.
type Objects struct {
	reader     *reader
	shares     *Shares
	watches    map[schema.GroupKind]*clusterWide
	remembered *remembered
}

// NewObjects reads everything when it is asked for; nothing is watched. For short-lived programs.
func NewObjects(config *rest.Config) (*Objects, error) {
	reader, err := newReader(config)
	if err != nil {
		return nil, err
	}
	return &Objects{reader: reader, shares: NewShares(MaxReads), remembered: newRemembered(MaxRemembered, clock.RealClock{})}, nil
}

// NewWatchedObjects answers cluster-wide kinds from watches, once Run has been called and they have caught up.
func NewWatchedObjects(config *rest.Config) (*Objects, error) {
	o, err := NewObjects(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
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

// Ready returns nil once every watch has caught up or its kind turned out not to exist.
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
	return fmt.Errorf("the watches of %s have not caught up yet", strings.Join(behind, ", "))
}

// Begin prepares for the reads of one request about a namespace. Until it ends, what it reads counts against the bounds
// of all requests, and of those about its namespace.
func (o *Objects) Begin(ctx context.Context, namespace string) (_ context.Context, end func()) {
	return begin(ctx, o.shares, namespace)
}

// Statistics tell what has become of reads, and what is remembered of them.
func (o *Objects) Statistics() RememberedStats { return o.remembered.statistics() }

// Get reads one object. What does not exist, its kind included, is a NotFound error; what is too large, ErrTooLarge. The
// object is shared: do not change it.
func (o *Objects) Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	kind := gvk.GroupKind()
	r, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("reading %s %s: virtual machines do not point at this kind", kind, name)
	}
	if w := o.watches[kind]; w != nil {
		if found, known, err := w.find(r.GroupResource(), name); known || err != nil {
			return found, err
		}
	}
	if o.isAbsent(r) {
		return nil, apierrors.NewNotFound(r.GroupResource(), name)
	}
	key := strings.Join([]string{r.Group, r.Resource, namespace, name}, "/")
	switch found, _ := o.remembered.get(key); found := found.(type) {
	case *unstructured.Unstructured:
		return found, nil
	case error:
		return nil, found
	}
	bytes := int64(heldSmall)
	if r.large {
		bytes = heldLarge
	}
	done, err := hold(ctx, o.shares, bytes)
	if err != nil {
		return nil, o.failed(r, key, err)
	}
	defer done()
	answer, evaluated := r.bounds()
	object, size, err := o.reader.object(ctx, r.GroupVersionResource, namespace, name, answer, evaluated)
	if err != nil {
		return nil, o.failed(r, key, err)
	}
	o.remembered.add(key, object, size, lasting(r))
	return object, nil
}

// bounds are those of the JSON of an object, and of what of it is evaluated.
func (r *readable) bounds() (answer, evaluated int64) {
	switch {
	case r.large:
		return maxLarge, maxLarge
	case r.reference:
		return maxSmall, MaxReference
	}
	return maxSmall, maxSmall
}

func lasting(r readable) time.Duration {
	if r.immutable {
		return long
	}
	return recently
}

// failed notes what an error says about a kind, or about what was read: what is too large is not read again and again.
func (o *Objects) failed(r readable, key string, err error) error {
	o.remembered.failed(err)
	switch {
	case errors.Is(err, ErrTooLarge):
		o.remembered.add(key, ErrTooLarge, 0, tooLargeFor)
	case notServed(err):
		o.remembered.add(absentKey(r), struct{}{}, 0, absentFor)
	}
	return err
}

func absentKey(r readable) string { return "absent/" + r.Group + "/" + r.Resource }

func (o *Objects) isAbsent(r readable) bool {
	_, absent := o.remembered.get(absentKey(r))
	return absent
}

// notServed tells the error about a kind that the API server does not have from that about an object, which it describes.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// List reads the objects of a kind in a namespace, sorted by name. A kind that does not exist has none; more than
// maxListed, or too large ones, are ErrTooLarge.
func (o *Objects) List(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	kind := gvk.GroupKind()
	r, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("listing %s: virtual machines do not point at this kind", kind)
	}
	if o.isAbsent(r) {
		return nil, nil
	}
	key := strings.Join([]string{"list", r.Group, r.Resource, namespace}, "/")
	switch found, _ := o.remembered.get(key); found := found.(type) {
	case []*unstructured.Unstructured:
		return found, nil
	case error:
		return nil, found
	}
	done, err := hold(ctx, o.shares, heldSmall)
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
	o.remembered.add(key, found, size, recently)
	return found, nil
}
