package platform

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
)

// TemplateObject is an object of the cluster that shows who manages VM templates.
type TemplateObject struct {
	Resource schema.GroupVersionResource
	Kind     string
	Name     string
}

// TemplateObjects returns the definitions and the APIServices of VM templates.
func TemplateObjects() []TemplateObject {
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	return []TemplateObject{
		{definitions, "CustomResourceDefinition", "virtualmachinetemplates.template.kubevirt.io"},
		{definitions, "CustomResourceDefinition", "virtualmachinetemplaterequests.template.kubevirt.io"},
		{services, "APIService", "v1alpha1.subresources.template.kubevirt.io"},
		{services, "APIService", "v1beta1.subresources.template.kubevirt.io"},
	}
}

// TemplateSwitch is the setting of the KubeVirt resource by which virt-operator gives VM templates up.
const TemplateSwitch = "configuration.virtTemplateDeployment.enabled: false"

// ManagedByVirtOperator reports whether virt-operator manages an object with these labels.
func ManagedByVirtOperator(labels map[string]string) bool {
	return slices.Contains([]string{v1.ManagedByLabelOperatorValue, v1.ManagedByLabelOperatorOldValue}, labels[v1.ManagedByLabel])
}
