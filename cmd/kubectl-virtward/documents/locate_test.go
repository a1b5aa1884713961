package documents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	documents, err := ReadAll([]string{name, Stdin}, false, strings.NewReader("kind: C\n"))
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
			position, found := d.Find(path)
			if !found || position.Line < 1 || position.Column < 1 || position.Line > lines || position.Column > len(text)+1 {
				t.Fatalf("%q in %q: %v, %v", path, text, position, found)
			}
		}
	})
}
