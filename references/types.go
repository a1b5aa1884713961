package references

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/instancetypes"
)

// TypeOf is a new object of the Go type of a kind that virtual machines refer to, as far as its spec matters; nil for
// others. The version is the one that is read, whichever one an object is in.
func TypeOf(kind schema.GroupKind) any {
	switch kind.Kind {
	case instancetypes.KindInstancetype, instancetypes.KindClusterInstancetype:
		return &instancetypev1beta1.VirtualMachineInstancetype{}
	case instancetypes.KindPreference, instancetypes.KindClusterPreference:
		return &instancetypev1beta1.VirtualMachinePreference{}
	case "VirtualMachineInstancePreset":
		return &v1.VirtualMachineInstancePreset{}
	case "DataVolume":
		return &cdiv1beta1.DataVolume{}
	case "DataSource":
		return &cdiv1beta1.DataSource{}
	}
	return nil
}
