package inforce

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// namespaces is the resource whose labels select where settings, defaults and policies hold.
var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Namespaces knows the metadata of the cluster's namespaces, which it watches.
type Namespaces struct {
	client   metadata.Interface
	informer cache.SharedIndexInformer
}

// NewNamespaces prepares the watch.
func NewNamespaces(client metadata.Interface) (*Namespaces, error) {
	n := &Namespaces{
		client:   client,
		informer: metadatainformer.NewFilteredMetadataInformer(client, namespaces, "", 0, cache.Indexers{}, nil).Informer(),
	}
	if err := n.informer.SetTransform(withoutManagers); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return n, nil
}

// withoutManagers forgets what nobody asks for: a cluster may have very many namespaces.
func withoutManagers(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields = nil
	}
	return obj, nil
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
	found, err := n.metadata(ctx, name)
	if err != nil {
		return nil, err
	}
	return found.Labels, nil
}

// Namespace is a namespace, of which nothing is known but its metadata. One that the watch does not know, because it
// was made a moment ago, is read from the API server; one that does not exist is a NotFound error. What the metadata
// holds is shared: do not change it.
func (n *Namespaces) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	found, err := n.metadata(ctx, name)
	if err != nil {
		return nil, err
	}
	return &corev1.Namespace{ObjectMeta: found.ObjectMeta}, nil
}

func (n *Namespaces) metadata(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	obj, exists, err := n.informer.GetStore().GetByKey(name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s from the watch: %w", name, err)
	}
	if found, ok := obj.(*metav1.PartialObjectMetadata); exists && ok {
		return found, nil
	}
	return n.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
}
