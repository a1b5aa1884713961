package references

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	poolapi "kubevirt.io/api/pool"
	snapshotapi "kubevirt.io/api/snapshot"
)

// Kind is a kind of objects that Find reads.
type Kind = schema.GroupVersionKind

// The kinds that others are made of: sets that are scaled, and virtual machines that are restored or cloned.
var (
	VirtualMachine  = Kind{Group: v1.GroupVersion.Group, Version: "v1", Kind: "VirtualMachine"}
	ReplicaSet      = Kind{Group: v1.GroupVersion.Group, Version: "v1", Kind: "VirtualMachineInstanceReplicaSet"}
	Pool            = Kind{Group: poolapi.GroupName, Version: "v1beta1", Kind: "VirtualMachinePool"}
	Snapshot        = Kind{Group: snapshotapi.GroupName, Version: "v1beta1", Kind: "VirtualMachineSnapshot"}
	SnapshotContent = Kind{Group: snapshotapi.GroupName, Version: "v1beta1", Kind: "VirtualMachineSnapshotContent"}
)

// Find reads an object; nil if there is none. What is found is shared: do not change it. The error means that the
// cluster could not be asked.
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
