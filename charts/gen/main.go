package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ../virtward

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen CHART")
		os.Exit(2)
	}
	if err := errors.Join(describeValues(os.Args[1]), writeDashboards(filepath.Join(os.Args[1], "dashboards"))); err != nil {
		fmt.Fprintln(os.Stderr, "generating files of the chart:", err)
		os.Exit(1)
	}
}

// describeValues writes the comments of values.yaml into the table of README.md and the descriptions of values.schema.json.
func describeValues(chart string) error {
	content, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	values, err := readValues(content)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	for name, rewrite := range map[string]func([]byte) ([]byte, error){
		"README.md": func(before []byte) ([]byte, error) {
			after, err := withTable(string(before), values)
			return []byte(after), err
		},
		"values.schema.json": func(before []byte) ([]byte, error) { return withDescriptions(before, values) },
	} {
		path := filepath.Join(chart, name)
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := rewrite(before)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(path, after, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeDashboards writes each dashboard into a folder, as NAME.json, and removes files of dashboards that the table does not have.
func writeDashboards(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for _, d := range dashboards() {
		content, err := d.render()
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, d.name+".json"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
