package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Field describes a field of a schema for its author.
type Field struct {
	// Type is string, integer, number, boolean, object, "list of object", "map of string", "integer or string", or any.
	Type string
	// Description is empty for kinds of KubeVirt: their archive has none.
	Description string
	// Default and Enum are values in JSON.
	Default string
	Enum    []string
	// Fields and Required are the names of its fields, or of those of its elements, sorted.
	Fields, Required []string
	// List reports whether it is a list.
	List bool
}

// Field returns a field by its steps: the names of fields, and any steps for elements and keys. It returns false for a field
// that the schema does not declare. Without steps, it returns the object.
func (s *Schema) Field(steps []string) (*Field, bool) {
	node := s.structural
	for _, step := range steps {
		if node = below(node, step); node == nil {
			return nil, false
		}
	}
	f := &Field{Type: typeOf(node), Description: node.Description, Default: asJSON(node.Default.Object), List: node.Items != nil}
	of := node
	if node.Items != nil {
		of = node.Items
	}
	f.Fields = slices.Sorted(maps.Keys(of.Properties))
	if v := of.ValueValidation; v != nil {
		f.Required = slices.Sorted(slices.Values(v.Required))
		for i := range v.Enum {
			f.Enum = append(f.Enum, asJSON(v.Enum[i].Object))
		}
	}
	if node.Type == "boolean" {
		f.Enum = []string{"true", "false"}
	}
	return f, true
}

func typeOf(node *structuralschema.Structural) string {
	switch {
	case node.XIntOrString:
		return "integer or string"
	case node.Items != nil:
		return "list of " + typeOf(node.Items)
	case node.AdditionalProperties != nil && node.AdditionalProperties.Structural != nil:
		return "map of " + typeOf(node.AdditionalProperties.Structural)
	case node.Type == "":
		return "any"
	}
	return node.Type
}

// asJSON returns a value of a schema; empty for none.
func asJSON(value any) string {
	if value == nil {
		return ""
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return string(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}
