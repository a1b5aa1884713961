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
		Conflicts: []Conflict{{Field: "spec", Message: "Required value: too\nbare"}}, Warnings: []string{"of the cluster", "one\ntwo"}, Notes: []string{"no\teffect"}, factsWarnings: 1,
		written: map[string]any{"list": []any{map[string]any{"mine": "a"}}, "quoted": "true", "number": int64(1 << 60), "changed": ""},
	}
}

func TestYAML(t *testing.T) {
	var out bytes.Buffer
	if err := WriteYAML(&out, []*Explanation{sample(), sample()}); err != nil {
		t.Fatal(err)
	}
	const cluster = "# warning: of the cluster\n"
	const head = `# VirtualMachine n/a b on kvm
# facts: x
# read from: f: document 1
# conflict: spec: Required value: too bare
`
	const note = "# note: no effect\n"
	const one = `# warning: one two
`
	const object = `changed: new # finalize
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
	if diff := cmp.Diff(head+cluster+one+note+object+"---\n"+head+one+object, out.String()); diff != "" {
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
	for _, row := range rows[7:] {
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
		{"long", strings.Repeat("x", 59) + "…", "base"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRows(t *testing.T) {
	type inner struct {
		Name   string            `json:"name"`
		Bridge *struct{}         `json:"bridge,omitempty"`
		Model  string            `json:"model,omitempty"`
		Labels map[string]string `json:"labels,omitempty"`
	}
	for _, c := range []struct {
		name    string
		changes []provenance.Change
		want    []row
	}{
		{name: "leaves", changes: []provenance.Change{{Path: "a", Value: []inner{{Name: "", Bridge: &struct{}{}}, {Name: "n"}}, Layer: "base"}}, want: []row{
			{"a[0].name", `""`, "base"}, {"a[0].bridge", "{}", "base"}, {"a[1].name", "n", "base"},
		}},
		{name: "keys", changes: []provenance.Change{{Path: "a", Value: inner{Name: "n", Labels: map[string]string{"x.y/z": "1", "b": "2"}}, Layer: "base"}}, want: []row{
			{"a.name", "n", "base"}, {"a.labels.b", "2", "base"}, {"a.labels[x.y/z]", "1", "base"},
		}},
		{name: "scalars", changes: []provenance.Change{{Path: "a", Value: uint64(1 << 60), Layer: "base"}, {Path: "b", Value: false, Layer: "kvm"}, {Path: "c", Value: nil, Layer: "kvm"}, {Path: "d", Value: []any{}, Layer: "kvm"}}, want: []row{
			{"a", "1152921504606846976", "base"}, {"b", "false", "kvm"}, {"c", "null", "kvm"}, {"d", "[]", "kvm"},
		}},
		{name: "filled inside", changes: []provenance.Change{{Path: "a", Value: []inner{{Name: "n", Model: "virtio"}}, Layer: "base"}, {Path: "a[0].model", Value: "virtio", Layer: "preference/p"}}, want: []row{
			{"a[0].name", "n", "base"}, {"a[0].model", "virtio", "preference/p"},
		}},
		{name: "replaced", changes: []provenance.Change{{Path: "a", Value: "old", Layer: "base"}, {Path: "a", Value: "new", Layer: "kvm"}}, want: []row{
			{"a", "old", "base"}, {"a", "new", "kvm"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rowsOf(c.changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := rowsOf([]provenance.Change{{Path: "a.b", Value: func() {}}}); err == nil || !strings.HasPrefix(err.Error(), "a.b: ") {
		t.Errorf("a value that is no JSON gave the error %v", err)
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		name, note  string
		paths, want []string
	}{
		{name: "all", paths: []string{"spec.template.spec.a", "spec.template.spec.b.c"}, want: []string{"a", "b.c"}, note: "fields: below spec.template.spec"},
		{name: "some", paths: []string{"spec.template.metadata.x", "spec.template.spec.a"}, want: []string{"/spec.template.metadata.x", "a"}, note: "fields: below spec.template.spec, except those that begin with a slash"},
		{name: "none", paths: []string{"spec.a", "status.b"}, want: []string{"spec.a", "status.b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := make([]row, len(c.paths))
			for i := range rows {
				rows[i].path = c.paths[i]
			}
			note := shorten(rows)
			got := make([]string, len(rows))
			for i := range rows {
				got[i] = rows[i].path
			}
			if diff := cmp.Diff(c.want, got); diff != "" || note != c.note {
				t.Errorf("note %q, want %q; (-want +got):\n%s", note, c.note, diff)
			}
		})
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
