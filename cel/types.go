package cel

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apicel "k8s.io/apiserver/pkg/cel"

	"github.com/virtward/virtward/api/apikinds"
)

//go:generate go run ./gen ../test/crds schemas

//go:embed schemas/*.json
var schemaFiles embed.FS

// Kinds are the kinds that object may be, sorted.
func Kinds() []string {
	kinds := append(apikinds.Names(apikinds.Machines()), apikinds.Plugins.Kind)
	slices.Sort(kinds)
	return kinds
}

// The sizes that a cost estimate assumes, unless a schema allows less: those of a large VM. They are hints for an
// advice; the limits at run time hold whatever an estimate said.
const (
	hintItems  = 64
	hintKeys   = 64
	hintString = 256
)

// identifier is what can follow a dot in an expression.
var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// declarer turns schemas into types.
type declarer struct {
	named map[string]*apicel.DeclType
	// open makes an object without properties one of unknown content, as in the parameters of a policy. In
	// KubeVirt's API it is an empty one, such as masquerade: {}.
	open bool
}

// embedded is a schema of this package, declared as a type of its name; it is nil if there is none.
func (d *declarer) embedded(name string) (*apicel.DeclType, error) {
	if known, ok := d.named[name]; ok {
		return known, nil
	}
	content, err := schemaFiles.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("there is no schema of %s", name)
	}
	schema := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(content, schema); err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", name, err)
	}
	declared, err := d.declare(name, schema)
	if err != nil {
		return nil, err
	}
	d.named[name] = declared
	return declared, nil
}

// declare is the type of a schema. Objects are named by their path, which is what messages call them.
func (d *declarer) declare(path string, s *apiextensionsv1.JSONSchemaProps) (*apicel.DeclType, error) {
	if s.Ref != nil {
		return d.embedded(*s.Ref)
	}
	if s.XIntOrString {
		return apicel.DynType, nil
	}
	switch s.Type {
	case "boolean":
		return apicel.BoolType, nil
	case "integer":
		return apicel.IntType, nil
	case "number":
		return apicel.DoubleType, nil
	case "string":
		return sized(apicel.NewSimpleTypeWithMinSize("string", celgo.StringType, types.String(""), 2), s.MaxLength, hintString), nil
	case "array":
		elem := apicel.DynType
		if s.Items != nil && s.Items.Schema != nil {
			var err error
			if elem, err = d.declare(path+".item", s.Items.Schema); err != nil {
				return nil, err
			}
		}
		return apicel.NewListType(elem, atMost(s.MaxItems, hintItems)), nil
	case "object":
		return d.object(path, s)
	default:
		return apicel.DynType, nil
	}
}

func (d *declarer) object(path string, s *apiextensionsv1.JSONSchemaProps) (*apicel.DeclType, error) {
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		elem, err := d.declare(path+".value", s.AdditionalProperties.Schema)
		if err != nil {
			return nil, err
		}
		return apicel.NewMapType(apicel.StringType, elem, atMost(s.MaxProperties, hintKeys)), nil
	}
	if d.open && !allIdentifiers(s.Properties) || len(s.Properties) == 0 && (d.open || s.XPreserveUnknownFields != nil) {
		return apicel.NewMapType(apicel.StringType, apicel.DynType, atMost(s.MaxProperties, hintKeys)), nil
	}
	fields := make(map[string]*apicel.DeclField, len(s.Properties))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		declared, err := d.declare(path+"."+name, &property)
		if err != nil {
			return nil, err
		}
		fields[name] = apicel.NewDeclField(name, declared, false, nil, nil)
	}
	return apicel.NewObjectType(path, fields), nil
}

// allIdentifiers reports whether every property can be read with a dot. An object with others is a map, so that they
// are read by their keys, as in params['max-cores'].
func allIdentifiers(properties map[string]apiextensionsv1.JSONSchemaProps) bool {
	for name := range properties {
		if !identifier.MatchString(name) {
			return false
		}
	}
	return true
}

func atMost(limit *int64, hint int64) int64 {
	if limit != nil && *limit >= 0 {
		return min(*limit, hint)
	}
	return hint
}

func sized(t *apicel.DeclType, limit *int64, hint int64) *apicel.DeclType {
	t.MaxElements = atMost(limit, hint)
	return t
}

// provider knows the types of a scope: those of the environment, and those of the scope's own parameters and
// variables. It notes which fields do not exist, to suggest similar ones.
type provider struct {
	types.Provider
	own    map[string]*apicel.DeclType
	shared map[string]*apicel.DeclType
	missed map[string]*apicel.DeclType // the field that is not there → the type that does not have it
}

// registered are the types that a type consists of, by name.
func registered(into map[string]*apicel.DeclType, declared ...*apicel.DeclType) map[string]*apicel.DeclType {
	for _, t := range declared {
		if t == nil {
			continue
		}
		if t.IsObject() {
			if _, known := into[t.TypeName()]; known {
				continue
			}
			into[t.TypeName()] = t
			for _, field := range t.Fields {
				registered(into, field.Type)
			}
		}
		registered(into, t.ElemType)
	}
	return into
}

func (p *provider) find(name string) (*apicel.DeclType, bool) {
	if t, ok := p.own[name]; ok {
		return t, true
	}
	t, ok := p.shared[name]
	return t, ok
}

// FindStructType is the type of a name.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if t, ok := p.find(name); ok {
		return types.NewTypeTypeWithParam(t.CelType()), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames are the fields of a type.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if t, ok := p.find(name); ok {
		return slices.Sorted(maps.Keys(t.Fields)), true
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType is the type of a field.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	t, ok := p.find(name)
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	if found, ok := t.Fields[field]; ok {
		return &types.FieldType{Type: found.Type.CelType()}, true
	}
	p.missed[field] = t
	return nil, false
}

// NewValue always fails: policies do not create objects.
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if _, ok := p.find(name); ok {
		return types.NewErr("an expression cannot make a %s", name)
	}
	return p.Provider.NewValue(name, fields)
}
