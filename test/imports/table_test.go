package imports

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// CONTRIBUTING.md has each package of the module in a line of the table.
func TestPage(t *testing.T) {
	tree := read(t)
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := Page(string(page), tree)
	if err != nil {
		t.Fatal(err)
	}
	if same != string(page) {
		t.Error("the table of imports in CONTRIBUTING.md is out of date: run make generate")
	}
	for _, name := range []string{"templates", "virtualimages", "certificates", "apiserver", "cli", "limits/memory", "cmd/virtward"} {
		if !strings.Contains(same, "| `"+name+"`") {
			t.Errorf("%s has no line", name)
		}
	}
	if _, err := Page("no table", tree); err == nil || !strings.Contains(err.Error(), "there are no lines") {
		t.Errorf("a page without a table: %v", err)
	}
}

// A circle of groups has no layers.
func TestCircle(t *testing.T) {
	of := func(folder string, imports ...string) *Package {
		for i := range imports {
			imports[i] = module + "/" + imports[i]
		}
		return &Package{ImportPath: module + "/" + folder, Imports: imports}
	}
	const tableBegins, tableEnds = "<!-- generated: imports -->\n", "<!-- end -->\n"
	_, err := Page(tableBegins+tableEnds, Tree{"a": of("a/x", "b"), "b": of("b", "c/y"), "c": of("c/y", "a/z"), "z": of("a/z")})
	if err == nil || err.Error() != "imports in a circle: a → b → c → a" {
		t.Errorf("got %v", err)
	}
	page, err := Page(tableBegins+tableEnds, Tree{"a": of("a/x", "b", "a/z"), "b": of("b"), "z": of("a/z"), "g": of("a/gen", "c")})
	if want := tableBegins + "| Layer | Package | Pure | Imports |\n|---|---|---|---|\n| 0 | `b` |  |  |\n| 1 | `a` (2) |  | b |\n" + tableEnds; err != nil || page != want {
		t.Errorf("got %v, %s", err, page)
	}
}
