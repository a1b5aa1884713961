// Command gen writes the table of the rules into docs/rollouts.md.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/texts/blocks"
)

// block is the name of the generated block.
const block = "rules of rollouts"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the table of rollouts:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	written, err := blocks.Markdown(string(page), block, table(rollouts.Rules()))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(written), 0o644)
}

func table(rules []rollouts.Description) string {
	var b strings.Builder
	b.WriteString("| You change | It takes | Except | Rule |\n|---|---|---|---|\n")
	for i := range rules {
		r := &rules[i]
		except := strings.Join(r.Otherwise, "; ")
		if except == "" {
			except = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", r.Fields, r.Takes, except, r.ID)
	}
	return b.String()
}
