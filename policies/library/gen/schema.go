package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/library"
)

// Lines around the schema of library.policies in the schema of the chart's values. The rest is written by hand.
const (
	heading = `"$comment": "generated from policies/library by make generate",` + "\n"
	end     = "\n          }\n        }\n      }\n    },"
)

// rewrite replaces the generated lines: one property for each policy.
func rewrite(content []byte, entries []library.Entry) ([]byte, error) {
	before, rest, found := bytes.Cut(content, []byte(heading))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, errors.New("there are no properties of library.policies below a $comment that says that they are generated")
	}
	var b bytes.Buffer
	b.WriteString("          \"properties\": {")
	for i := range entries {
		schema, err := json.Marshal(choice(&entries[i]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entries[i].Name, err)
		}
		comma := ","
		if i == len(entries)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "\n            %q: %s%s", entries[i].Name, schema, comma)
	}
	return slices.Concat(before, []byte(heading), b.Bytes(), []byte(end), after), nil
}

// choice returns the schema of the values of one policy.
func choice(entry *library.Entry) map[string]any {
	properties := map[string]any{
		"enforcement": map[string]any{"enum": []policyv1alpha1.PolicyEnforcement{policyv1alpha1.PolicyAudit, policyv1alpha1.PolicyWarn, policyv1alpha1.PolicyDeny}},
	}
	if len(entry.Parameters) > 0 {
		params := map[string]any{}
		for i := range entry.Parameters {
			params[entry.Parameters[i].Name] = plain(&entry.Parameters[i].Schema)
		}
		properties["params"] = closed(params)
	}
	return closed(properties)
}

func closed(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// plain returns the JSON Schema of a parameter, without descriptions, which are in the policy.
func plain(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	p := map[string]any{}
	set(p, "type", schema.Type)
	set(p, "pattern", schema.Pattern)
	set(p, "minimum", schema.Minimum)
	set(p, "maximum", schema.Maximum)
	set(p, "minLength", schema.MinLength)
	set(p, "maxLength", schema.MaxLength)
	set(p, "minItems", schema.MinItems)
	set(p, "maxItems", schema.MaxItems)
	set(p, "uniqueItems", schema.UniqueItems)
	if len(schema.Enum) > 0 {
		p["enum"] = schema.Enum
	}
	if len(schema.Required) > 0 {
		p["required"] = schema.Required
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		p["items"] = plain(schema.Items.Schema)
	}
	if len(schema.Properties) > 0 {
		properties := map[string]any{}
		for name := range schema.Properties {
			property := schema.Properties[name]
			properties[name] = plain(&property)
		}
		p["properties"], p["additionalProperties"] = properties, false
	}
	return p
}

// set omits empty values.
func set[T comparable](schema map[string]any, keyword string, value T) {
	var zero T
	if value != zero {
		schema[keyword] = value
	}
}
