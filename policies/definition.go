package policies

import (
	"context" //nolint:depguard // a library needs one; nothing here waits
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/diagnostics"
)

// schema validates values: a definition of a resource, or the schema of parameters.
type schema struct {
	structural *structuralschema.Structural
	validator  boundedValidator
	// rules are nil for the schema of parameters.
	rules *schemacel.Validator
}

// definition is the definition of VirtualMachinePolicy. Policies are validated against it, so the bounds and the
// messages are the same with and without an API server.
var definition = sync.OnceValues(func() (*schema, error) {
	data, err := policyv1alpha1.Definition("virtualmachinepolicies")
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return nil, fmt.Errorf("the definition of VirtualMachinePolicy: %w", err)
	}
	s, err := newSchema(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	s.rules = schemacel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s, nil
})

// newSchema prepares a schema, without its rules in CEL.
func newSchema(props *apiextensionsv1.JSONSchemaProps) (*schema, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, errs[0]
	}
	_, openAPI, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	return &schema{structural: structural, validator: boundedValidator{openAPI}}, nil
}

// fit adds the defaults of the schema, and returns what does not fit it.
func (s *schema) fit(value map[string]any, path *field.Path) field.ErrorList {
	defaulting.Default(value, s.structural)
	errs := validation.ValidateCustomResource(path, value, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(path, s.structural, value)...)
	if len(errs) > 0 || s.rules == nil { // the rules assume that the rest is valid
		return errs
	}
	errs, _ = s.rules.Validate(context.Background(), path, s.structural, value, nil, celconfig.RuntimeCELCostBudget)
	return errs
}

// fitted returns the spec of a policy with its defaults, and problems if it does not fit its definition; then the spec
// is unchanged. Of the metadata, only the name is validated.
func fitted(policy *policyv1alpha1.VirtualMachinePolicy) (policyv1alpha1.VirtualMachinePolicySpec, []diagnostics.Problem) {
	s, err := definition()
	if err != nil { // the definition is embedded, and a test reads it
		return policy.Spec, []diagnostics.Problem{{Field: "spec", Message: err.Error()}}
	}
	bare := &policyv1alpha1.VirtualMachinePolicy{Spec: policy.Spec}
	bare.Name = policy.Name
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(bare)
	if err != nil {
		return policy.Spec, []diagnostics.Problem{{Field: "spec", Message: message(err.Error())}}
	}
	delete(object, "status")
	var problems []diagnostics.Problem
	if policy.Name == "" {
		problems = append(problems, diagnostics.Problem{Field: "metadata.name", Message: "Required value: a policy needs a name"})
		object["metadata"] = map[string]any{"name": "unnamed"}
	}
	if problems = append(problems, problemsOf(s.fit(object, nil))...); len(problems) > 0 {
		return policy.Spec, problems
	}
	complete := &policyv1alpha1.VirtualMachinePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, complete); err != nil {
		return policy.Spec, []diagnostics.Problem{{Field: "spec", Message: message(err.Error())}}
	}
	return complete.Spec, nil
}
