package v1alpha1

import (
	"embed"
	"fmt"
)

// definitions are the definitions in the chart, without descriptions.
//
//go:embed definitions/*.yaml
var definitions embed.FS

// Definition returns the CustomResourceDefinition of a resource of this group, such as
// virtualmachinepolicies, as YAML. It is for validating objects where there is no API server.
func Definition(resource string) ([]byte, error) {
	data, err := definitions.ReadFile("definitions/" + GroupVersion.Group + "_" + resource + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no definition of %s", resource)
	}
	return data, nil
}
