package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// ParamsResolver returns the data of a ConfigMap; found is false if it does not exist. The data is not changed.
type ParamsResolver func(namespace, name string) (data map[string]string, found bool)

// maxParams bounds the values of a policy and their schema, in bytes of JSON.
const maxParams = 64 << 10

// params are the parameters, which expressions read as params.
type params struct {
	// value is decoded JSON; nil if there are no parameters.
	value map[string]any
	// declared is the schema, for the types of expressions; nil for any value.
	declared *apiextensionsv1.JSONSchemaProps
	// missing is why the values do not exist; empty if they do. skip reports whether the policy is skipped then.
	missing string
	skip    bool
}

var (
	paramsPath    = field.NewPath("spec", "params")
	valuesPath    = paramsPath.Child("values")
	schemaPath    = paramsPath.Child("schema")
	configMapPath = paramsPath.Child("configMap")
)

// readParams finds the parameters, and validates them against their schema.
func readParams(spec *policyv1alpha1.PolicyParams, resolve ParamsResolver) (params, field.ErrorList) {
	p := params{}
	if spec == nil {
		return p, nil
	}
	var s *paramsSchema
	if spec.Schema != nil {
		var errs field.ErrorList
		if s, errs = readSchema(spec.Schema.Raw); len(errs) > 0 {
			return p, errs
		}
		p.declared = s.declared
	}
	switch {
	case spec.Values != nil:
		value, err := readObject(spec.Values.Raw)
		if err != nil {
			return p, field.ErrorList{field.Invalid(valuesPath, field.OmitValueType{}, err.Error())}
		}
		p.value = value
		return p, s.check(value, valuesPath)
	case spec.ConfigMap != nil:
		return p.fromConfigMap(spec, s, resolve)
	}
	return p, nil
}

func (p params) fromConfigMap(spec *policyv1alpha1.PolicyParams, s *paramsSchema, resolve ParamsResolver) (params, field.ErrorList) {
	named := spec.ConfigMap.Namespace + "/" + spec.ConfigMap.Name
	var data map[string]string
	found := false
	if resolve != nil {
		data, found = resolve(spec.ConfigMap.Namespace, spec.ConfigMap.Name)
	}
	if !found {
		p.missing, p.skip = "there is no ConfigMap "+named, spec.ParameterNotFoundAction == policyv1alpha1.PolicyParameterAllow
		return p, nil
	}
	size := 0
	for key, text := range data {
		size += len(key) + len(text)
	}
	if size > maxParams {
		return p, field.ErrorList{field.Invalid(configMapPath, named, fmt.Sprintf("it has %d bytes: at most %d", size, maxParams))}
	}
	var errs field.ErrorList
	p.value, errs = typed(data, s, named)
	if len(errs) == 0 {
		errs = s.check(p.value, configMapPath)
	}
	return p, errs
}

// typed parses the values of a ConfigMap. Without a schema they are strings. With a schema, values of other types are
// parsed as YAML, and keys that it does not declare are ignored.
func typed(data map[string]string, s *paramsSchema, named string) (map[string]any, field.ErrorList) {
	value := make(map[string]any, len(data))
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if s == nil {
			value[key] = data[key]
			continue
		}
		property, known := s.structural.Properties[key]
		if !known {
			continue
		}
		if property.Type == "string" || property.XIntOrString {
			value[key] = data[key]
			continue
		}
		read, err := ReadValue(data[key])
		if err != nil {
			errs = append(errs, field.Invalid(configMapPath, named, fmt.Sprintf("the value of key %s is not valid YAML: %v", key, err)))
			continue
		}
		value[key] = read
	}
	return value, errs
}

// paramsSchema is a schema of parameters.
type paramsSchema struct {
	*schema

	declared *apiextensionsv1.JSONSchemaProps
	// states are the sizes of the patterns.
	states map[string]int
}

// check adds the defaults of the schema, and returns errors for values that do not fit it and for undeclared
// parameters, as many as a policy has problems. A nil schema accepts everything.
func (s *paramsSchema) check(value map[string]any, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	completed := work{left: maxCompleted}
	if completed.complete(value, s.structural); completed.left < 0 {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("with the defaults of the schema, the values have more than %d bytes: use fewer values, or smaller defaults", maxCompleted))}
	}
	given := runtime.DeepCopyJSON(value)
	defaulting.Default(value, s.structural)
	steps := work{left: maxSteps, states: s.states}
	if steps.validate(value, s.declared, 0); steps.left < 0 {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "it takes too long to validate the values: use fewer values, or a schema with fewer branches, enum entries and patterns")}
	}
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(given, s.structural, false, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(unknown)
	for _, name := range unknown {
		errs = append(errs, field.Invalid(path, name, "the schema does not declare this parameter"))
	}
	errs = append(errs, s.fit(value, path)...)
	return errs[:min(len(errs), maxProblems)]
}

// readSchema parses the schema of parameters. Unknown fields are an error.
func readSchema(raw []byte) (*paramsSchema, field.ErrorList) {
	reject := func(err error) (*paramsSchema, field.ErrorList) {
		return nil, field.ErrorList{field.Invalid(schemaPath, field.OmitValueType{}, message(err.Error()))}
	}
	if len(raw) > maxParams {
		return reject(fmt.Errorf("it has %d bytes: at most %d", len(raw), maxParams))
	}
	props := &apiextensionsv1.JSONSchemaProps{}
	strict, err := sigsjson.UnmarshalStrict(raw, props)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return reject(err)
	}
	if props.Type == "" {
		props.Type = "object"
	}
	if props.Type != "object" {
		return reject(fmt.Errorf("the type must be object, not %q", props.Type))
	}
	states, err := patternStates(props)
	if err != nil {
		return reject(err)
	}
	s, err := newSchema(props)
	if err != nil {
		return reject(err)
	}
	return &paramsSchema{s, props, states}, nil
}

func readObject(raw []byte) (map[string]any, error) {
	if len(raw) > maxParams {
		return nil, fmt.Errorf("they have %d bytes: at most %d", len(raw), maxParams)
	}
	var value map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
		return nil, err
	}
	return value, nil
}

// ReadValue parses a parameter's value, which is YAML. An integer is an int64, as in objects.
func ReadValue(text string) (any, error) {
	if strings.Contains(text, "*") { // an alias repeats what its anchor names, and aliases in it repeat that
		var document yamlv3.Node
		if err := yamlv3.Unmarshal([]byte(text), &document); err != nil {
			return nil, err
		}
		if yamlBytes(&document, map[*yamlv3.Node]int{}) > maxCompleted {
			return nil, fmt.Errorf("with its aliases, it has more than %d bytes", maxCompleted)
		}
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	var value any
	err = sigsjson.UnmarshalCaseSensitivePreserveInts(data, &value)
	return value, err
}

// yamlBytes returns how many bytes a node has with what its aliases repeat, up to the bound. known are nodes that were counted.
func yamlBytes(node *yamlv3.Node, known map[*yamlv3.Node]int) int {
	if bytes, counted := known[node]; counted {
		return bytes
	}
	known[node] = 0 // while it is counted: the decoder rejects what contains itself
	bytes := 1 + len(node.Value)
	if node.Kind == yamlv3.AliasNode {
		bytes = yamlBytes(node.Alias, known)
	}
	for _, inner := range node.Content {
		bytes = min(bytes+yamlBytes(inner, known), maxCompleted+1)
	}
	known[node] = bytes
	return bytes
}
