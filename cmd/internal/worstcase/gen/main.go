// Command gen writes the tables of docs/memory.md, and components.yaml of the chart, which its templates read.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtward/virtward/cmd/internal/worstcase"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen CHART PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the tables of memory:", err)
		os.Exit(1)
	}
}

func run(folder, file string) error {
	chart, err := worstcase.ReadChart(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return err
	}
	components, err := worstcase.Components(chart)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "components.yaml"), components, 0o644); err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := worstcase.Page(string(before), chart)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(after), 0o644)
}
