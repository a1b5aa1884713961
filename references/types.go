package references

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
)

// TypeOf is a new object of the Go type of a kind that virtual machines refer to, as far as its spec matters; nil for
// others. The version is the one that is read, whichever one an object is in.
func TypeOf(kind schema.GroupKind) any {
	switch kind.Kind {
	case apikinds.VirtualMachineInstancetype, apikinds.VirtualMachineClusterInstancetype:
		return &instancetypev1beta1.VirtualMachineInstancetype{}
	case apikinds.VirtualMachinePreference, apikinds.VirtualMachineClusterPreference:
		return &instancetypev1beta1.VirtualMachinePreference{}
	case apikinds.VirtualMachineInstancePreset:
		return &v1.VirtualMachineInstancePreset{}
	case apikinds.DataVolume:
		return &cdiv1beta1.DataVolume{}
	case apikinds.DataSource:
		return &cdiv1beta1.DataSource{}
	}
	return nil
}
