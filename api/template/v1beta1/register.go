package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate ../../../bin/tools/controller-gen object paths=.
//go:generate ../../../bin/tools/controller-gen crd:crdVersions=v1 paths=. paths=../v1alpha1 output:crd:dir=../definitions
//go:generate sh -c "cp ../definitions/*.yaml ../../../charts/virtward/template-definitions/"
//go:generate go run ../../gen template.kubevirt.io ../../../charts/virtward/template-definitions ../../../docs/api/template.md ../subresources/types.go

// GroupVersion is that of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "template.kubevirt.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &VirtualMachineTemplate{}, &VirtualMachineTemplateList{}, &VirtualMachineTemplateRequest{}, &VirtualMachineTemplateRequestList{},
		&VirtualMachineTemplateImport{}, &VirtualMachineTemplateImportList{}, &VirtualMachineTemplateExport{}, &VirtualMachineTemplateExportList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
