package schemas

import (
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Published returns the schema of the same kind that an API server publishes for all users, or nil if it publishes none. The
// document is that of OpenAPI v3 for the group and version. It lacks the scope and the subresources, which are those of s.
func (s *Schema) Published(document map[string]any, kind schema.GroupVersionKind) (*Schema, error) {
	components, _ := document["components"].(map[string]any)
	published, _ := components["schemas"].(map[string]any)
	for _, value := range published {
		fields, _ := value.(map[string]any)
		if !describes(fields, kind) {
			continue
		}
		withoutReferences(fields)
		data, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("the published schema of %s: %w", kind.Kind, err)
		}
		props := &apiextensionsv1.JSONSchemaProps{}
		if err := json.Unmarshal(data, props); err != nil {
			return nil, fmt.Errorf("the published schema of %s: %w", kind.Kind, err)
		}
		definition := s.definition
		definition.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: kind.Version, Subresources: s.subresources, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
		}}
		found, err := New(&definition, kind.Version)
		if err != nil {
			return nil, fmt.Errorf("the published schema of %s: %w", kind.Kind, err)
		}
		return found, nil
	}
	return nil, nil
}

// describes reports whether a published schema is that of a kind.
func describes(fields map[string]any, kind schema.GroupVersionKind) bool {
	kinds, _ := fields["x-kubernetes-group-version-kind"].([]any)
	return slices.ContainsFunc(kinds, func(value any) bool {
		of, _ := value.(map[string]any)
		return of["group"] == kind.Group && of["version"] == kind.Version && of["kind"] == kind.Kind
	})
}

// withoutReferences replaces references to other schemas, which are those of metadata, as in a definition.
func withoutReferences(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			if refers(child) {
				v[name] = map[string]any{"type": "object"}
				continue
			}
			withoutReferences(child)
		}
	case []any:
		for _, child := range v {
			withoutReferences(child)
		}
	}
}

// refers reports whether a schema is a reference, or one with a description.
func refers(value any) bool {
	fields, _ := value.(map[string]any)
	if _, reference := fields["$ref"].(string); reference {
		return true
	}
	all, _ := fields["allOf"].([]any)
	return len(all) == 1 && refers(all[0])
}
