package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The schemas are those of the definitions, and no others lie about.
func TestSchemasAreFresh(t *testing.T) {
	fresh := t.TempDir()
	if err := run("../../test/crds", fresh); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, fresh), read(t, "../schemas")); diff != "" {
		t.Errorf("the schemas are out of date, run: go generate ./cel (-fresh +here):\n%s", diff)
	}
}

func read(t *testing.T, folder string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		contents[filepath.Base(name)] = string(content)
	}
	return contents
}

func TestMetadataIsTyped(t *testing.T) {
	schema := reduce("", schema{Type: "object", Properties: map[string]schema{
		"metadata": {Type: "object"},
		"memory":   {XIntOrString: true, Pattern: "^x$"},
		"port":     {XIntOrString: true},
		"count":    {Type: "integer", Format: "int32"},
	}})
	metadata := schema.Properties["metadata"]
	var names []string
	for name := range metadata.Properties {
		names = append(names, name)
	}
	for _, want := range []string{"name", "namespace", "labels", "annotations", "ownerReferences", "deletionTimestamp"} {
		if !slices.Contains(names, want) {
			t.Errorf("metadata has no %s", want)
		}
	}
	if got := schema.Properties["memory"]; got.Type != "string" || got.Format != "quantity" {
		t.Errorf("a quantity is %v", got)
	}
	if got := schema.Properties["port"]; got.Type != "" || !got.XIntOrString {
		t.Errorf("a port is %v", got)
	}
	if got := schema.Properties["count"]; got.Type != "integer" || got.Format != "" {
		t.Errorf("a number is %v", got)
	}
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	if err := run(t.TempDir(), t.TempDir()); err == nil || !os.IsNotExist(err) {
		t.Errorf("no definitions: %v", err)
	}
}
