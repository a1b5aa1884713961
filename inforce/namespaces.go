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

// namespaces is the resource whose labels select where a rule setting holds.
var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Namespaces knows the labels of the cluster's namespaces, from a watch of their metadata.
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
	if err := n.informer.SetTransform(onlyLabels); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return n, nil
}

// onlyLabels forgets what nobody asks for: a cluster may have very many namespaces.
func onlyLabels(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, ResourceVersion: m.ResourceVersion}
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

// NamespaceLabels are the labels of a namespace. One that the watch does not know, because it was made a moment
// ago, is read from the API server; one that does not exist is a NotFound error. The labels are shared: do not
// change them.
func (n *Namespaces) NamespaceLabels(ctx context.Context, name string) (k8slabels.Set, error) {
	obj, exists, err := n.informer.GetStore().GetByKey(name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s from the watch: %w", name, err)
	}
	if found, ok := obj.(*metav1.PartialObjectMetadata); exists && ok {
		return found.Labels, nil
	}
	found, err := n.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return found.Labels, nil
}
