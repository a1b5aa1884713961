package instancetypes

import (
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// ApplyToVM fills what a preference determines in a VM itself, where KubeVirt persists it when the VM is
// created: the storage class of its dataVolumeTemplates, the architecture and the machine type of its
// template. Expand applies the rest to the VMI. The recorder's paths start at the VM, whatever its root.
func ApplyToVM(vm *v1.VirtualMachine, pref *Preference, rec *provenance.Recorder) {
	if pref == nil {
		return
	}
	rec.SetLayer(pref.Layer())
	rec.At("", func() {
		preferStorageClass(vm, pref, rec)
		preferPlatform(vm, pref, rec)
	})
}

func preferStorageClass(vm *v1.VirtualMachine, pref *Preference, rec *provenance.Recorder) {
	if pref.Spec.Volumes == nil || pref.Spec.Volumes.PreferredStorageClassName == "" {
		return
	}
	class := pref.Spec.Volumes.PreferredStorageClassName
	for i := range vm.Spec.DataVolumeTemplates {
		volume := &vm.Spec.DataVolumeTemplates[i].Spec
		if volume.PVC != nil {
			provenance.FillPointer(rec, fieldpath.Indexed("spec.dataVolumeTemplates", i, "spec.pvc.storageClassName"), &volume.PVC.StorageClassName, class)
		}
		if volume.Storage != nil {
			provenance.FillPointer(rec, fieldpath.Indexed("spec.dataVolumeTemplates", i, "spec.storage.storageClassName"), &volume.Storage.StorageClassName, class)
		}
	}
}

func preferPlatform(vm *v1.VirtualMachine, pref *Preference, rec *provenance.Recorder) {
	if vm.Spec.Template == nil {
		return
	}
	spec := &vm.Spec.Template.Spec
	if pref.Spec.PreferredArchitecture != nil {
		provenance.Fill(rec, "spec.template.spec.architecture", &spec.Architecture, *pref.Spec.PreferredArchitecture)
	}
	if pref.Spec.Machine != nil && pref.Spec.Machine.PreferredMachineType != "" {
		provenance.Fill(rec, "spec.template.spec.domain.machine.type",
			&provenance.Ensure(&spec.Domain.Machine).Type, pref.Spec.Machine.PreferredMachineType)
	}
}
