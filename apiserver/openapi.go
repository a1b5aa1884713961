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
			"templateRef":    templateReference(),
			"virtualMachine": preserving("The VirtualMachine: as rendered, or as created."),
			"message":        *spec.StringProperty().WithDescription("The template's message."),
		}),
		subresources.ApproveOptions{}.OpenAPIModelName(): object("ApproveOptions approve a template's spec.", map[string]spec.Schema{
			"digest":           *spec.StringProperty().WithDescription("The digest of the template that you reviewed: sha256:HEX. It is required, except in a dry run. If the template has another digest, the answer is 409."),
			"message":          *spec.StringProperty().WithDescription("Why you approve the template, at most 1024 bytes."),
			"objectParameters": *spec.ArrayProperty(spec.StringProperty()).WithDescription("The names of the parameters of type object. Such a parameter can add fields to the VirtualMachine, so you must acknowledge each by its name."),
		}),
		subresources.RevokeOptions{}.OpenAPIModelName(): object("RevokeOptions end the approval of a template.", map[string]spec.Schema{
			"message": *spec.StringProperty().WithDescription("Why you revoke the approval, at most 1024 bytes."),
		}),
		subresources.TemplateReview{}.OpenAPIModelName(): object("TemplateReview is what an approver must know of a template.", map[string]spec.Schema{
			"templateRef": templateReference(),
			"digest":      *spec.StringProperty().WithDescription("The digest of the template's spec and UID: sha256:HEX."),
			"approved":    *spec.BooleanProperty().WithDescription("Whether this digest is approved: after the request, or as it is in a dry run."),
			"approval": *structure(map[string]spec.Schema{
				"digest":     *spec.StringProperty().WithDescription("The digest of the approved spec, and of the template's UID: sha256:HEX."),
				"approvedBy": *spec.StringProperty().WithDescription("The user who approved it."),
				"approvedAt": *spec.DateTimeProperty().WithDescription("When it was approved."),
				"message":    *spec.StringProperty().WithDescription("The approver's reason."),
				"source":     source("Where the approved spec comes from, if an import created the template and its spec has not changed since. It is signed too."),
				"signature":  *spec.StringProperty().WithDescription("The signature of Virtward's API server for this approval of this template."),
			}).WithDescription("The last approval. It is valid only if it has the digest of the review."),
			"reason":       *spec.StringProperty().WithDescription("Why the last approval is not valid, and what to do."),
			"source":       source("Where the template comes from, if an import created it and its spec has not changed since. An approval has it too."),
			"sourceReason": *spec.StringProperty().WithDescription("Why the source is not known."),
			"uncovered": *spec.ArrayProperty(structure(map[string]spec.Schema{
				"path":   *spec.StringProperty().WithDescription("The field, such as spec.virtualMachine.spec.instancetype."),
				"reason": *spec.StringProperty().WithDescription("Why an approval does not cover it."),
			})).WithDescription("What an approval does not cover: what the template refers to and others can change."),
			"objectParameters": *spec.ArrayProperty(spec.StringProperty()).WithDescription("The parameters of type object. An approval must acknowledge each."),
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

// structure is an object that is not a kind.
func structure(properties map[string]spec.Schema) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}
}

// templateReference names a template.
func templateReference() spec.Schema {
	reference := structure(map[string]spec.Schema{
		"namespace": *spec.StringProperty().WithDescription("The namespace."), "name": *spec.StringProperty().WithDescription("The name."),
	})
	reference.Required = []string{"namespace", "name"}
	return *reference.WithDescription("The template.")
}

// source is where an imported template comes from.
func source(description string) spec.Schema {
	return *structure(map[string]spec.Schema{
		"kind":      *spec.StringProperty().WithDescription("The kind of the source: http, oci or pvc."),
		"reference": *spec.StringProperty().WithDescription("The URL without a user, a query and a fragment, the reference of the artifact, or the claim and the path of the file in it."),
		"digest":    *spec.StringProperty().WithDescription("The digest of the file, if Virtward read all of it, or of what the reference of an artifact named: sha256:HEX."),
		"verified":  *spec.BooleanProperty().WithDescription("Whether Virtward read the whole file in its own process before the import, and compared it."),
		"signer":    *spec.StringProperty().WithDescription("Who signed the artifact, if an admin requires a signature."),
		"import":    *spec.StringProperty().WithDescription("The name of the VirtualMachineTemplateImport."),
	}).WithDescription(description)
}

// preserving is an object with any fields.
func preserving(description string) spec.Schema {
	return spec.Schema{
		SchemaProps:      spec.SchemaProps{Description: description, Type: []string{"object"}},
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
	}
}
