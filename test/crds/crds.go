package crds

import (
	"embed"
	"fmt"
	"io/fs"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:generate go run ./gen -controller-gen ../../bin/tools/controller-gen -out .

//go:embed *.yaml variants/*.yaml
var files embed.FS

// SeedHypervisor is the variant of the KubeVirt definition that carries the field
// spec.configuration.hypervisor of VEP 97, a list without a limit, beside KubeVirt's own hypervisors.
const SeedHypervisor = "kubevirt-seed-hypervisor"

// All returns the definitions of KubeVirt and CDI, sorted by file name.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		definition, err := read(name)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// Variant returns a definition that differs from KubeVirt's own in one respect; SeedHypervisor names one.
func Variant(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	return read(path.Join("variants", name+".yaml"))
}

func read(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, definition); err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	return definition, nil
}
