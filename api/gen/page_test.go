package main

import (
	"maps"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// fieldsBelow are the names of all fields below an object that Virtward documents.
func fieldsBelow(object *apiextensionsv1.JSONSchemaProps, found map[string]bool) {
	for name, field := range object.Properties {
		found[name] = true
		if inner, _ := objectIn(&field); inner != nil {
			fieldsBelow(inner, found)
		}
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	for group := range introductions() {
		dir := "../../charts/virtward/definitions"
		if group == "template.kubevirt.io" {
			dir = "../../charts/virtward/template-definitions"
		}
		t.Run(group, func(t *testing.T) { explained(t, dir, group) })
	}
}

func explained(t *testing.T, dir, group string) {
	t.Helper()
	definitions, err := read(dir, group)
	if err != nil {
		t.Fatal(err)
	}
	text, err := page(group, definitions)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		if !strings.Contains(text, "\n## "+d.Spec.Names.Kind+"\n") {
			t.Errorf("there is nothing about %s", d.Spec.Names.Kind)
		}
		names := map[string]bool{}
		for _, part := range []string{"spec", "status"} {
			object := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
			fieldsBelow(&object, names)
		}
		for name := range maps.Keys(names) {
			if !strings.Contains(text, "\n| `"+name+"` | ") {
				t.Errorf("%s: there is nothing about the field %s", d.Spec.Names.Kind, name)
			}
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "| ") && strings.HasSuffix(line, "|  |") && !strings.Contains(line, "| metadata |") {
			t.Errorf("nothing is said of: %s", line)
		}
	}
}

func TestWhatAFieldHolds(t *testing.T) {
	yes, few := apiextensionsv1.JSON{Raw: []byte(`["a","b"]`)}, int64(3)
	for want, field := range map[string]apiextensionsv1.JSONSchemaProps{
		"text, required":       {Type: "string"},
		"`a` or `b`, required": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte(`"b"`)}}},
		"list of number, required, default `a`, `b`, at most 3": {
			Type: "array", Default: &yes, MaxItems: &few,
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "integer"}},
		},
		"time, required":     {Type: "string", Format: "date-time"},
		"anything, required": {},
	} {
		if got := kindOf(&field, true); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestADirectoryWithoutDefinitions(t *testing.T) {
	dir := t.TempDir()
	if _, err := read(dir, "a"); err == nil || err.Error() != "there are no definitions of a in "+dir {
		t.Error(err)
	}
}

func TestTypes(t *testing.T) {
	text, err := typesOf("../template/subresources/types.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n### ProcessOptions\n\nProcessOptions are the values of a template's parameters.\n\n| Field | Type | What |\n|---|---|---|\n| `parameters` | map | The values, by the names of the parameters. |\n",
		"\n| `objectParameters` | list of text | ", "\n| `path` | text, required | ", "\n| `approval` | TemplateApproval | ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "+optional") || strings.Contains(text, "### Templates") {
		t.Errorf("markers, or a type without fields:\n%s", text)
	}
}
