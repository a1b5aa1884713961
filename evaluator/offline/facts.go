package offline

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
)

// FactsFrom reads the facts from a KubeVirt object. Their warnings name unknown fields. The error does not name the file.
func FactsFrom(d manifests.Document, settings platform.Settings) (*platform.Facts, error) {
	kubevirt := AsKubeVirt(d.Object)
	warnings, err := manifests.Decode(withoutSeedForm(kubevirt.Object), &v1.KubeVirt{})
	if err != nil {
		return nil, err
	}
	facts, err := platform.FromKubeVirt(kubevirt, settings)
	if err != nil {
		return nil, err
	}
	if err := NewServed(facts.KubeVirtVersion).Match(kubevirt.GroupVersionKind()); err != nil {
		return nil, err
	}
	facts.Source += " (" + d.Location() + ")"
	for _, w := range warnings {
		facts.Warnings = append(facts.Warnings, d.Location()+": "+w)
	}
	return facts, nil
}

// AsKubeVirt returns a KubeVirt object for a spec.configuration without an object around it.
func AsKubeVirt(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object.GetKind() != "" || object.GetAPIVersion() != "" {
		return object
	}
	kubevirt := &unstructured.Unstructured{Object: map[string]any{}}
	if spec, ok := object.Object["spec"]; ok {
		kubevirt.Object["spec"] = spec
	} else {
		kubevirt.Object["spec"] = map[string]any{"configuration": object.Object}
	}
	kubevirt.SetAPIVersion(v1.GroupVersion.String())
	kubevirt.SetKind(apikinds.KubeVirt)
	kubevirt.SetNamespace("kubevirt")
	kubevirt.SetName("kubevirt")
	return kubevirt
}

// withoutSeedForm leaves out the form of the list of hypervisors that is in VEP 97 and not in KubeVirt's type.
func withoutSeedForm(object map[string]any) map[string]any {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return object
	}
	configuration, ok := spec["configuration"].(map[string]any)
	if !ok {
		return object
	}
	return replaced(object, "spec", replaced(spec, "configuration", replaced(configuration, "hypervisor", nil)))
}

// replaced copies a map with one value replaced, or left out if it is nil.
func replaced(fields map[string]any, name string, value any) map[string]any {
	other := maps.Clone(fields)
	if value == nil {
		delete(other, name)
	} else {
		other[name] = value
	}
	return other
}
