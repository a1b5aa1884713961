package main

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/documents"
	"github.com/virtward/virtward/platform"
)

// factsFrom reads the facts from a KubeVirt object; the warnings name fields that it should not have.
func factsFrom(d documents.Document, settings platform.Settings) (*platform.Facts, error) {
	kubevirt := asKubeVirt(d.Object)
	warnings, err := documents.Decode(withoutSeedForm(kubevirt.Object), &v1.KubeVirt{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Location(), err)
	}
	facts, err := platform.FromKubeVirt(kubevirt, settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Location(), err)
	}
	facts.Source += " (" + d.Location() + ")"
	for _, w := range warnings {
		facts.Warnings = append(facts.Warnings, d.Location()+": "+w)
	}
	return facts, nil
}

// asKubeVirt makes a whole object of a spec.configuration that stands alone.
func asKubeVirt(object *unstructured.Unstructured) *unstructured.Unstructured {
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
	kubevirt.SetKind(kindKubeVirt)
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

// assume lays the hypervisor and the architecture of the command line over the facts.
func (o *sources) assume(facts *platform.Facts) (*platform.Facts, error) {
	if o.hypervisor != "" && o.hypervisor != facts.Hypervisor.ConfiguredName {
		h, err := platform.HypervisorByName(o.hypervisor)
		if err != nil {
			return nil, usageError{err}
		}
		facts = facts.WithHypervisor(withModel(h, o.settings.MSHVCPUModel))
		facts.Notes = nil // they say why VMs run on another one
		facts.Source += ", --hypervisor " + o.hypervisor
	}
	if o.architecture != "" && o.architecture != facts.DefaultArchitecture {
		facts = facts.WithDefaultArchitecture(o.architecture)
		facts.Source += ", --arch " + o.architecture
	}
	return facts, nil
}

// withModel applies the setting for mshv's CPU model to a hypervisor that was not read from a KubeVirt object.
func withModel(h platform.Hypervisor, model string) platform.Hypervisor {
	switch {
	case h.Name != platform.MSHV || model == "" || model == "auto":
	case model == "none":
		h.CPUModel = ""
	default:
		h.CPUModel = model
	}
	return h
}
