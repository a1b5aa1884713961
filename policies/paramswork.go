package policies

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/virtward/virtward/cel"
)

// The libraries that add defaults and validate have no bounds: a default in a default multiplies the values, and each value is
// compared with each branch of anyOf and each entry of an enum. So both are counted first.

const (
	// maxCompleted bounds the values with their defaults, in bytes.
	maxCompleted = 2 * maxParams
	// maxSteps bounds the validation of the values. A step applies one schema to one value.
	maxSteps = 60_000
	// maxDepth bounds the schemas in a schema, one in the other: CEL compares types of maps in time that grows with their depth.
	maxDepth = 32
	// maxSchemaPatterns bounds the compiled patterns of a schema together, in bytes.
	maxSchemaPatterns = 256 << 10
	// What a step pays for.
	entriesPerStep, bytesPerStep, matchedPerStep, pairsPerStep = 4, 64, 128, 512
	// propertiesPerByte are the properties whose defaults are looked up for the price of a byte.
	propertiesPerByte = 16
)

// work counts down what is left of a bound. It is negative if the bound is exceeded.
type work struct {
	left int
	// states are the sizes of the patterns of the schema.
	states map[string]int
}

// complete counts the bytes of a value with the defaults of its schema.
func (w *work) complete(value any, s *structuralschema.Structural) {
	if s == nil {
		s = &structuralschema.Structural{}
	}
	if value == nil {
		value = s.Default.Object
	}
	const punctuation = 2
	w.left -= punctuation + len(s.Properties)/propertiesPerByte
	if w.left < 0 {
		return
	}
	switch value := value.(type) {
	case string:
		w.left -= len(value)
	case []any:
		for i := range value {
			w.complete(value[i], s.Items)
		}
	case map[string]any:
		w.members(value, s)
	}
}

func (w *work) members(members map[string]any, s *structuralschema.Structural) {
	for name, member := range members {
		w.left -= len(name)
		if property, known := s.Properties[name]; known {
			w.complete(member, &property)
		} else if s.AdditionalProperties != nil {
			w.complete(member, s.AdditionalProperties.Structural)
		} else {
			w.complete(member, nil)
		}
	}
	for name, property := range s.Properties {
		if _, found := members[name]; !found && property.Default.Object != nil && w.left >= 0 {
			w.left -= len(name)
			w.complete(nil, &property)
		}
	}
}

// validate counts the steps of the validation of a value, whose path has so many bytes.
func (w *work) validate(value any, s *apiextensionsv1.JSONSchemaProps, path int) {
	if s == nil {
		return
	}
	w.left -= 1 + len(s.Required) + len(s.Required)*len(s.Required)/pairsPerStep + len(s.Properties) + len(s.Enum)/entriesPerStep + path/bytesPerStep
	if w.left < 0 {
		return
	}
	for i := range s.Enum {
		w.left -= len(s.Enum[i].Raw) / bytesPerStep
	}
	for _, branches := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range branches {
			w.validate(value, &branches[i], path)
		}
	}
	w.validate(value, s.Not, path)
	switch value := value.(type) {
	case string:
		w.left -= len(value)/bytesPerStep + min(len(value)*w.states[s.Pattern]/matchedPerStep, maxSteps+1)
	case []any:
		if s.Items != nil {
			for i := range value {
				w.validate(value[i], s.Items.Schema, path)
			}
		}
	case map[string]any:
		for name, member := range value {
			if property, known := s.Properties[name]; known {
				w.validate(member, &property, path+len(name))
			} else if s.AdditionalProperties != nil {
				w.validate(member, s.AdditionalProperties.Schema, path+len(name))
			}
		}
	}
}

// patternStates returns the sizes of the patterns of a schema, before they are compiled. It fails for a schema that exceeds a bound.
func patternStates(s *apiextensionsv1.JSONSchemaProps) (map[string]int, error) {
	states, total := map[string]int{}, uint64(0)
	var failed error
	visitSchemas(s, 0, func(s *apiextensionsv1.JSONSchemaProps, depth int) {
		if depth > maxDepth {
			failed = fmt.Errorf("it is too deep: at most %d schemas, one in the other", maxDepth)
		}
		if _, known := states[s.Pattern]; known || s.Pattern == "" || failed != nil {
			return
		}
		var bytes uint64
		states[s.Pattern], bytes = cel.PatternSize(s.Pattern)
		if total += bytes; total > maxSchemaPatterns {
			failed = fmt.Errorf("the patterns take more than %d bytes of memory together when they are compiled; repeat fewer characters", maxSchemaPatterns)
		}
	})
	return states, failed
}

// visitSchemas calls a function for a schema and those in it, with their depths. Those below maxDepth are left out.
func visitSchemas(s *apiextensionsv1.JSONSchemaProps, depth int, visit func(s *apiextensionsv1.JSONSchemaProps, depth int)) {
	if s == nil {
		return
	}
	visit(s, depth)
	if depth++; depth > maxDepth+1 {
		return
	}
	for _, schemas := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range schemas {
			visitSchemas(&schemas[i], depth, visit)
		}
	}
	visitSchemas(s.Not, depth, visit)
	if s.Items != nil {
		visitSchemas(s.Items.Schema, depth, visit)
	}
	if s.AdditionalProperties != nil {
		visitSchemas(s.AdditionalProperties.Schema, depth, visit)
	}
	for _, property := range s.Properties {
		visitSchemas(&property, depth, visit)
	}
}
