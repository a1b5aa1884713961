package cel

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
	want, err := blocks.Markdown(string(data), "go test ./cel -run TestTheTableInTheDocs -update", table.String())
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
