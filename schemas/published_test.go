package schemas

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/api/apikinds"
)

// TestPublished reads the schema of a kind from an OpenAPI document, which has references to the schemas of metadata.
func TestPublished(t *testing.T) {
	const document = `
components:
  schemas:
    io.k8s.ObjectMeta: {type: object, properties: {name: {type: string}}}
    io.kubevirt.v1.VirtualMachineList: {x-kubernetes-group-version-kind: [{group: kubevirt.io, version: v1, kind: VirtualMachineList}], type: object}
    io.kubevirt.v1.VirtualMachine:
      x-kubernetes-group-version-kind: [{group: kubevirt.io, version: v1, kind: VirtualMachine}]
      type: object
      required: [spec]
      properties:
        apiVersion: {type: string}
        kind: {type: string}
        metadata: {description: the metadata, allOf: [{$ref: '#/components/schemas/io.k8s.ObjectMeta'}]}
        spec:
          type: object
          properties:
            mode: {type: string, enum: [a, b], x-kubernetes-validations: [{Rule: self != 'b', Message: not b}]}
            template: {type: object, x-kubernetes-embedded-resource: true, properties: {metadata: {$ref: '#/components/schemas/io.k8s.ObjectMeta'}}}
        status: {type: object, required: [phase], properties: {phase: {type: string}}}
`
	kind := apikinds.VirtualMachines.GroupVersionKind
	embedded := virtualMachines(t, Newest())
	found, err := embedded.Published(object(t, document), kind)
	if err != nil || found == nil {
		t.Fatalf("%v, %v", found, err)
	}
	for text, want := range map[string][]string{
		"spec: {mode: a}":        nil,
		"spec: {mode: b}":        {"FieldValueInvalid spec.mode"},
		"spec: {mode: c}":        {"FieldValueNotSupported spec.mode"},
		"{}":                     {"FieldValueRequired spec"},
		"{spec: {}, status: {}}": nil, // it is a subresource
		"spec: {template: {metadata: {labels: {}}}}": {"FieldValueRequired spec.template.apiVersion", "FieldValueRequired spec.template.kind"},
	} {
		errs, err := found.Validate(t.Context(), object(t, text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, problems(errs), sorted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if unknown := found.Unknown(object(t, "metadata: {name: a}\nspec: {mod: a}")); len(unknown) != 1 || unknown[0].Path != "spec.mod" || unknown[0].Meant != "mode" {
		t.Errorf("unknown fields %+v", unknown)
	}
	if found.Plural() != "virtualmachines" {
		t.Errorf("the plural is %q", found.Plural())
	}
	for _, other := range []string{"{}", "components: {schemas: []}", "components: {schemas: {a: {x-kubernetes-group-version-kind: [1]}, b: 2}}"} {
		if found, err := embedded.Published(object(t, other), kind); found != nil || err != nil {
			t.Errorf("%s: %v, %v", other, found, err)
		}
	}
	broken := "components: {schemas: {a: {type: object, properties: [], x-kubernetes-group-version-kind: [{group: kubevirt.io, version: v1, kind: VirtualMachine}]}}}"
	if _, err := embedded.Published(object(t, broken), kind); err == nil {
		t.Error("a schema that cannot be read is accepted")
	}
}
