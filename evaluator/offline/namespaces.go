package offline

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/manifests"
)

// namespaces reads Namespaces: from files, as if they were applied, and then from the cluster, if there is one. It is
// safe for concurrent use.
type namespaces struct {
	cluster *Cluster

	mutex sync.Mutex
	// known has nil for namespaces that do not exist or cannot be read.
	known map[string]*corev1.Namespace
	// failed are the errors of namespaces that cannot be read.
	failed map[string]error
}

func newNamespaces(files []manifests.Document, cluster *Cluster) *namespaces {
	n := &namespaces{cluster: cluster, known: map[string]*corev1.Namespace{}, failed: map[string]error{}}
	for _, d := range files {
		n.known[d.Object.GetName()] = metadataOf(d.Object)
	}
	return n
}

// metadataOf returns a namespace with only its metadata. Selectors need no more.
func metadataOf(object *unstructured.Unstructured) *corev1.Namespace {
	name := object.GetName()
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: object.GetUID(), CreationTimestamp: object.GetCreationTimestamp(),
		Labels: labels.Merge(object.GetLabels(), labels.Set{corev1.LabelMetadataName: name}), Annotations: object.GetAnnotations(),
	}}
}

// find returns a namespace, or nil if it is not known. It reads each namespace once.
func (n *namespaces) find(ctx context.Context, name string) (*corev1.Namespace, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	found, read := n.known[name]
	if read || n.cluster == nil || name == "" {
		return found, n.failed[name]
	}
	object, err := n.cluster.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		found = metadataOf(object)
	case apierrors.IsNotFound(err):
		err = nil
	default:
		n.failed[name] = err
	}
	n.known[name] = found
	return found, err
}

// labelsOf returns the labels of a namespace. With an error, and for a namespace that does not exist, it returns only
// the label that the API server sets on every namespace.
func (n *namespaces) labelsOf(ctx context.Context, name string) (labels.Set, error) {
	found, err := n.find(ctx, name)
	if found == nil {
		return labels.Set{corev1.LabelMetadataName: name}, err
	}
	return found.Labels, err
}

// unselected is the error for objects of a kind whose selectors cannot match a namespace.
func unselected(kind, namespace string, err error) error {
	return fmt.Errorf("%s that select the namespace %s by its labels are not considered: %w", kind, namespace, err)
}
