package cel

import (
	"encoding/json"
	"math"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// typed is a value as its schema wants it: 5 is an int where the schema says integer, and a double where it says
// number, in any notation. YAML and JSON do not distinguish the two, so a whole number without a schema is an
// int. Values that do not fit do not change: callers validate parameters.
func typed(value any, schema *apiextensionsv1.JSONSchemaProps) any {
	if schema == nil {
		schema = &apiextensionsv1.JSONSchemaProps{}
	}
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for key, entry := range value {
			result[key] = typed(entry, schemaOf(schema, key))
		}
		return result
	case []any:
		var items *apiextensionsv1.JSONSchemaProps
		if schema.Items != nil {
			items = schema.Items.Schema
		}
		result := make([]any, len(value))
		for i, item := range value {
			result[i] = typed(item, items)
		}
		return result
	case int:
		return typedInt(int64(value), schema)
	case int64:
		return typedInt(value, schema)
	case json.Number:
		if i, err := value.Int64(); err == nil {
			return typedInt(i, schema)
		}
		return value
	case float64:
		if schema.Type != "number" && value == math.Trunc(value) && math.Abs(value) < 1<<53 {
			return int64(value)
		}
		return value
	default:
		return value
	}
}

func typedInt(value int64, schema *apiextensionsv1.JSONSchemaProps) any {
	if schema.Type == "number" {
		return float64(value)
	}
	return value
}

// schemaOf is the schema of an entry, nil if there is none.
func schemaOf(schema *apiextensionsv1.JSONSchemaProps, key string) *apiextensionsv1.JSONSchemaProps {
	if property, ok := schema.Properties[key]; ok {
		return &property
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Schema
	}
	return nil
}
