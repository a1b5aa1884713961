package references

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
)

// PresetExclusion is the annotation with the value "true" that keeps presets away from a VMI.
const PresetExclusion = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"

// ErrPresets says that there are more presets than are read. Presets are deprecated, so an instance in such a namespace
// is not completed, and is validated as it arrives.
var ErrPresets = errors.New("there are too many VirtualMachineInstancePresets")

// maxPresets bounds the presets that select one VMI: each is decoded, and held against all others.
const maxPresets = 50

// Presets finds the VirtualMachineInstancePresets (deprecated in KubeVirt) that select a VMI with this
// metadata, sorted by name. It finds all of them or returns an error, which then is the presets' fault or the
// cluster's: a field that was completed without them would keep KubeVirt from applying them later.
func Presets(ctx context.Context, objects Objects, vmi metav1.ObjectMeta) ([]v1.VirtualMachineInstancePreset, error) {
	if vmi.Annotations[PresetExclusion] == "true" {
		return nil, nil
	}
	listed, err := objects.List(ctx, preset, vmi.Namespace)
	if err != nil {
		if absent(err) { // not served: KubeVirt without presets
			return nil, nil
		}
		if errors.Is(err, platform.ErrTooLarge) {
			return nil, fmt.Errorf("%w, or too large ones, in namespace %s", ErrPresets, vmi.Namespace)
		}
		return nil, fmt.Errorf("listing VirtualMachineInstancePresets in %s: %w", vmi.Namespace, err)
	}
	// Sorted first, so that of two bad presets always the same one is named.
	byName := slices.SortedFunc(slices.Values(listed), func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	selecting, err := selectingPresets(byName, vmi)
	if err != nil {
		return nil, err
	}
	var found []v1.VirtualMachineInstancePreset
	for _, obj := range selecting {
		var p v1.VirtualMachineInstancePreset
		if err := read(obj.Object, &p); err != nil {
			return nil, fmt.Errorf("%s, which selects the VMI, cannot be read: %w", described(preset, vmi.Namespace, obj.GetName()), err)
		}
		found = append(found, p)
	}
	return found, nil
}

// selectingPresets reads nothing of a preset but its selector. One that cannot be read may select the VMI, and
// KubeVirt itself then rejects all VMIs of the namespace.
func selectingPresets(listed []*unstructured.Unstructured, vmi metav1.ObjectMeta) ([]*unstructured.Unstructured, error) {
	var selecting []*unstructured.Unstructured
	for _, obj := range listed {
		selects, err := selects(obj, vmi.Labels)
		if err != nil {
			return nil, fmt.Errorf("%s has a selector that cannot be read: %w", described(preset, vmi.Namespace, obj.GetName()), err)
		}
		if !selects {
			continue
		}
		if selecting = append(selecting, obj); len(selecting) > maxPresets {
			return nil, fmt.Errorf("%w in namespace %s: more than %d select the instance", ErrPresets, vmi.Namespace, maxPresets)
		}
	}
	return selecting, nil
}

func selects(obj *unstructured.Unstructured, vmi labels.Set) (bool, error) {
	var decoded struct {
		Spec struct {
			Selector metav1.LabelSelector `json:"selector"`
		} `json:"spec"`
	}
	if spec, ok := obj.Object["spec"].(map[string]any); ok {
		only := map[string]any{"spec": map[string]any{"selector": spec["selector"]}}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(only, &decoded); err != nil {
			return false, err
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&decoded.Spec.Selector)
	if err != nil {
		return false, err
	}
	return selector.Matches(vmi), nil
}

// read decodes a preset, unless doing so would take all day.
func read(object map[string]any, into *v1.VirtualMachineInstancePreset) error {
	if err := decode.QuantitiesIn(object, reflect.TypeOf(into), nil); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}
