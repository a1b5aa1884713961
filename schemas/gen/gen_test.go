package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSchemasIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	text := "package a\n\nvar Schemas = map[string]string{\n\"vm\": `openAPIV3Schema: {type: object}`,\n\"other\": `a` + \"b\",\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := schemasIn(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"vm": "openAPIV3Schema: {type: object}"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheArchiveIsReproducible(t *testing.T) {
	entries := map[string][]byte{}
	if err := addDefinitions(entries, "../../charts/virtward/definitions"); err != nil {
		t.Fatal(err)
	}
	first, err := archived(entries)
	if err != nil {
		t.Fatal(err)
	}
	second, err := archived(entries)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the archives differ: %v", err)
	}
}

func TestDescriptionsAreLeftOut(t *testing.T) {
	value := map[string]any{"description": "text", "properties": map[string]any{"description": map[string]any{"type": "string", "description": "text"}}}
	withoutDescriptions(value)
	want := map[string]any{"properties": map[string]any{"description": map[string]any{"type": "string"}}}
	if diff := cmp.Diff(want, value); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
