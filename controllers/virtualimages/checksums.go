package virtualimages

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dataVolumes is the name of CDI's definition.
const dataVolumes = "datavolumes.cdi.kubevirt.io"

// ChecksumsOf returns a function that reports whether the definition of DataVolumes has the checksum of a source. CDI has it
// since March 2026.
func ChecksumsOf(reader client.Reader) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: dataVolumes}, definition)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the definition of DataVolumes: %w", err)
		}
		for i := range definition.Spec.Versions {
			if s := definition.Spec.Versions[i].Schema; s != nil && has(s.OpenAPIV3Schema, "spec", "source", "http", "checksum") {
				return true, nil
			}
		}
		return false, nil
	}
}

func has(schema *apiextensionsv1.JSONSchemaProps, path ...string) bool {
	for _, field := range path {
		if schema == nil {
			return false
		}
		next, known := schema.Properties[field]
		if !known {
			return false
		}
		schema = &next
	}
	return true
}
