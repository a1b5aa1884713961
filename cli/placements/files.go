package placements

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/placement"
)

const networkKind = "NetworkAttachmentDefinition"

// kinds are those of files.
func kinds(f *Found) map[schema.GroupKind]func(map[string]any) error {
	return map[schema.GroupKind]func(map[string]any) error{
		{Kind: "Node"}:                                        decoded(&f.Nodes),
		{Kind: "Pod"}:                                         decoded(&f.Pods),
		{Kind: "Namespace"}:                                   decoded(&f.Namespaces),
		{Kind: "PersistentVolumeClaim"}:                       decoded(&f.Claims),
		{Kind: "PersistentVolume"}:                            decoded(&f.Volumes),
		{Kind: "ResourceQuota"}:                               decoded(&f.Quotas),
		{Kind: "LimitRange"}:                                  decoded(&f.LimitRanges),
		{Group: classes.Group, Kind: "StorageClass"}:          decoded(&f.Classes),
		{Group: csiNodes.Group, Kind: "CSINode"}:              decoded(&f.CSINodes),
		{Group: drivers.Group, Kind: "CSIDriver"}:             decoded(&f.Drivers),
		{Group: capacities.Group, Kind: "CSIStorageCapacity"}: decoded(&f.Capacities),
		{Group: priorityClasses.Group, Kind: "PriorityClass"}: decoded(&f.PriorityClasses),
		{Group: runtimeClasses.Group, Kind: "RuntimeClass"}:   decoded(&f.RuntimeClasses),
		{Group: deviceClaims.Group, Kind: "ResourceClaim"}:    decoded(&f.DeviceClaims),
		{Group: networks.Group, Kind: networkKind}:            decoded(&f.Networks),
	}
}

func decoded[T any](into *[]*T) func(map[string]any) error {
	return func(object map[string]any) error {
		one := new(T)
		*into = append(*into, one)
		return runtime.DefaultUnstructuredConverter.FromUnstructured(object, one)
	}
}

// FromFiles reads a cluster from files, such as the output of kubectl get nodes,pods -A -o yaml. Files without an object of a kind do
// not say that the cluster has none: it is not checked then. Objects of other kinds are skipped.
func FromFiles(ctx context.Context, names []string, stdin io.Reader) (*Found, error) {
	documents, err := manifests.ReadAll(ctx, names, false, stdin)
	if err != nil {
		return nil, err
	}
	f := &Found{}
	by := kinds(f)
	for _, d := range documents {
		decode := by[d.Object.GroupVersionKind().GroupKind()]
		if decode == nil {
			continue
		}
		if err := decode(d.Object.Object); err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", d.Location(), d.Object.GetKind(), d.Object.GetName(), err)
		}
	}
	if len(f.Nodes) == 0 {
		return nil, errors.New("the files of --nodes have no Node: write them with kubectl get nodes -o yaml")
	}
	for i, p := range f.Pods {
		if trimmed := placement.TrimPod(p); trimmed != nil {
			f.Pods[i] = trimmed
		}
	}
	f.Unknown = placement.Unknown{
		Pods: len(f.Pods) == 0, Namespaces: len(f.Namespaces) == 0, Claims: len(f.Claims) == 0, Volumes: len(f.Volumes) == 0, Classes: len(f.Classes) == 0,
		CSINodes: len(f.CSINodes) == 0, Capacities: len(f.Drivers) == 0, DeviceClaims: len(f.DeviceClaims) == 0, Networks: len(f.Networks) == 0, RuntimeClasses: len(f.RuntimeClasses) == 0, Quotas: len(f.Quotas) == 0, LimitRanges: len(f.LimitRanges) == 0, PriorityClasses: len(f.PriorityClasses) == 0,
	}
	if f.Unknown.Pods {
		f.Unread = append(f.Unread, "the files have no pods: nodes count as empty")
	}
	return f, nil
}
