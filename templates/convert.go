package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// OpenShiftTemplate is the part of a Template of template.openshift.io that is converted.
type OpenShiftTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Objects    []map[string]any    `json:"objects"`
	Parameters []v1beta1.Parameter `json:"parameters"`
	// ObjectLabels are those of all objects.
	ObjectLabels map[string]string `json:"labels"`
	Message      string            `json:"message"`
}

// IsOpenShiftTemplate reports whether an object is a Template of OpenShift, of today's group or of the one before groups.
func IsOpenShiftTemplate(object *unstructured.Unstructured) bool {
	group, _, hasGroup := strings.Cut(object.GetAPIVersion(), "/")
	return object.GetKind() == "Template" && (group == "template.openshift.io" || !hasGroup)
}

// Convert makes a VirtualMachineTemplate of an OpenShift Template. The Template must have one VirtualMachine. The notes name
// what else it has, which is left out, and the text that is kept although it looks like a reference.
func Convert(object *unstructured.Unstructured) (*v1beta1.VirtualMachineTemplate, []string, error) {
	if !IsOpenShiftTemplate(object) {
		return nil, nil, fmt.Errorf("%s %s is not a Template of template.openshift.io", object.GetAPIVersion(), object.GetKind())
	}
	written, err := object.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	var source OpenShiftTemplate
	if err := json.Unmarshal(written, &source); err != nil {
		return nil, nil, fmt.Errorf("reading the Template: %w", err)
	}
	var vm map[string]any
	var notes []string
	at := ""
	for i, one := range source.Objects {
		u := unstructured.Unstructured{Object: one}
		isVM := u.GetKind() == apikinds.VirtualMachine && strings.HasPrefix(u.GetAPIVersion(), "kubevirt.io/")
		switch {
		case isVM && vm != nil:
			return nil, nil, fmt.Errorf("objects[%d]: the Template has more than one VirtualMachine", i)
		case isVM:
			vm, at = one, fmt.Sprintf("objects[%d]", i)
		default:
			notes = append(notes, fmt.Sprintf("objects[%d]: %s %s is left out: create it by itself", i, u.GetKind(), u.GetName()))
		}
	}
	if vm == nil {
		return nil, nil, fmt.Errorf("objects: the Template has no VirtualMachine of kubevirt.io")
	}
	vm["apiVersion"] = "kubevirt.io/v1"
	if len(source.ObjectLabels) > 0 {
		u := unstructured.Unstructured{Object: vm}
		labels := maps.Clone(source.ObjectLabels)
		maps.Copy(labels, u.GetLabels())
		u.SetLabels(labels)
	}
	foreign := newForeignText(source.Parameters, at)
	foreign.keepIn(vm, virtualMachineShape(), nil)
	source.Message = foreign.keep("message", source.Message)
	raw, err := json.Marshal(vm)
	if err != nil {
		return nil, nil, err
	}
	template := &v1beta1.VirtualMachineTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: apikinds.VirtualMachineTemplate},
		ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace, Labels: source.Labels, Annotations: source.Annotations},
		Spec:       v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &runtime.RawExtension{Raw: raw}, Parameters: source.Parameters, Message: source.Message},
	}
	delete(template.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(notes) > 0 {
		notes = append(notes, unusedBy(template)...)
	}
	if len(foreign.notes) > 0 {
		template.Spec.Parameters = append(template.Spec.Parameters, Dollar(foreign.dollar))
		notes = append(notes, foreign.notes...)
	}
	return template, notes, nil
}

// unusedBy removes the parameters that only objects refer to that are left out, and names them.
func unusedBy(template *v1beta1.VirtualMachineTemplate) (notes []string) {
	r := &renderer{report: &report{}}
	w := newReferences(template.Spec.Parameters)
	w.walk(r.parse(template.Spec.VirtualMachine))
	for _, name := range namesIn(template.Spec.Message) {
		w.used[name] = true
	}
	template.Spec.Parameters = slices.DeleteFunc(template.Spec.Parameters, func(p v1beta1.Parameter) bool {
		if !w.used[p.Name] {
			notes = append(notes, "parameters: "+p.Name+" is left out: the VirtualMachine does not refer to it")
			return true
		}
		return false
	})
	return notes
}
