package main

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// withSeedHypervisor adds spec.configuration.hypervisor as VEP 97 writes it: a list of any length whose
// entries name the hypervisor, its device and its libvirt type. KubeVirt's own hypervisors stays.
func withSeedHypervisor(definition *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	variant := definition.DeepCopy()
	word := apiextensionsv1.JSONSchemaProps{Type: "string"}
	entry := apiextensionsv1.JSONSchemaProps{
		Type:       "object",
		Required:   []string{"name"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": word, "hypervisorDevice": word, "virtType": word},
	}
	atomic := "atomic"
	list := apiextensionsv1.JSONSchemaProps{
		Type:      "array",
		XListType: &atomic,
		Items:     &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &entry},
	}
	for i := range variant.Spec.Versions {
		schema := variant.Spec.Versions[i].Schema.OpenAPIV3Schema
		configuration, found := schema.Properties["spec"].Properties["configuration"]
		if !found {
			return nil, fmt.Errorf("%s has no spec.configuration in version %s", variant.Name, variant.Spec.Versions[i].Name)
		}
		configuration.Properties["hypervisor"] = list
	}
	return variant, nil
}
