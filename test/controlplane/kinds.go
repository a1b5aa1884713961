package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// InstallVirtwardCRDs installs the chart's definitions of Virtward's kinds, without the chart.
func (c *ControlPlane) InstallVirtwardCRDs(ctx context.Context) error {
	definitions, err := chartDefinitions(c.options.Root, "definitions")
	if err != nil {
		return err
	}
	return c.InstallCRDs(ctx, definitions...)
}

// VirtwardDefinitions returns the definitions of Virtward's kinds and of VM templates, for Options.CRDs. It finds the chart from the
// working directory.
func VirtwardDefinitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	own, err := chartDefinitions(root, "definitions")
	if err != nil {
		return nil, err
	}
	templates, err := chartDefinitions(root, "template-definitions")
	return append(own, templates...), err
}

// chartDefinitions reads the definitions in a folder of the chart.
func chartDefinitions(root, folder string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(root, "charts", "virtward", folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the chart in %s has no %s", root, folder)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}
