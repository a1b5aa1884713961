package outline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/lsp/outline"
)

func TestFields(t *testing.T) {
	text := `# a comment
kind: VM # another
metadata:
  labels: {a.b/c: "x: y", d: [1, {e: 2}]}
spec:
  disks:
  - name: root
    disk: {bus: sata}
  -   name: 'data'
  list:
    - one
    - [two,
       three]
  script: |
    a: b
    - c

  "quoted key": end
---
kind: Other
broken: {a: 1, b: [
next: 2
`
	var got []string
	o := outline.Parse(text)
	for _, f := range o.Fields {
		got = append(got, fmt.Sprintf("%d %s %q", f.Document, f.Path, o.Text(f)))
	}
	want := []string{
		`0 kind "VM"`, `0 metadata ""`, `0 metadata.labels ""`, `0 metadata.labels[a.b/c] "x: y"`, `0 metadata.labels.d ""`,
		`0 metadata.labels.d[0] "1"`, `0 metadata.labels.d[1].e "2"`, `0 spec ""`, `0 spec.disks ""`, `0 spec.disks[0].name "root"`,
		`0 spec.disks[0].disk ""`, `0 spec.disks[0].disk.bus "sata"`, `0 spec.disks[1].name "data"`, `0 spec.list ""`,
		`0 spec.list[0] "one"`, `0 spec.list[1][0] "two"`, `0 spec.list[1][1] "three"`, `0 spec.script "    a: b\n    - c\n\n"`,
		`0 spec.quoted key "end"`, `1 kind "Other"`, `1 broken ""`, `1 broken.a "1"`, `1 broken.b ""`, `1 next "2"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The cursor is at the bar.
func TestCursor(t *testing.T) {
	for text, want := range map[string]string{
		"ki|":                                   "key  ki",
		"spec:\n  dom|: {}":                     "named key spec dom",
		"spec:\n  a: 1\n  |\n":                  "key spec ",
		"spec:\n  a:\n    b: 1\n  |":            "key spec ",
		"spec:\n  a:\n    b: 1\n    |":          "key spec.a ",
		"spec:\n  disks:\n  - name: a\n  - |":   "element spec.disks[1] ",
		"spec:\n  disks:\n  - name: a\n    d|":  "key spec.disks[0] d",
		"spec:\n  disks:\n  - disk: {b|}":       "key spec.disks[0].disk b",
		"spec: {disks: [{disk: {bus: sa|":       "value spec.disks[0].disk.bus sa",
		"spec:\n  bus: |":                       "value spec.bus ",
		"spec:\n  bus: \"sa|\"":                 "value spec.bus sa",
		"spec:\n  e: >-\n    vm.spec\n    .do|": "value spec.e     vm.spec\n    .do",
		"a: [\nspec:\n  |":                      "key spec ",
		"a: {b: c, |":                           "key a ",
		"a: {b: c, d: |":                        "value a.d ",
	} {
		offset := strings.LastIndexByte(text, '|')
		c := outline.CursorAt(text[:offset]+text[offset+1:], offset)
		kind := "key"
		switch {
		case c.Value:
			kind = "value"
		case c.Element:
			kind = "element"
		case c.Named:
			kind = "named key"
		}
		if got := kind + " " + c.Path + " " + c.Prefix; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzParse finds panics, and fields outside of the text.
func FuzzParse(f *testing.F) {
	f.Add("a: {b: [c, 'd', \"e\"]}\n- x\n  - y: |\n    z\n---\n}", 7)
	f.Add("- - a: [}]\n\"k\": v", 3)
	f.Fuzz(func(t *testing.T, text string, offset int) {
		o := outline.Parse(text)
		for _, field := range o.Fields {
			if field.Key.From < 0 || field.Key.To > len(text) || field.Value.To > len(text) || field.Value.From > field.Value.To {
				t.Fatalf("%+v", field)
			}
			o.Text(field)
		}
		o.At(offset)
		if c := outline.CursorAt(text, offset); c.From < 0 || c.From > len(text) {
			t.Fatalf("%+v", c)
		}
	})
}

// A text of another author cannot make the fields or their paths large.
func TestBounds(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 150)
	deep, indented := "", ""
	for i := range 60 {
		deep += "{" + key + ": "
		indented += strings.Repeat(" ", i) + key + ":\n"
	}
	for name, hostile := range map[string]string{
		"flow": "a: " + deep + "{" + strings.Repeat("a: ,", 200_000), "lines": indented + strings.Repeat(strings.Repeat(" ", 60)+"a: b\n", 15_000),
		"documents": strings.Repeat("---\na: b\n", 60_000), "dashes": strings.Repeat("- ", 400_000) + "a: b",
	} {
		o := outline.Parse(hostile)
		bytes := 0
		for _, f := range o.Fields {
			bytes += len(f.Path)
		}
		if len(o.Fields) > 50_000 || bytes > 60<<20 {
			t.Errorf("%s: %d fields with paths of %d bytes", name, len(o.Fields), bytes)
		}
		if last := o.Fields[len(o.Fields)-1]; last.Key.From >= len(hostile) || o.DocumentAt(last.Key.From) != last.Document {
			t.Errorf("%s: the last field is %+v, in the document %d", name, last, o.DocumentAt(last.Key.From))
		}
	}
}
