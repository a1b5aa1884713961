package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// maxAnnotations bounds the annotations of a namespace in the cache of the admission chain, in bytes.
const maxAnnotations = 8 << 10

// shrink drops what the admission chain does not need of the objects that it caches: managed fields, and the annotations of
// a namespace if they are large.
func shrink(object any) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // it is not an object, but the note of a missed deletion
	}
	accessor.SetManagedFields(nil)
	if namespace, ok := object.(*corev1.Namespace); ok {
		size := 0
		for key, value := range namespace.Annotations {
			size += len(key) + len(value)
		}
		if size > maxAnnotations {
			namespace.Annotations = nil
		}
	}
	return object, nil
}
