package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const chart = "../virtward"

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chart, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestGenerated: the README and the schema have what values.yaml says, and each value, or its section, has a description.
func TestGenerated(t *testing.T) {
	values, err := readValues(read(t, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := withTable(string(read(t, "README.md")), values)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(read(t, "README.md")), readme); diff != "" {
		t.Errorf("go generate ./charts/gen writes README.md (-committed +generated):\n%s", diff)
	}
	schema, err := withDescriptions(read(t, "values.schema.json"), values)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(read(t, "values.schema.json")), string(schema)); diff != "" {
		t.Errorf("go generate ./charts/gen writes values.schema.json (-committed +generated):\n%s", diff)
	}
	if !json.Valid(schema) {
		t.Error("the schema is no JSON")
	}
	described := map[string]bool{}
	for _, v := range values {
		described[strings.Join(v.Path, ".")] = v.Description != ""
	}
	for _, v := range values {
		path := strings.Join(v.Path, ".")
		// Those of containers have the meaning that Kubernetes gives them.
		if v.Default != "" && !described[path] && !strings.Contains("."+path, ".resources.") && path != "pod.disruptionBudget.maxUnavailable" {
			t.Errorf("%s has no description", path)
		}
	}
}

func TestReadValues(t *testing.T) {
	got, err := readValues([]byte(`# The file.

# A section
# of two lines.
a:
  # A value.
  #
  # - an example
  b: ""
  c: [x, y]
  d: {}
e: 1
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []value{
		{Path: []string{"a"}, Description: "A section of two lines."},
		{Path: []string{"a", "b"}, Description: "A value.", Default: `""`},
		{Path: []string{"a", "c"}, Default: "[x y]"},
		{Path: []string{"a", "d"}, Default: "{}"},
		{Path: []string{"e"}, Default: "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"a: 1 # behind": "a: the comment is behind the value, and belongs above it", "- a": "the values are no map", "a: [": "did not find",
	} {
		if _, err := readValues([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, which does not say %s", text, err, want)
		}
	}
}

// TestWithDescriptions: descriptions are put in, replaced where they are, and left out below names that users choose.
func TestWithDescriptions(t *testing.T) {
	const before = `{
  "properties": {
    "a": {
      "type": "object",
      "properties": {"b": {"type": "string"}, "c": {"description": "old \"text\".", "type": "string"}, "d": {}}
    },
    "e": {
      "description": "old",
      "type": "object"
    }
  }
}`
	const want = `{
  "properties": {
    "a": {
      "description": "A.",
      "type": "object",
      "properties": {"b": {"description": "B \"x\" & y.", "type": "string"}, "c": {"description": "C.", "type": "string"}, "d": {"description": "D."}}
    },
    "e": {
      "description": "E.",
      "type": "object"
    }
  }
}`
	values := []value{
		{Path: []string{"a"}, Description: "A."},
		{Path: []string{"a", "b"}, Description: `B "x" & y.`},
		{Path: []string{"a", "c"}, Description: "C."},
		{Path: []string{"a", "d"}, Description: "D."},
		{Path: []string{"e"}, Description: "E."},
		{Path: []string{"e", "free"}, Description: "F."},
	}
	schema := []byte(before)
	for range 2 { // the second time changes nothing
		var err error
		if schema, err = withDescriptions(schema, values); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(schema)); diff != "" {
			t.Errorf("schema (-want +got):\n%s", diff)
		}
	}
	if _, err := withDescriptions(schema, []value{{Path: []string{"a", "missing"}}}); err == nil || err.Error() != "the schema of a.missing: there is none" {
		t.Errorf("a value without a schema: %v", err)
	}
}
