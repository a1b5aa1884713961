package liveupdates

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// found is the item of a list for which a function is true, or nil.
func found[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

func volumeOf(list []kubevirtv1.Volume, name string) *kubevirtv1.Volume {
	return found(list, func(v *kubevirtv1.Volume) bool { return v.Name == name })
}

func diskOf(list []kubevirtv1.Disk, name string) *kubevirtv1.Disk {
	return found(list, func(d *kubevirtv1.Disk) bool { return d.Name == name })
}

func interfaceOf(list []kubevirtv1.Interface, name string) *kubevirtv1.Interface {
	return found(list, func(i *kubevirtv1.Interface) bool { return i.Name == name })
}

func networkOf(list []kubevirtv1.Network, name string) *kubevirtv1.Network {
	return found(list, func(n *kubevirtv1.Network) bool { return n.Name == name })
}

func attachedVolume(vmi *kubevirtv1.VirtualMachineInstance, name string) *kubevirtv1.VolumeStatus {
	return found(vmi.Status.VolumeStatus, func(s *kubevirtv1.VolumeStatus) bool { return s.Name == name })
}

func attachedInterface(vmi *kubevirtv1.VirtualMachineInstance, name string) *kubevirtv1.VirtualMachineInstanceNetworkInterface {
	return found(vmi.Status.Interfaces, func(s *kubevirtv1.VirtualMachineInstanceNetworkInterface) bool { return s.Name == name })
}

func hotpluggable(v *kubevirtv1.Volume) bool {
	return v != nil && (v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.Hotpluggable || v.DataVolume != nil && v.DataVolume.Hotpluggable)
}

// pluggedLater reports whether a volume does not count for a restart.
func pluggedLater(v *kubevirtv1.Volume) bool {
	return hotpluggable(v) || v != nil && v.MemoryDump != nil && v.MemoryDump.Hotpluggable
}

func conditionOf(vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) corev1.ConditionStatus {
	if c := found(vmi.Status.Conditions, func(c *kubevirtv1.VirtualMachineInstanceCondition) bool { return c.Type == kind }); c != nil {
		return c.Status
	}
	return ""
}

// SetCondition sets a condition of an instance, or removes it if the status is empty. It keeps an equal one.
func SetCondition(vmi *kubevirtv1.VirtualMachineInstance, c kubevirtv1.VirtualMachineInstanceCondition) {
	if old := found(vmi.Status.Conditions, func(o *kubevirtv1.VirtualMachineInstanceCondition) bool { return o.Type == c.Type }); old != nil && c.Status != "" {
		if old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message {
			*old = c
		}
		return
	}
	if c.Status == "" {
		vmi.Status.Conditions = slices.DeleteFunc(vmi.Status.Conditions, func(o kubevirtv1.VirtualMachineInstanceCondition) bool { return o.Type == c.Type })
		return
	}
	vmi.Status.Conditions = append(vmi.Status.Conditions, c)
}
