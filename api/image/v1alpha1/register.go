package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate ../../../bin/tools/controller-gen object crd:crdVersions=v1,generateEmbeddedObjectMeta=true paths=. output:crd:dir=../../../charts/virtward/definitions
//go:generate go run ../../gen image.virtward.io ../../../charts/virtward/definitions ../../../docs/api/image.md

// GroupVersion is the group and the version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "image.virtward.io", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &GoldenImageCatalog{}, &GoldenImageCatalogList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
