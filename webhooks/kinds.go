package webhooks

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"kubevirt.io/api/clone"
	v1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	poolapi "kubevirt.io/api/pool"
	snapshotapi "kubevirt.io/api/snapshot"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/instancetypes"
)

// The kinds that are completed.
const (
	kindVM  = "VirtualMachine"
	kindVMI = "VirtualMachineInstance"
)

// kinds are those that are checked, and how.
var kinds = map[schema.GroupKind]func(*examination) error{
	{Group: v1.GroupVersion.Group, Kind: kindVM}:                                    (*examination).virtualMachine,
	{Group: v1.GroupVersion.Group, Kind: kindVMI}:                                   (*examination).virtualMachineInstance,
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachineInstanceReplicaSet"}:        (*examination).replicaSet,
	{Group: poolapi.GroupName, Kind: "VirtualMachinePool"}:                          (*examination).pool,
	{Group: instancetypeapi.GroupName, Kind: instancetypes.KindInstancetype}:        (*examination).instancetype,
	{Group: instancetypeapi.GroupName, Kind: instancetypes.KindClusterInstancetype}: (*examination).instancetype,
	{Group: instancetypeapi.GroupName, Kind: instancetypes.KindPreference}:          (*examination).preference,
	{Group: instancetypeapi.GroupName, Kind: instancetypes.KindClusterPreference}:   (*examination).preference,
	{Group: v1.GroupVersion.Group, Kind: "VirtualMachineInstancePreset"}:            (*examination).preset,
	{Group: snapshotapi.GroupName, Kind: "VirtualMachineRestore"}:                   (*examination).restore,
	{Group: clone.GroupName, Kind: clone.Kind}:                                      (*examination).clone,
	{Group: policyv1alpha1.GroupVersion.Group, Kind: "RuleSettings"}:                (*examination).ruleSettings,
	{Group: policyv1alpha1.GroupVersion.Group, Kind: "VirtualMachineDefaults"}:      (*examination).siteDefaults,
	{Group: policyv1alpha1.GroupVersion.Group, Kind: "VirtualMachinePolicy"}:        (*examination).virtualMachinePolicy,
}

func groupKind(request *admissionv1.AdmissionRequest) schema.GroupKind {
	return schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
}
