package explanation

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/provenance"
)

func TestParsePath(t *testing.T) {
	for text, want := range map[string]path{
		"":                  nil,
		"spec":              {"spec"},
		"spec.disks[0].bus": {"spec", "disks", "0", "bus"},
		"metadata.labels[app.kubernetes.io/name]": {"metadata", "labels", "app.kubernetes.io/name"},
		"requests[cpu].x":                         {"requests", "cpu", "x"},
		"open[never":                              {"open", "never"},
		"[0][1]":                                  {"0", "1"},
	} {
		if diff := cmp.Diff(want, parsePath(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func sample() *Explanation {
	return &Explanation{
		Source: "f: document 1", Object: Object{Kind: "VirtualMachine", Namespace: "n", Name: "a\nb"}, Hypervisor: "kvm", Facts: Facts{Source: "x"},
		Effective: map[string]any{
			"list":    []any{map[string]any{"mine": "a", "theirs": "b"}, "c"},
			"notes":   map[string]any{"a.b/c": "two\nlines\n"},
			"empty":   map[string]any{},
			"quoted":  "true",
			"number":  int64(1 << 60),
			"changed": "new",
		},
		Changes: []provenance.Change{
			{Path: "list[0].theirs", Value: "b", Layer: "base"},
			{Path: "list[1]", Value: "c", Layer: "preference/a\n# kvm"},
			{Path: "notes[a.b/c]", Value: "two\nlines\n", Layer: "instancetype/u1"},
			{Path: "empty", Value: map[string]any{}, Layer: "arm64"},
			{Path: "changed", Value: "old", Layer: "base"},
			{Path: "changed", Value: "new", Layer: "finalize"},
			{Path: "long", Value: strings.Repeat("x", 200), Layer: "base"},
		},
		Conflicts: []Conflict{}, Warnings: []string{"one\ntwo"},
		written: map[string]any{"list": []any{map[string]any{"mine": "a"}}, "quoted": "true", "number": int64(1 << 60), "changed": ""},
	}
}

func TestYAML(t *testing.T) {
	var out bytes.Buffer
	if err := WriteYAML(&out, []*Explanation{sample(), sample()}); err != nil {
		t.Fatal(err)
	}
	const one = `# VirtualMachine n/a b on kvm; facts: x; read from f: document 1
# warning: one two
changed: new # finalize
empty: {} # arm64
list:
- mine: a
  theirs: b # base
- c # preference/a # kvm
notes:
  a.b/c: | # instancetype/u1
    two
    lines
number: 1152921504606846976
quoted: "true"
`
	if diff := cmp.Diff(one+"---\n"+one, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := WriteTable(&out, []*Explanation{sample()}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var got [][]string
	for _, row := range rows[2:] {
		got = append(got, strings.Fields(row))
	}
	want := [][]string{
		{"FIELD", "VALUE", "LAYER"},
		{"list[0].theirs", "b", "base"},
		{"list[1]", "c", "preference/a", "#", "kvm"},
		{"notes[a.b/c]", "two", "lines", "instancetype/u1"},
		{"empty", "{}", "arm64"},
		{"changed", "old", "base"},
		{"changed", "new", "finalize"},
		{"long", strings.Repeat("x", 99) + "…", "base"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingIsFilled(t *testing.T) {
	e := sample()
	e.Changes = nil
	var out bytes.Buffer
	if err := WriteTable(&out, []*Explanation{e}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\nNo field was filled.\n") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestTidy(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"name": "a", "creationTimestamp": nil, "managedFields": []any{"x"}, "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
		"spec":     map[string]any{"asked": map[string]any{}, "filled": map[string]any{"inner": false}, "typed": map[string]any{"inner": map[string]any{}}, "zero": int64(0), "off": false},
		"status":   map[string]any{},
	}
	written := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"asked": map[string]any{}, "off": false}}
	tidy(object, written, []path{{"spec", "filled"}})
	want := map[string]any{
		"metadata": map[string]any{"name": "a"},
		"spec":     map[string]any{"asked": map[string]any{}, "filled": map[string]any{"inner": false}, "off": false},
	}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
