package instancetypes

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/limits/decode"
)

// Instancetype is a VirtualMachineInstancetype or a VirtualMachineClusterInstancetype.
type Instancetype struct {
	// Kind is apikinds.VirtualMachineInstancetype or apikinds.VirtualMachineClusterInstancetype.
	Kind string
	Name string
	// Spec in its v1beta1 form, whatever version it was written in.
	Spec instancetypev1beta1.VirtualMachineInstancetypeSpec
	// Inferred tells that its name was read from the labels of a volume, which the requester may not be allowed to
	// read: no text contains the name.
	Inferred bool
}

// Layer is the name under which the fields it fills are recorded.
func (i *Instancetype) Layer() string { return "instancetype/" + either(i.Inferred, inferred, i.Name) }

// inferred stands for the name of what was inferred from a volume. No object has this name.
const inferred = "(inferred)"

// Preference is a VirtualMachinePreference or a VirtualMachineClusterPreference.
type Preference struct {
	// Kind is apikinds.VirtualMachinePreference or apikinds.VirtualMachineClusterPreference.
	Kind string
	Name string
	// Spec in its v1beta1 form, whatever version it was written in.
	Spec instancetypev1beta1.VirtualMachinePreferenceSpec
	// Inferred is as that of an Instancetype.
	Inferred bool
}

// Layer is the name under which the fields it fills are recorded.
func (p *Preference) Layer() string { return "preference/" + either(p.Inferred, inferred, p.Name) }

// versions of the API that are read. The older ones occur in ControllerRevisions of VMs that were created
// long ago; in JSON, every field they have means the same in v1beta1.
func versions() []string { return []string{"v1", "v1beta1", "v1alpha2", "v1alpha1"} }

// InstancetypeFrom reads an instancetype: a namespaced or cluster-wide object of any version, or the
// ControllerRevision in which KubeVirt keeps one.
func InstancetypeFrom(obj *unstructured.Unstructured) (*Instancetype, error) {
	in := &Instancetype{}
	kind, name, err := decoded(obj, &in.Spec, apikinds.VirtualMachineInstancetype, apikinds.VirtualMachineClusterInstancetype)
	if err != nil {
		return nil, err
	}
	in.Kind, in.Name = kind, name
	return in, nil
}

// PreferenceFrom reads a preference: a namespaced or cluster-wide object of any version, or the
// ControllerRevision in which KubeVirt keeps one.
func PreferenceFrom(obj *unstructured.Unstructured) (*Preference, error) {
	pref := &Preference{}
	kind, name, err := decoded(obj, &pref.Spec, apikinds.VirtualMachinePreference, apikinds.VirtualMachineClusterPreference)
	if err != nil {
		return nil, err
	}
	pref.Kind, pref.Name = kind, name
	return pref, nil
}

// decoded reads the spec of an object of one of the kinds into spec, and returns its kind and name.
func decoded(obj *unstructured.Unstructured, spec any, kinds ...string) (kind, name string, err error) {
	if obj == nil {
		return "", "", fmt.Errorf("no object where a %s is expected", strings.Join(kinds, " or "))
	}
	if obj.GetKind() == apikinds.ControllerRevision {
		kind, name, err = decodeRevision(obj, spec, kinds)
		if err != nil {
			return "", "", fmt.Errorf("ControllerRevision %s: %w", obj.GetName(), err)
		}
		return kind, name, nil
	}
	if !slices.Contains(kinds, obj.GetKind()) {
		return "", "", fmt.Errorf("%s %q where a %s is expected", orUnknown(obj.GetKind()), obj.GetName(), strings.Join(kinds, " or "))
	}
	gv, err := schema.ParseGroupVersion(obj.GetAPIVersion())
	if err != nil || gv.Group != instancetypeapi.GroupName || !slices.Contains(versions(), gv.Version) {
		return "", "", fmt.Errorf("%s %q has apiVersion %q: the known ones are %s/ with %s",
			obj.GetKind(), obj.GetName(), obj.GetAPIVersion(), instancetypeapi.GroupName, strings.Join(versions(), ", "))
	}
	if err := decodeSpec(obj.Object["spec"], spec); err != nil {
		return "", "", fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return obj.GetKind(), obj.GetName(), nil
}

func orUnknown(kind string) string {
	if kind == "" {
		return "an object without a kind"
	}
	return kind
}

// decodeRevision reads what KubeVirt stores in a ControllerRevision: the whole object, or, up to KubeVirt
// 0.57, only its version and its spec.
func decodeRevision(revision *unstructured.Unstructured, spec any, kinds []string) (kind, name string, err error) {
	data, ok := revision.Object["data"].(map[string]any)
	if !ok {
		return "", "", fmt.Errorf("data is not an object that holds a %s", strings.Join(kinds, " or "))
	}
	stored := &unstructured.Unstructured{Object: data}
	if stored.GetKind() == apikinds.ControllerRevision {
		return "", "", fmt.Errorf("data holds another ControllerRevision")
	}
	if stored.GetKind() != "" {
		return decoded(stored, spec, kinds...)
	}
	encoded, ok := data["spec"].(string)
	if !ok {
		return "", "", fmt.Errorf("data has no kind, so it does not hold a %s", strings.Join(kinds, " or "))
	}
	written, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", "", fmt.Errorf("data.spec is not base64: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(written, &fields); err != nil {
		return "", "", fmt.Errorf("data.spec does not hold a JSON object: %w", err)
	}
	if err := decodeSpec(fields, spec); err != nil {
		return "", "", err
	}
	labels := revision.GetLabels()
	kind, name = labels[instancetypeapi.ControllerRevisionObjectKindLabel], labels[instancetypeapi.ControllerRevisionObjectNameLabel]
	if !slices.Contains(kinds, kind) {
		kind = kinds[0]
	}
	if name == "" {
		name = revision.GetName()
	}
	return kind, name, nil
}

func decodeSpec(from, into any) error {
	if from == nil {
		return nil
	}
	fields, ok := from.(map[string]any)
	if !ok {
		return fmt.Errorf("spec is not an object")
	}
	if err := decode.QuantitiesIn(fields, reflect.TypeOf(into), field.NewPath("spec")); err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}
