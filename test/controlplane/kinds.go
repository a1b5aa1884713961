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
	files, err := filepath.Glob(filepath.Join(c.options.Root, "charts", "virtward", "definitions", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("the chart in %s has no definitions", c.options.Root)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		definitions = append(definitions, definition)
	}
	return c.InstallCRDs(ctx, definitions...)
}
