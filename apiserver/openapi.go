package apiserver

import (
	"maps"

	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/virtward/virtward/api/template/subresources"
)

// definitions are the schemas of what the API takes and answers. A VirtualMachine has the schema of its own API, which
// kube-apiserver publishes.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := generated.GetOpenAPIDefinitions(ref)
	maps.Copy(all, map[string]common.OpenAPIDefinition{
		subresources.ProcessOptions{}.OpenAPIModelName(): object("ProcessOptions are the values of a template's parameters.", map[string]spec.Schema{
			"parameters":      *spec.MapProperty(spec.StringProperty()).WithDescription("The values, by the names of the parameters."),
			"targetNamespace": *spec.StringProperty().WithDescription("The namespace in which create creates the VirtualMachine; that of the template if it is empty. For another namespace you need permission to create virtualmachinetemplates/instantiate there."),
		}),
		subresources.ProcessedVirtualMachineTemplate{}.OpenAPIModelName(): object("ProcessedVirtualMachineTemplate is a rendered template.", map[string]spec.Schema{
			"templateRef": *(&spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Required: []string{"namespace", "name"}, Properties: map[string]spec.Schema{
				"namespace": *spec.StringProperty().WithDescription("The namespace."), "name": *spec.StringProperty().WithDescription("The name."),
			}}}).WithDescription("The template."),
			"virtualMachine": preserving("The VirtualMachine: as rendered, or as created."),
			"message":        *spec.StringProperty().WithDescription("The template's message."),
		}),
		subresources.Templates{}.OpenAPIModelName(): object("The resource that the subresources belong to. It is not served.", nil),
	})
	return all
}

// object is a kind with properties beside apiVersion and kind.
func object(description string, properties map[string]spec.Schema) common.OpenAPIDefinition {
	all := map[string]spec.Schema{
		"apiVersion": *spec.StringProperty().WithDescription("The version of the API."), "kind": *spec.StringProperty().WithDescription("The kind."),
	}
	maps.Copy(all, properties)
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{"object"}, Properties: all}}}
}

// preserving is an object with any fields.
func preserving(description string) spec.Schema {
	return spec.Schema{
		SchemaProps:      spec.SchemaProps{Description: description, Type: []string{"object"}},
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
	}
}
