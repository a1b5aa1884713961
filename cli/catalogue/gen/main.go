// The program writes docs/rules.md, and a page for each rule beside it. Its argument is the folder of the project.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtward/virtward/cli/catalogue"
	"github.com/virtward/virtward/cli/catalogue/rejections"
	"github.com/virtward/virtward/hypervisors"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the pages of all rules, and removes those of rules that there are no more.
func write(root string) error {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	entries, err := catalogue.New(registry)
	if err != nil {
		return err
	}
	sources, err := sourcesOf(root)
	if err != nil {
		return err
	}
	var index bytes.Buffer
	if err := catalogue.WriteMarkdown(&index, entries); err != nil {
		return err
	}
	folder := filepath.Join(root, "docs", "rules")
	err = errors.Join(os.WriteFile(folder+".md", index.Bytes(), 0o644), os.RemoveAll(folder), os.MkdirAll(folder, 0o755))
	if err != nil {
		return err
	}
	evaluator := rejections.New(registry)
	for i := range entries {
		e := &entries[i]
		messages, err := evaluator.Messages(context.Background(), e.ID, e.Example)
		if err != nil {
			return err
		}
		source, err := sourceOf(sources, e.ID)
		if err != nil {
			return err
		}
		var page bytes.Buffer
		if err := catalogue.WriteRule(&page, e, messages, "../../"+source); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, e.ID+".md"), page.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
