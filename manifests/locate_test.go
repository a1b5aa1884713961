package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestFind marks in each text, with «», where fields are found.
func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, text string
		// document counts from 0, and paths are those of the marks, in their order.
		document int
		paths    []string
	}{
		{"fields and elements", "«kind»: A\nspec:\n  list:\n  - «name»: a\n    bus: sata\n  - «name: b\n", 0, []string{"kind", "spec.list[0].name", "spec.list[1]"}},
		{"keys of maps", "metadata:\n  labels:\n    «a.b/c»: d\n", 0, []string{"metadata.labels[a.b/c]"}},
		{"the nearest around what is missing", "kind: A\n«spec»:\n  «list»: [1]\n", 0, []string{"spec.template.x", "spec.list[3].y"}},
		{"an object without the field", "«kind»: A\n", 0, []string{"spec.template"}},
		{"later documents", "# one\n---\nkind: A\n---\n\n# two\nkind: B\n«spec»: {«x»: 1}\n", 1, []string{"spec", "spec.x"}},
		{"separators in a row", "---\n---\n# none\n---\nkind: A\n«spec»: 1", 0, []string{"spec"}},
		{"lines that end as on Windows", "kind: A\r\n---\r\nkind: B\r\n«spec»: 1\r\n", 1, []string{"spec"}},
		{"characters, not bytes", "{ä: ö, «spec»: 1}\n", 0, []string{"spec"}},
		{"elements of a list of objects", "kind: List\nitems:\n- kind: A\n- kind: B\n  «spec»: 1\n", 1, []string{"spec"}},
		{"JSON", "{\n\t\"kind\": \"A\",\n\t«\"spec\"»: [\n\t\t«{}»\n\t]\n}\n", 0, []string{"spec", "spec[0]"}},
		{"JSON objects on one line", `{"kind":"Ä"} {"kind":"B",«"spec"»:{«"x"»:1}}`, 1, []string{"spec", "spec.x"}},
		{"JSON objects on lines", "{\"kind\":\"A\"}\n{\"kind\":\"B\",\n \n «\"spec\"»:{}}", 1, []string{"spec"}},
		{"JSON that is no YAML", "\n «{\"kind\":\"\\ud83d\\ude00\",\"spec\":1}", 0, []string{"spec"}},
		{"an alias, where the anchor is", "kind: A\nbase: &b\n  «x»: 1\nspec: *b\n", 0, []string{"spec.x"}},
		{"a merge", "kind: A\nbase: &b\n  «x»: 1\nspec:\n  <<: *b\n  «y»: 2\n", 0, []string{"spec.x", "spec.y"}},
		{"merges", "kind: A\nbase: [&a {x: 1}, &b {«y»: 1}]\n«spec»:\n  <<: [*a, *b]\n", 0, []string{"spec.y", "spec.z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, want := unmark(c.text)
			documents, err := Read("f", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			var got []Position
			for _, path := range c.paths {
				position, found := documents[c.document].Find(path)
				if !found {
					t.Errorf("%s is not found", path)
				}
				got = append(got, position)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestInText marks in each text, with «», where places of the text of a field are found.
func TestInText(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		line, column int
	}{
		{"a plain text", "a: b «c»\n", 1, 3},
		{"on several lines", "a: b c\n  d «e»\n", 1, 7},
		{"in double quotes", "a: \"b «c»\"\n", 1, 3},
		{"behind what is escaped", `a: "\"b\" «c»"` + "\n", 1, 5},
		{"behind a blank that is escaped", `a: "b\n«c»"` + "\n", 2, 1},
		{"behind a number", `a: "\u0062\x62 «c»"` + "\n", 1, 4},
		{"in single quotes", "a: 'b «c»'\n", 1, 3},
		{"behind a quote in them", "a: 'b''s «c»'\n", 1, 5},
		{"a block", "a: |\n  b\n  c «d»\n", 2, 3},
		{"a block that is indented", "a: |\n  b\n    «c» d\n", 2, 3},
		{"a block that is folded", "a: >-\n  b\n  c\n   «d»\n", 2, 2},
		{"its end", "a: b c«» # a comment\nx: y\n", 1, 4},
		{"behind a tag", "a: !!str 'b «c»'\n", 1, 3},
		{"a block behind its header", "x: y\na: |- # a comment\n  «b»\n", 1, 1},
		{"an alias", "x: &x 'b «c»'\na: *x\n", 1, 3},
		{"a later document", "x: y\n---\na: b «c»\n", 1, 3},
		{"JSON", "{\"x\": 1,\n \"a\": \"b «c»\"}\n", 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, want := unmark(c.text)
			documents, err := Read("f", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := documents[len(documents)-1].InText("a", c.line, c.column)
			if diff := cmp.Diff(want[0], got); !ok || diff != "" {
				t.Errorf("%v (-want +got):\n%s", ok, diff)
			}
		})
	}
	documents, err := Read("f", strings.NewReader("a: b\nc: [d]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, places := range map[string][][2]int{"a": {{0, 1}, {1, 0}, {2, 1}}, "c": {{1, 1}}, "none": {{1, 1}}} {
		for _, at := range places {
			if got, ok := documents[0].InText(path, at[0], at[1]); ok {
				t.Errorf("%s has no place %v, but it is at %v", path, at, got)
			}
		}
	}
	if got, ok := (Document{}).InText("a", 1, 1); ok {
		t.Errorf("an object of the cluster has the place %v", got)
	}
}

func TestInside(t *testing.T) {
	documents, err := Read("f", strings.NewReader("list:\n- {}\n- kind: A\n  spec: {x: 'a b'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	inside := documents[0].Inside("list[1]", &unstructured.Unstructured{Object: map[string]any{"kind": "A"}})
	if at, ok := inside.Find("spec.x"); !ok || at != (Position{4, 10}) || inside.Object.GetKind() != "A" {
		t.Errorf("a field of a %s is at %v", inside.Object.GetKind(), at)
	}
	if at, ok := inside.InText("spec.x", 1, 3); !ok || at != (Position{4, 16}) {
		t.Errorf("a place in its text is at %v", at)
	}
	if at, _ := documents[0].Find("spec.x"); at != (Position{1, 1}) {
		t.Errorf("the document itself is another one now: %v", at)
	}
}

// unmark takes the marks out of a text, and says where they were.
func unmark(marked string) (text string, positions []Position) {
	line, column := 1, 1
	var b strings.Builder
	for _, r := range marked {
		switch r {
		case '«':
			positions = append(positions, Position{line, column})
			continue
		case '»':
			continue
		case '\n':
			line, column = line+1, 0
		}
		column++
		b.WriteRune(r)
	}
	return b.String(), positions
}

func TestFindNothing(t *testing.T) {
	if position, found := (Document{Source: "cluster"}).Find("spec"); found || position != (Position{}) {
		t.Errorf("an object of the cluster has the position %v", position)
	}
}

func TestReadAllNamesFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(name, []byte("kind: A\n---\nkind: B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	documents, err := ReadAll(t.Context(), []string{name, Stdin}, false, strings.NewReader("kind: C\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range documents {
		got = append(got, d.File+"|"+d.Location())
	}
	if diff := cmp.Diff([]string{name + "|" + name + ": document 1", name + "|" + name + ": document 2", "|standard input: document 1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzFind looks for fields in any text: where it says that they are is inside of the text.
func FuzzFind(f *testing.F) {
	for _, text := range []string{"kind: A\nspec: {x: [1]}\n", "---\r\n---\n{\"a\":1}{\"a\":2}", "a: &a {b: 1}\nc: {<<: *a}\n", "{\"a\":\"\\ud800\"}", "a: |\n ---\n b\n"} {
		f.Add(text, "spec.x[0]")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		documents, err := Read("f", strings.NewReader(text))
		if err != nil {
			return
		}
		// YAML knows line breaks besides \n, so there are at least as many lines as these.
		lines := 1 + strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
		for _, d := range documents {
			if position, found := d.InText(path, 1, len(path)); found && (position.Line > lines || position.Column > len(text)+1) {
				t.Fatalf("a place of %q in %q: %v", path, text, position)
			}
			position, found := d.Find(path)
			if !found || position.Line < 1 || position.Column < 1 || position.Line > lines || position.Column > len(text)+1 {
				t.Fatalf("%q in %q: %v, %v", path, text, position, found)
			}
		}
	})
}
