package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtward/virtward/policies/library"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE CHART")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generating from the library of policies:", err)
		os.Exit(1)
	}
}

func run(file, chart string) error {
	entries := library.All()
	if err := os.WriteFile(file, []byte(page(entries)), 0o644); err != nil {
		return err
	}
	if err := copies(entries, filepath.Join(chart, "library")); err != nil {
		return err
	}
	values := filepath.Join(chart, "values.schema.json")
	before, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	after, err := rewrite(before, entries)
	if err != nil {
		return fmt.Errorf("%s: %w", values, err)
	}
	return os.WriteFile(values, after, 0o644)
}

// copies writes each policy into a folder, as NAME.yaml, and removes files of policies that the library does not have.
func copies(entries []library.Entry, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for i := range entries {
		if err := os.WriteFile(filepath.Join(folder, entries[i].Name+".yaml"), entries[i].YAML, 0o644); err != nil {
			return err
		}
	}
	return nil
}
