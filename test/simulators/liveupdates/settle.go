package liveupdates

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
)

var now = metav1.Now

// Settle sets the conditions with which the controller of instances announces what waits for a migration.
func Settle(vmi *kubevirtv1.VirtualMachineInstance) {
	if m := vmi.Status.MigrationState; vmi.Status.Phase != kubevirtv1.Running || m != nil && m.StartTimestamp != nil && m.EndTimestamp == nil {
		return
	}
	announce := func(kind kubevirtv1.VirtualMachineInstanceConditionType, waits bool, reason string) {
		if waits {
			SetCondition(vmi, kubevirtv1.VirtualMachineInstanceCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now(),
			})
		}
	}
	announce(kubevirtv1.VirtualMachineInstanceVCPUChange, socketsWait(vmi), "")
	announce(kubevirtv1.VirtualMachineInstanceMemoryChange, memoryWaits(vmi), "")
	waits := interfacesWait(vmi)
	announce(kubevirtv1.VirtualMachineInstanceMigrationRequired, waits, "AutoMigrationDueToLiveUpdate")
	if c := found(vmi.Status.Conditions, required); !waits && c != nil && c.Message != movedNetwork {
		SetCondition(vmi, kubevirtv1.VirtualMachineInstanceCondition{Type: c.Type})
	}
}

func required(c *kubevirtv1.VirtualMachineInstanceCondition) bool {
	return c.Type == kubevirtv1.VirtualMachineInstanceMigrationRequired
}

// announcing are the conditions of what waits for a migration.
var announcing = []kubevirtv1.VirtualMachineInstanceConditionType{
	kubevirtv1.VirtualMachineInstanceVCPUChange, kubevirtv1.VirtualMachineInstanceMemoryChange,
	kubevirtv1.VirtualMachineInstanceMigrationRequired, kubevirtv1.VirtualMachineInstanceVolumesChange,
}

// Waits reports whether an instance has changes for which the workload updater acts.
func Waits(vmi *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(announcing, func(kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
		return conditionOf(vmi, kind) == corev1.ConditionTrue
	})
}

func socketsWait(vmi *kubevirtv1.VirtualMachineInstance) bool {
	cpu, current := vmi.Spec.Domain.CPU, vmi.Status.CurrentCPUTopology
	return cpu != nil && current != nil && cpu.Sockets != 0 && cpu.Sockets != current.Sockets
}

func memoryWaits(vmi *kubevirtv1.VirtualMachineInstance) bool {
	memory, status := vmi.Spec.Domain.Memory, vmi.Status.Memory
	return memory != nil && memory.Guest != nil && memory.MaxGuest != nil && status != nil && status.GuestRequested != nil && memory.Guest.Cmp(*status.GuestRequested) != 0
}

// interfacesWait reports whether the pod lacks the interface of a network.
func interfacesWait(vmi *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(i kubevirtv1.Interface) bool {
		return i.State != kubevirtv1.InterfaceStateAbsent && attachedInterface(vmi, i.Name) == nil
	})
}

// Attach sets what the agent of the node reports of devices that need no migration: hotplugged volumes, and interfaces that
// are unplugged.
func Attach(vmi *kubevirtv1.VirtualMachineInstance) {
	vmi.Status.VolumeStatus = slices.DeleteFunc(vmi.Status.VolumeStatus, func(s kubevirtv1.VolumeStatus) bool {
		return s.HotplugVolume != nil && volumeOf(vmi.Spec.Volumes, s.Name) == nil
	})
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		if attachedVolume(vmi, v.Name) == nil && hotpluggable(v) {
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, kubevirtv1.VolumeStatus{
				Name: v.Name, Phase: kubevirtv1.VolumeReady, HotplugVolume: &kubevirtv1.HotplugVolumeStatus{},
				PersistentVolumeClaimInfo: &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: claims.OfVolume(v), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}},
			})
		}
	}
	vmi.Status.Interfaces = slices.DeleteFunc(vmi.Status.Interfaces, func(s kubevirtv1.VirtualMachineInstanceNetworkInterface) bool {
		i := interfaceOf(vmi.Spec.Domain.Devices.Interfaces, s.Name)
		return i == nil || i.State == kubevirtv1.InterfaceStateAbsent
	})
}

// Booted sets what the agent of the node reports of a guest that has started.
func Booted(vmi *kubevirtv1.VirtualMachineInstance) {
	vmi.Status.VolumeStatus, vmi.Status.Interfaces = nil, nil
	for i := range vmi.Spec.Volumes {
		s := kubevirtv1.VolumeStatus{Name: vmi.Spec.Volumes[i].Name}
		if claim := claims.OfVolume(&vmi.Spec.Volumes[i]); claim != "" {
			s.PersistentVolumeClaimInfo = &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: claim, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}
		}
		if hotpluggable(&vmi.Spec.Volumes[i]) {
			s.HotplugVolume, s.Phase = &kubevirtv1.HotplugVolumeStatus{}, kubevirtv1.VolumeReady
		}
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, s)
	}
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		guest := memory.Guest.DeepCopy()
		vmi.Status.Memory = &kubevirtv1.MemoryStatus{GuestAtBoot: &guest}
	}
	moved(vmi)
}

// Migrated sets what the agent of the target node reports: the guest has what waited for the migration.
func Migrated(vmi *kubevirtv1.VirtualMachineInstance) {
	for i := range vmi.Status.MigratedVolumes {
		m := &vmi.Status.MigratedVolumes[i]
		if s := attachedVolume(vmi, m.VolumeName); s != nil && s.PersistentVolumeClaimInfo != nil && m.DestinationPVCInfo != nil {
			s.PersistentVolumeClaimInfo.ClaimName = m.DestinationPVCInfo.ClaimName
		}
	}
	vmi.Status.MigratedVolumes = nil
	for _, kind := range announcing {
		SetCondition(vmi, kubevirtv1.VirtualMachineInstanceCondition{Type: kind})
	}
	moved(vmi)
}

// moved sets the CPUs, the memory and the interfaces that the guest has on its node.
func moved(vmi *kubevirtv1.VirtualMachineInstance) {
	if cpu := vmi.Spec.Domain.CPU; cpu != nil {
		vmi.Status.CurrentCPUTopology = &kubevirtv1.CPUTopology{Cores: max(1, cpu.Cores), Sockets: max(1, cpu.Sockets), Threads: max(1, cpu.Threads)}
	}
	if memory := vmi.Spec.Domain.Memory; memory != nil && memory.Guest != nil && vmi.Status.Memory != nil {
		guest := memory.Guest.DeepCopy()
		vmi.Status.Memory.GuestCurrent, vmi.Status.Memory.GuestRequested = &guest, &guest
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		name := vmi.Spec.Domain.Devices.Interfaces[i].Name
		if vmi.Spec.Domain.Devices.Interfaces[i].State == kubevirtv1.InterfaceStateAbsent || attachedInterface(vmi, name) != nil {
			continue
		}
		status := kubevirtv1.VirtualMachineInstanceNetworkInterface{Name: name, InfoSource: "domain", PodInterfaceName: PodInterface(name), QueueCount: 1}
		if network := networkOf(vmi.Spec.Networks, name); network != nil && network.Pod != nil {
			status.PodInterfaceName = "eth0"
		}
		vmi.Status.Interfaces = append(vmi.Status.Interfaces, status)
	}
}
