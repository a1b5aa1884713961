package schemas

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Schema is the schema of one version of a kind. It is safe for concurrent use.
type Schema struct {
	structural *structuralschema.Structural
	// values validates single values, and rules runs the schema's CEL rules; rules is nil without any.
	values func() (validation.SchemaValidator, error)
	rules  func() *cel.Validator
	// definition has the names and the scope of the kind, without versions.
	definition   apiextensionsv1.CustomResourceDefinitionSpec
	subresources *apiextensionsv1.CustomResourceSubresources
}

// Plural returns the plural name of the kind.
func (s *Schema) Plural() string { return s.definition.Names.Plural }

// namespaced reports whether the objects of the kind are in namespaces.
func (s *Schema) namespaced() bool { return s.definition.Scope == apiextensionsv1.NamespaceScoped }

// ignoresStatus reports whether the API server ignores the status at create, because it is a subresource.
func (s *Schema) ignoresStatus() bool { return s.subresources != nil && s.subresources.Status != nil }

// New returns the schema of a version of a definition, or that of its first version if it does not have this one.
func New(definition *apiextensionsv1.CustomResourceDefinitionSpec, version string) (*Schema, error) {
	if len(definition.Versions) == 0 {
		return nil, errors.New("the definition has no version")
	}
	served := &definition.Versions[0]
	for i := range definition.Versions {
		if definition.Versions[i].Name == version {
			served = &definition.Versions[i]
		}
	}
	if served.Schema == nil || served.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", served.Name)
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(served.Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	return &Schema{
		structural: structural, subresources: served.Subresources,
		definition: apiextensionsv1.CustomResourceDefinitionSpec{Group: definition.Group, Names: definition.Names, Scope: definition.Scope},
		values: sync.OnceValues(func() (validation.SchemaValidator, error) {
			v, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
			return v, err
		}),
		rules: sync.OnceValue(func() *cel.Validator { return cel.NewValidator(structural, true, celconfig.PerCallLimit) }),
	}, nil
}

// FieldsOf returns the names of the fields of a field of the objects, sorted.
func (s *Schema) FieldsOf(name string) []string {
	return slices.Sorted(maps.Keys(s.structural.Properties[name].Properties))
}
