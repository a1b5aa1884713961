package rollouts

import (
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
)

// Input is a VM, its running instance and what they refer to. Plan does not change it.
type Input struct {
	// LastStarted is the spec that the instance was started with, from the ControllerRevision that the instance names. It
	// is nil if that is unknown.
	LastStarted *v1.VirtualMachineSpec
	// Desired is the VM with the change.
	Desired *v1.VirtualMachine
	// Running is the VM's instance; nil if there is none.
	Running *v1.VirtualMachineInstance
	// Facts of the cluster; nil for KubeVirt's defaults.
	Facts *platform.Facts
	// StartedKinds are those of LastStarted, DesiredKinds those of Desired.
	StartedKinds, DesiredKinds Kinds
	// Storage that the volumes refer to.
	Storage Storage
}

// Kinds are the instancetype and the preference of a VM.
type Kinds struct {
	Instancetype *instancetypes.Instancetype
	Preference   *instancetypes.Preference
	// Missing are the references for which KubeVirt fails, at most one for each of the two.
	Missing []Missing
}

// Missing is a reference to something that does not exist.
type Missing struct {
	// Field is spec.instancetype or spec.preference.
	Field string
	// What does not exist: VirtualMachineInstancetype "small".
	What string
}

// missing reports whether something that the VM names does not exist.
func (k *Kinds) missing() bool { return len(k.Missing) > 0 }

// Storage is the part of a namespace that volumes refer to. Without it, Plan assumes that every claim exists and is ready.
type Storage struct {
	// Known reports whether Claims and DataVolumes are complete for the VM's volumes.
	Known bool
	// Claims are PersistentVolumeClaims by their name.
	Claims map[string]Claim
	// DataVolumes by their name.
	DataVolumes map[string]DataVolume
}

// Claim is a PersistentVolumeClaim.
type Claim struct {
	// Populated reports whether the claim has a dataSourceRef: it is filled by a volume populator.
	Populated bool
}

// DataVolume of CDI.
type DataVolume struct {
	// Phase is the phase in its status.
	Phase cdiv1beta1.DataVolumePhase
}

// ready reports whether KubeVirt starts and changes VMs with the DataVolume.
func (d DataVolume) ready() bool {
	return d.Phase == cdiv1beta1.Succeeded || d.Phase == cdiv1beta1.WaitForFirstConsumer || d.Phase == cdiv1beta1.PendingPopulation
}

// instance reports whether the VM has an instance that keeps running.
func (in *Input) instance() bool {
	return in.Running != nil && in.Running.DeletionTimestamp == nil &&
		in.Running.Status.Phase != v1.Succeeded && in.Running.Status.Phase != v1.Failed
}

// stopping reports whether the VM or a request stops the instance.
func (in *Input) stopping() bool {
	strategy, err := in.Desired.RunStrategy()
	if err != nil {
		return false
	}
	if strategy == v1.RunStrategyHalted {
		return true
	}
	for _, request := range in.Desired.Status.StateChangeRequests {
		if request.Action == v1.StopRequest && request.UID != nil && in.Running != nil && *request.UID == in.Running.UID {
			return true
		}
	}
	return false
}

// condition returns the status of a condition of the instance, and its message.
func (in *Input) condition(kind v1.VirtualMachineInstanceConditionType) (corev1.ConditionStatus, string) {
	for i := range in.Running.Status.Conditions {
		if c := &in.Running.Status.Conditions[i]; c.Type == kind {
			return c.Status, c.Message
		}
	}
	return "", ""
}

func (in *Input) is(kind v1.VirtualMachineInstanceConditionType) bool {
	status, _ := in.condition(kind)
	return status == corev1.ConditionTrue
}

// migratable reports whether the instance can be migrated live.
func (in *Input) migratable() bool { return in.is(v1.VirtualMachineInstanceIsMigratable) }

// migrating reports whether a live migration is in progress.
func (in *Input) migrating() bool {
	state := in.Running.Status.MigrationState
	return state != nil && state.StartTimestamp != nil && state.EndTimestamp == nil
}

// announcedRestart is the message of the condition RestartRequired that the VM has; ok is false without one.
func (in *Input) announcedRestart() (message string, ok bool) {
	for i := range in.Desired.Status.Conditions {
		if c := &in.Desired.Status.Conditions[i]; c.Type == v1.VirtualMachineRestartRequired {
			return c.Message, true
		}
	}
	return "", false
}

// migratesVolumes reports whether changed claims of the VM are migrated.
func migratesVolumes(spec *v1.VirtualMachineSpec) bool {
	return spec.UpdateVolumesStrategy != nil && *spec.UpdateVolumesStrategy == v1.UpdateVolumesStrategyMigration
}

// hotpluggable reports whether a volume is declared hotpluggable.
func hotpluggable(volume *v1.Volume) bool {
	return volume != nil && (volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.Hotpluggable ||
		volume.DataVolume != nil && volume.DataVolume.Hotpluggable)
}

// hotplugged reports whether a volume counts as hotplugged for RestartRequired: also a memory dump.
func hotplugged(volume *v1.Volume) bool {
	return hotpluggable(volume) || volume != nil && volume.MemoryDump != nil && volume.MemoryDump.Hotpluggable
}
