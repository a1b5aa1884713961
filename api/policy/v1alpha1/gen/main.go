package main

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen DIRECTORY-OF-DEFINITIONS FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generating the reference of the fields:", err)
		os.Exit(1)
	}
}

func run(dir, file string) error {
	definitions, err := read(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(page(definitions)), 0o644)
}

// read returns the definitions of a directory, by the names of their files.
func read(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "policy.virtward.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no definitions in %s", dir)
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
