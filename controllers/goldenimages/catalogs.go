package goldenimages

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/goldenimages"
)

// maxClaims bounds the memory of the names that other catalogs use, in bytes. Of further catalogs, only the objects that they
// created are respected.
const maxClaims = 4 << 20

// others reads the names that the other catalogs of a namespace use.
func (r *Reconciler) others(ctx context.Context, catalog *v1alpha1.GoldenImageCatalog) ([]goldenimages.Claims, error) {
	var all []goldenimages.Claims
	left := int64(maxClaims)
	err := each(ctx, r.Pages, pages.List{Resource: catalogs}, func(other *v1alpha1.GoldenImageCatalog, _ int) error {
		if other.UID == catalog.UID || other.Spec.Namespace != catalog.Spec.Namespace || other.DeletionTimestamp != nil {
			return nil
		}
		claims := goldenimages.ClaimsOf(other, r.Common)
		if left -= claims.Size(); left >= 0 {
			all = append(all, claims)
		}
		return nil
	})
	return all, err
}

// changed requests a catalog that changed, and the other catalogs of its namespace: a name that it no longer uses can be
// theirs.
func (r *Reconciler) changed(name types.NamespacedName) []reconcile.Request {
	r.mu.Lock()
	namespace := r.namespaces[name.Name]
	r.mu.Unlock()
	key := reconcile.Request{NamespacedName: name}
	if namespace == "" {
		return []reconcile.Request{key}
	}
	return append([]reconcile.Request{key}, slices.DeleteFunc(r.in(namespace), func(other reconcile.Request) bool { return other == key })...)
}
