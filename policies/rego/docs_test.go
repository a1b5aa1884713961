package rego

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/texts/blocks"
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
	want, err := blocks.Markdown(string(data), "go test ./policies/rego -run TestTheTableInTheDocs -update", table.String())
	if err != nil {
		t.Fatal(err)
	}
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
