package main

import (
	"os"
	"testing"

	"github.com/virtward/virtward/api/architectures"
)

// Writing the files again changes nothing.
func TestGenerated(t *testing.T) {
	names := architectures.Names()
	written, err := os.ReadFile("../../policy/v1alpha1/zz_generated.architectures.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := goType(names); string(got) != string(written) {
		t.Errorf("the type is out of date; run: go generate ./api/...\n%s", got)
	}
	schema, err := os.ReadFile("../../../charts/virtward-common-templates/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := rewrite(schema, names)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(schema) {
		t.Errorf("the schema is out of date; run: go generate ./api/...\n%s", got)
	}
}

func TestRewrite(t *testing.T) {
	const before, after = `{"a": 1, "architecture": {"enum": ["x"]}}`, `{"a": 1, "architecture": {"enum": ["y", "z"]}}`
	got, err := rewrite([]byte(before), []string{"y", "z"})
	if err != nil || string(got) != after {
		t.Errorf("%s, %v", got, err)
	}
	for _, broken := range []string{`{}`, before + before} {
		if got, err := rewrite([]byte(broken), []string{"y"}); err == nil {
			t.Errorf("%s became %s", broken, got)
		}
	}
}
