package references

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
)

// Kind is a kind of objects that Find reads.
type Kind = schema.GroupVersionKind

// The kinds that others are made of: virtual machines that are restored or cloned, and what restores and
// clones them.
var (
	VirtualMachine  = apikinds.VirtualMachines.GroupVersionKind
	Snapshot        = apikinds.Snapshots.GroupVersionKind
	SnapshotContent = apikinds.SnapshotContents.GroupVersionKind
	Restore         = apikinds.Restores.GroupVersionKind
	Clone           = apikinds.Clones.GroupVersionKind
)

// Find reads an object; nil if there is none. The object is shared: do not change it. The error means that the
// cluster could not be read.
func Find(ctx context.Context, objects Objects, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := objects.Get(ctx, kind, namespace, name)
	switch {
	case absent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", described(kind, namespace, name), err)
	}
	return obj, nil
}
