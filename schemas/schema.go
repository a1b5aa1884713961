package schemas

import (
	"errors"
	"fmt"
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
	// namespaced kinds have objects in namespaces. Those with a status subresource ignore the status at create.
	namespaced, status bool
	// replicas is the path of the number of replicas; empty without a scale subresource.
	replicas string
}

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
	s := &Schema{
		structural: structural, namespaced: definition.Scope == apiextensionsv1.NamespaceScoped,
		values: sync.OnceValues(func() (validation.SchemaValidator, error) {
			v, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
			return v, err
		}),
		rules: sync.OnceValue(func() *cel.Validator { return cel.NewValidator(structural, true, celconfig.PerCallLimit) }),
	}
	if sub := served.Subresources; sub != nil {
		s.status = sub.Status != nil
		if sub.Scale != nil {
			s.replicas = sub.Scale.SpecReplicasPath
		}
	}
	return s, nil
}
