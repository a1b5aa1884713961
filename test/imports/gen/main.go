// Command gen writes the table of imports in CONTRIBUTING.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtward/virtward/test/imports"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the table of imports:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	tree, err := imports.Read(filepath.Dir(file))
	if err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := imports.Page(string(before), tree)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(after), 0o644)
}
