package lookup

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits"
)

// PresetExclusion is the annotation with the value "true" that keeps presets away from a VMI.
const PresetExclusion = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"

// maxPresets bounds the presets of a namespace: each is read, and held against all others, for every VMI.
const maxPresets = 200

// Presets finds the VirtualMachineInstancePresets (deprecated in KubeVirt) that select a VMI with this
// metadata, sorted by name. One that cannot be read is a warning.
func Presets(ctx context.Context, objects Objects, vmi metav1.ObjectMeta) ([]v1.VirtualMachineInstancePreset, []string, error) {
	if vmi.Annotations[PresetExclusion] == "true" {
		return nil, nil, nil
	}
	listed, err := objects.List(ctx, preset, vmi.Namespace)
	if err != nil {
		if absent(err) { // not served: KubeVirt without presets
			return nil, nil, nil
		}
		return nil, nil, fmt.Errorf("listing VirtualMachineInstancePresets in %s: %w", vmi.Namespace, err)
	}
	if len(listed) > maxPresets {
		return nil, []string{fmt.Sprintf("namespace %s has %d VirtualMachineInstancePresets, more than the %d that are considered, so none is applied", vmi.Namespace, len(listed), maxPresets)}, nil
	}
	var found []v1.VirtualMachineInstancePreset
	var warnings []string
	for _, obj := range listed {
		var p v1.VirtualMachineInstancePreset
		if err := read(obj.Object, &p); err != nil {
			warnings = append(warnings, fmt.Sprintf("%s cannot be read: %v", described(preset, vmi.Namespace, obj.GetName()), err))
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s has a selector that cannot be read: %v", described(preset, vmi.Namespace, p.Name), err))
			continue
		}
		if selector.Matches(labels.Set(vmi.Labels)) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b v1.VirtualMachineInstancePreset) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(warnings)
	return found, warnings, nil
}

// read decodes a preset, unless doing so would take all day.
func read(object map[string]any, into *v1.VirtualMachineInstancePreset) error {
	if err := limits.QuantitiesIn(object, reflect.TypeOf(into), nil); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}
