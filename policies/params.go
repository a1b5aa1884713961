package policies

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// ParamsResolver finds the data of a ConfigMap; found is false if there is none. What it returns is not changed.
type ParamsResolver func(namespace, name string) (data map[string]string, found bool)

// maxParams bounds the values of a policy and their schema, in bytes of JSON.
const maxParams = 64 << 10

// params are what the expressions of a policy read as params.
type params struct {
	// value is in the form of JSON; nil if there is none.
	value map[string]any
	// declared is the schema, for the types of expressions; nil if any value may be there.
	declared *apiextensionsv1.JSONSchemaProps
	// missing says why there are no values although expressions read some; skip, that the policy is not asked then.
	missing string
	skip    bool
}

var (
	paramsPath    = field.NewPath("spec", "params")
	valuesPath    = paramsPath.Child("values")
	schemaPath    = paramsPath.Child("schema")
	configMapPath = paramsPath.Child("configMap")
)

// readParams finds the parameters, and holds them to their schema.
func readParams(spec *policyv1alpha1.PolicyParams, resolve ParamsResolver) (params, field.ErrorList) {
	p := params{}
	if spec == nil {
		return p, nil
	}
	var s *schema
	if spec.Schema != nil {
		var errs field.ErrorList
		if p.declared, s, errs = readSchema(spec.Schema.Raw); len(errs) > 0 {
			return p, errs
		}
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

func (p params) fromConfigMap(spec *policyv1alpha1.PolicyParams, s *schema, resolve ParamsResolver) (params, field.ErrorList) {
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
		return p, field.ErrorList{field.Invalid(configMapPath, named, fmt.Sprintf("it holds %d bytes, where %d are the most", size, maxParams))}
	}
	var errs field.ErrorList
	p.value, errs = typed(data, s, named)
	if len(errs) == 0 {
		errs = s.check(p.value, configMapPath)
	}
	return p, errs
}

// typed reads the values of a ConfigMap. Without a schema they are strings; with one, what it says is something
// else is read as YAML, and what it does not name is left out.
func typed(data map[string]string, s *schema, named string) (map[string]any, field.ErrorList) {
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
			errs = append(errs, field.Invalid(configMapPath, named, fmt.Sprintf("its key %s is no YAML: %v", key, err)))
			continue
		}
		value[key] = read
	}
	return value, errs
}

// check fills in the defaults of the schema, and says what does not fit it, or what it does not name. A nil schema
// takes everything.
func (s *schema) check(value map[string]any, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(runtime.DeepCopyJSON(value), s.structural, false, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(unknown)
	for _, name := range unknown {
		errs = append(errs, field.Invalid(path, name, "the schema has no such parameter"))
	}
	return append(errs, s.fit(value, path)...)
}

// readSchema reads the schema of parameters. What it does not understand is an error.
func readSchema(raw []byte) (*apiextensionsv1.JSONSchemaProps, *schema, field.ErrorList) {
	reject := func(err error) (*apiextensionsv1.JSONSchemaProps, *schema, field.ErrorList) {
		return nil, nil, field.ErrorList{field.Invalid(schemaPath, field.OmitValueType{}, message(err.Error()))}
	}
	if len(raw) > maxParams {
		return reject(fmt.Errorf("it has %d bytes, where %d are the most", len(raw), maxParams))
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
		return reject(fmt.Errorf("its type is %q, but parameters are an object", props.Type))
	}
	s, err := newSchema(props, false)
	if err != nil {
		return reject(err)
	}
	s.rules = nil // parameters are checked by their schema; what is to be computed of them is the policy's
	return props, s, nil
}

func readObject(raw []byte) (map[string]any, error) {
	if len(raw) > maxParams {
		return nil, fmt.Errorf("they have %d bytes, where %d are the most", len(raw), maxParams)
	}
	var value map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
		return nil, err
	}
	return value, nil
}

// ReadValue reads a value of a parameter that is written in YAML: an integer is an int64, as everywhere in objects.
func ReadValue(text string) (any, error) {
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	var value any
	err = sigsjson.UnmarshalCaseSensitivePreserveInts(data, &value)
	return value, err
}
