package configcache

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/limits/watch"
)

// namespaces is the resource whose labels select where settings, defaults and policies hold.
var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// MaxNamespaces bounds the memory of the metadata of all namespaces, in bytes. Beyond it a namespace is kept without
// its annotations, then without its labels, and read when it is needed.
const MaxNamespaces = 24 << 20

// Namespaces knows the metadata of the cluster's namespaces, which it watches.
type Namespaces struct {
	client   metadata.Interface
	informer cache.SharedIndexInformer
	budget   *watch.Budget
}

// keptNamespace is what the watch keeps of a namespace.
type keptNamespace struct {
	metav1.ObjectMeta // its labels and annotations, as far as they are kept

	hasLabels, hasAnnotations bool
	cost                      int64
}

// Cost implements watch.Sized.
func (k *keptNamespace) Cost() int64 { return k.cost }

// NewNamespaces prepares the watch.
func NewNamespaces(client metadata.Interface) (*Namespaces, error) {
	return newNamespaces(client, MaxNamespaces)
}

func newNamespaces(client metadata.Interface, limit int64) (*Namespaces, error) {
	n := &Namespaces{
		client:   client,
		informer: cache.NewSharedIndexInformer(watch.ListWatch(client, client.Resource(namespaces), withoutManagers), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{}),
		budget:   watch.NewBudget(limit),
	}
	_, err := n.informer.AddEventHandler(n.budget.Handler())
	if err := errors.Join(err, n.informer.SetTransform(n.keep)); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return n, nil
}

// withoutManagers removes what nothing reads.
func withoutManagers(object runtime.Object) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.OwnerReferences, m.Finalizers = nil, nil, nil
	}
}

// keep makes of a namespace what the watch keeps.
func (n *Namespaces) keep(object any) (any, error) {
	m, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	withoutManagers(m)
	labels, annotations := sizeOf(m.Labels), sizeOf(m.Annotations)
	kept := &keptNamespace{ObjectMeta: m.ObjectMeta}
	for _, cost := range []int64{costOfObject + labels + annotations, costOfObject + labels} {
		if n.budget.Take(m.Name, cost) {
			kept.cost, kept.hasLabels, kept.hasAnnotations = cost, true, cost == costOfObject+labels+annotations
			break
		}
	}
	if !kept.hasAnnotations { // and nothing else of its size
		kept.ObjectMeta = metav1.ObjectMeta{Name: strings.Clone(m.Name), UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
	}
	if !kept.hasLabels {
		kept.Labels = nil
	}
	return kept, nil
}

// What an object, and an entry of one of its maps, take beside their strings, in bytes: estimates.
const (
	costOfObject = 1 << 10
	costOfEntry  = 64
)

func sizeOf(entries map[string]string) int64 {
	size := int64(0)
	for key, value := range entries {
		size += int64(len(key)+len(value)) + costOfEntry
	}
	return size
}

// Run watches until the context ends.
func (n *Namespaces) Run(ctx context.Context) error {
	n.informer.RunWithContext(ctx)
	return nil
}

// Ready returns nil once the watch has caught up.
func (n *Namespaces) Ready() error {
	if !n.informer.HasSynced() {
		return errors.New("the namespaces have not been read yet")
	}
	return nil
}

// NamespaceLabels are the labels of a namespace: see Namespace.
func (n *Namespaces) NamespaceLabels(ctx context.Context, name string) (k8slabels.Set, error) {
	found, err := n.metadata(ctx, name, func(k *keptNamespace) bool { return k.hasLabels })
	if err != nil {
		return nil, err
	}
	return found.Labels, nil
}

// Namespace is a namespace, of which nothing is known but its metadata. One that the watch does not know, because it
// was created a moment ago, or does not keep whole, is read from the API server; one that does not exist is a NotFound
// error. What the metadata holds is shared: do not change it.
func (n *Namespaces) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	found, err := n.metadata(ctx, name, func(k *keptNamespace) bool { return k.hasAnnotations })
	if err != nil {
		return nil, err
	}
	return &corev1.Namespace{ObjectMeta: *found}, nil
}

func (n *Namespaces) metadata(ctx context.Context, name string, enough func(*keptNamespace) bool) (*metav1.ObjectMeta, error) {
	object, exists, err := n.informer.GetStore().GetByKey(name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s from the watch: %w", name, err)
	}
	if kept, ok := object.(*keptNamespace); exists && ok && enough(kept) {
		return &kept.ObjectMeta, nil
	}
	found, err := n.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &found.ObjectMeta, nil
}
