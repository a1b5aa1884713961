package rego

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table into the docs")

// TestTheTableInTheDocs holds docs/policy-limits.md to what functions are charged.
func TestTheTableInTheDocs(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| Functions | Charged | Why |\n|---|---|---|\n")
	for _, c := range classes() {
		var names []string
		for _, name := range c.names {
			if !strings.HasPrefix(name, "internal.") {
				names = append(names, "`"+name+"`")
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", strings.Join(names, ", "), c.says, c.why)
	}
	table.WriteString("\n")
	path := filepath.Join("..", "..", "docs", "policy-limits.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), "-update -->\n")
	_, after, closed := strings.Cut(rest, "<!-- end -->")
	if !found || !closed {
		t.Fatal("the page has no place for the table")
	}
	want := before + "-update -->\n" + table.String() + "<!-- end -->" + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(data) {
		t.Error("the table is not what functions are charged: run the test with -update")
	}
}
