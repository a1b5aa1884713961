package offline

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/references"
)

// both finds objects in the files, as if they were applied, and then in the cluster.
type both struct {
	files   *references.Memory
	cluster references.Objects
}

// Get implements references.Objects.
func (b both) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := b.files.Get(ctx, kind, namespace, name)
	if err == nil {
		return obj, nil
	}
	return b.cluster.Get(ctx, kind, namespace, name)
}

// List implements references.Objects.
func (b both) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	all, err := b.files.List(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, obj := range all {
		names[obj.GetName()] = true
	}
	listed, err := b.cluster.List(ctx, kind, namespace)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, err
	}
	for _, obj := range listed {
		if !names[obj.GetName()] {
			all = append(all, obj)
		}
	}
	return all, nil
}
