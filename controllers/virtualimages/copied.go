package virtualimages

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/copies"
)

// Copied returns an image that is being copied into the cluster, and its class. An image whose import is complete, that is being
// deleted, or whose attempt is another one is copies.ErrNotCopied. It reads the image without a cache, in every replica.
func (r *Reconciler) Copied(ctx context.Context, namespace, name, id string) (*backend.Image, backend.Backend, error) {
	image := &v1alpha1.VirtualImage{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, image)
	if apierrors.IsNotFound(err) {
		return nil, nil, copies.ErrNotCopied
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading VirtualImage %s/%s: %w", namespace, name, err)
	}
	if image.Status.ID != id || image.DeletionTimestamp != nil || meta.IsStatusConditionTrue(image.Status.Conditions, v1alpha1.ConditionImported) {
		return nil, nil, copies.ErrNotCopied
	}
	store := r.Classes[r.classOf(image)]
	if store == nil {
		return nil, nil, copies.ErrNotCopied
	}
	return attemptOf(r.Cluster, image), store, nil
}
