package v1alpha1

import (
	"embed"
	"fmt"
)

// definitions are those in the chart, without their descriptions.
//
//go:embed definitions/*.yaml
var definitions embed.FS

// Definition is the CustomResourceDefinition of a resource of this group, such as virtualmachinepolicies, as YAML:
// with it, an object is held to its schema where there is no API server.
func Definition(resource string) ([]byte, error) {
	data, err := definitions.ReadFile("definitions/" + GroupVersion.Group + "_" + resource + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no definition of %s", resource)
	}
	return data, nil
}
