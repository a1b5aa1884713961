package explanation

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/validators"
)

func sample() *Explanation {
	chosen := finding(validators.Deny, "r-chosen", invalid("number", "too many"), "Choose less.")
	chosen.Effective = "notes[a.b/c]"
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
		Findings: []Finding{
			finding(validators.Deny, "r-mine", field.Invalid(at("list[0].mine"), "a", "too\nbare"), "Write\nmore."),
			finding(validators.Deny, "r-item", field.Forbidden(at("list[0]"), "no"), ""),
			finding(validators.Warn, "r-missing", field.Required(at("list[1].disk.bus"), "say it"), ""),
			chosen,
			finding(validators.Warn, "r-nowhere", field.Required(at("status"), ""), "-"),
		}, Warnings: []string{"of the cluster", "one\ntwo"}, Notes: []string{"no\teffect"}, factsWarnings: 1,
		written: manifests.Document{Object: &unstructured.Unstructured{Object: map[string]any{"list": []any{map[string]any{"mine": "a"}}, "quoted": "true", "number": int64(1 << 60), "changed": ""}}},
	}
}

func write(w io.Writer, format Format, explanations ...*Explanation) error {
	texts := make([][]byte, len(explanations))
	for i, e := range explanations {
		var err error
		if texts[i], err = format.Text(e, i == 0, len(explanations) == 1); err != nil {
			return err
		}
	}
	return format.Write(w, texts)
}

// One explanation is an object, and several are a list, as if they had been encoded together.
func TestJSON(t *testing.T) {
	for _, explanations := range [][]*Explanation{{sample()}, {sample(), sample()}, {sample(), sample(), sample()}} {
		var got, want bytes.Buffer
		if err := write(&got, JSON(), explanations...); err != nil {
			t.Fatal(err)
		}
		encoder := json.NewEncoder(&want)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		var all any = explanations
		if len(explanations) == 1 {
			all = explanations[0]
		}
		if err := encoder.Encode(all); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("%d explanations (-want +got):\n%s", len(explanations), diff)
		}
	}
}

// What is made here is what the library makes.
func TestScalar(t *testing.T) {
	for _, value := range []any{
		"virtio", "yes", "On", "y", "true", "TRUE", "Null", "null", "nuLL", "false", "a", "abc", "Halted", "with space", "1e3", "0x10", "4Gi", "~", "", "größe", "a-b",
		"two\nlines", "#no", "12:30:45", ".inf", "abcd\x00", true, false, int64(0), int64(-7), int64(1 << 62), 1.5, nil, "infinity", "NaNa", "[x]", "key:",
	} {
		made, err := scalar(value)
		if err != nil {
			t.Fatal(err)
		}
		encoded := &yaml.Node{}
		if err := encoded.Encode(value); err != nil {
			t.Fatal(err)
		}
		for _, in := range []func(*yaml.Node) *yaml.Node{
			func(n *yaml.Node) *yaml.Node { return n },
			func(n *yaml.Node) *yaml.Node {
				return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{n, n}}
			},
		} {
			got, gotErr := yaml.Marshal(in(made))
			want, wantErr := yaml.Marshal(in(encoded))
			if string(got) != string(want) || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%q: got %q %v, want %q %v", value, got, gotErr, want, wantErr)
			}
		}
	}
}

func TestYAML(t *testing.T) {
	var out bytes.Buffer
	if err := write(&out, YAML(), sample(), sample()); err != nil {
		t.Fatal(err)
	}
	const cluster = "# warning: of the cluster\n"
	const findings = `# rejected: list[0].mine: Invalid value: "a": too bare [virtward/r-mine]
#   Write more.
# rejected: list[0]: Forbidden: no [virtward/r-item]
# warning: list[1].disk.bus: Required value: say it [virtward/r-missing]
# rejected: number: Invalid value: too many [virtward/r-chosen]
#   Choose less.
# warning: status: Required value [virtward/r-nowhere]
#   -
`
	const head = `# VirtualMachine n/a b on kvm
# facts: x
# read from: f: document 1
`
	const note = "# note: no effect\n"
	const one = `# warning: one two
`
	const object = `changed: new # finalize
empty: {} # arm64
list:
# rejected: Forbidden: no [virtward/r-item]
- # rejected: Invalid value: "a": too bare [virtward/r-mine]
  mine: a
  theirs: b # base
# warning: disk.bus: Required value: say it [virtward/r-missing]
- c # preference/a # kvm
notes:
  # rejected: see number [virtward/r-chosen]
  a.b/c: | # instancetype/u1
    two
    lines
# rejected: Invalid value: too many [virtward/r-chosen]
number: 1152921504606846976
quoted: "true"
`
	if diff := cmp.Diff(head+cluster+one+note+findings+object+"---\n"+head+one+findings+object, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := write(&out, Tables(), sample()); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var got [][]string
	for _, row := range rows[6:] {
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
		nil,
		{"FIELD", "RULE", "SEVERITY", "MESSAGE"},
		{"list[0].mine", "r-mine", "Deny", "Invalid", "value:", `"a":`, "too", "bare"},
		{"Write", "more."},
		{"list[0]", "r-item", "Deny", "Forbidden:", "no"},
		{"list[1].disk.bus", "r-missing", "Warn", "Required", "value:", "say", "it"},
		{"number", "r-chosen", "Deny", "Invalid", "value:", "too", "many"},
		{"Choose", "less."},
		{"status", "r-nowhere", "Warn", "Required", "value"},
		{"-"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
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
			got := slices.Clone(c.paths)
			var paths []*string
			for i := range got {
				paths = append(paths, &got[i])
			}
			note := shorten(paths)
			if diff := cmp.Diff(c.want, got); diff != "" || note != c.note {
				t.Errorf("note %q, want %q; (-want +got):\n%s", note, c.note, diff)
			}
		})
	}
}

func TestNothingIsFilled(t *testing.T) {
	e := sample()
	e.Changes, e.Findings = nil, nil
	var out bytes.Buffer
	if err := write(&out, Tables(), e); err != nil {
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
