package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate ../../../bin/tools/controller-gen object crd:crdVersions=v1 paths=. output:crd:dir=../../../charts/virtward/definitions
//go:generate go run ../../gen rollout.virtward.io ../../../charts/virtward/definitions ../../../docs/api/rollout.md

// Kind is the kind of this package.
const Kind = "VirtualMachineRollout"

// GroupVersion is the group and the version of the kind in this package.
var GroupVersion = schema.GroupVersion{Group: "rollout.virtward.io", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &VirtualMachineRollout{}, &VirtualMachineRolloutList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
