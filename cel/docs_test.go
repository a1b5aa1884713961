package cel

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
	const begin, end = "<!-- generated: go test ./cel -run TestTheTableInTheDocs -update -->\n", "<!-- end of CEL -->"
	var table strings.Builder
	table.WriteString("\n| Functions | Units of a call | CPU time | Besides |\n|---|---|---|---|\n")
	for _, class := range functionClasses() {
		names := make([]string, 0, len(class.names))
		for _, name := range class.names {
			names = append(names, "`"+strings.ReplaceAll(name, "|", "\\|")+"`")
		}
		says := strings.TrimPrefix(class.says, "and ")
		if says == "" {
			says = "nothing"
		}
		fmt.Fprintf(&table, "| %s | %d | %.1f µs | %s |\n", strings.Join(names, ", "), class.call, float64(class.call*UnitNanoseconds)/1000, says)
	}
	table.WriteString("\n")
	path := filepath.Join("..", "docs", "policy-limits.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the page has no place for the table")
	}
	want := before + begin + table.String() + end + after
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
