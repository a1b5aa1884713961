package main

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 4 && len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: gen GROUP DIRECTORY-OF-DEFINITIONS FILE [SOURCE]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the reference of the fields:", err)
		os.Exit(1)
	}
}

// run writes the page of a group to a file.
func run(group, dir, file string, sources []string) error {
	definitions, err := read(dir, group)
	if err != nil {
		return err
	}
	text, err := page(group, definitions)
	if err != nil {
		return err
	}
	for _, source := range sources {
		types, err := typesOf(source)
		if err != nil {
			return err
		}
		text += types
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// read returns the definitions of a group in a directory, by the names of their files.
func read(dir, group string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, group+"_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no definitions of %s in %s", group, dir)
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}
