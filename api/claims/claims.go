// Package claims names the PersistentVolumeClaims of virtual machines.
package claims

import v1 "kubevirt.io/api/core/v1"

// OfVolume returns the claim that a volume uses, in the namespace of its virtual machine. A DataVolume has a claim of its own name.
// It is empty if the volume uses none, or if there is no volume. A claim below an overlay (ephemeral) is not the volume's.
func OfVolume(volume *v1.Volume) string {
	switch {
	case volume == nil:
		return ""
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.DataVolume != nil:
		return volume.DataVolume.Name
	case volume.MemoryDump != nil:
		return volume.MemoryDump.ClaimName
	}
	return ""
}
