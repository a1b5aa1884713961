package validators

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// signRules are about amounts below zero. KubeVirt accepts them, and no VM runs with them, but a limit that an amount
// is compared with does not stop them. A test sets every signed field to -1, and demands a finding.
func signRules() Table {
	return Table{
		{
			ID: "memory-not-negative", Title: "The amounts of a guest's memory are not negative", Scope: OnSpec, AtStart: true,
			Remedy: "Set the field to zero or more, or leave it out.", Check: memoryNotNegative,
		},
		{
			ID: "scheduling-resources-not-negative", Title: "Requests and limits are not negative", Scope: OnSpec, AtStart: true,
			Remedy: "Set the request or the limit to zero or more, or leave it out.", Check: resourcesNotNegative,
		},
		{
			ID: "volume-capacity-not-negative", Title: "The capacity of a disk is not negative", Scope: OnSpec, AtStart: true,
			Remedy: "Set the capacity to more than zero.", Check: eachVolume(capacityNotNegative),
		},
		{
			ID: "interface-acpi-index-not-negative", Title: "The ACPI index of an interface is not negative", Scope: OnSpec, AtStart: true,
			Remedy: "Set acpiIndex to 1 or more, or leave it out.", Check: acpiIndexNotNegative,
		},
		{
			ID: "dvt-size-not-negative", Title: "The size of a DataVolume template is not negative", Scope: OnVM, AtStart: true,
			Remedy: "Set the size to more than zero.", Check: dataVolumeSizeNotNegative,
		},
		{
			ID: "instancetype-memory-not-negative", Title: "The memory of an instancetype is not negative", Scope: OnInstancetype,
			Remedy: "Set the amount to more than zero.", Check: ofInstancetype(instancetypeMemoryNotNegative),
		},
	}
}

const negative = "must not be negative"

func memoryNotNegative(s *Subject) (errs field.ErrorList) {
	memory := s.Spec.Domain.Memory
	if memory == nil {
		return nil
	}
	path := s.Domain().Child("memory")
	errs = append(errs, amountNotNegative(path.Child("guest"), memory.Guest)...)
	errs = append(errs, amountNotNegative(path.Child("maxGuest"), memory.MaxGuest)...)
	if memory.ReservedOverhead != nil {
		errs = append(errs, amountNotNegative(path.Child("reservedOverhead", "addedOverhead"), memory.ReservedOverhead.AddedOverhead)...)
	}
	return errs
}

func amountNotNegative(path *field.Path, amount *resource.Quantity) field.ErrorList {
	if amount == nil {
		return nil
	}
	return notNegative(path, amount)
}

// resourcesNotNegative leaves CPU and memory to rules of their own, which KubeVirt has too.
func resourcesNotNegative(s *Subject) field.ErrorList {
	resources := s.Domain().Child("resources")
	ours := func(name corev1.ResourceName) bool {
		return name != corev1.ResourceCPU && name != corev1.ResourceMemory
	}
	return append(listNotNegative(resources.Child("requests"), s.Spec.Domain.Resources.Requests, ours),
		listNotNegative(resources.Child("limits"), s.Spec.Domain.Resources.Limits, ours)...)
}

func listNotNegative(path *field.Path, list corev1.ResourceList, of func(corev1.ResourceName) bool) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if amount := list[name]; of(name) && !enough(errs) {
			errs = append(errs, notNegative(path.Key(string(name)), &amount)...)
		}
	}
	return errs
}

func capacityNotNegative(v *v1.Volume, at volumeAt) *field.Error {
	switch {
	case v.EmptyDisk != nil && v.EmptyDisk.Capacity.Sign() < 0:
		return field.Invalid(at.path("emptyDisk", "capacity"), v.EmptyDisk.Capacity.String(), negative)
	case v.HostDisk != nil && v.HostDisk.Capacity.Sign() < 0:
		return field.Invalid(at.path("hostDisk", "capacity"), v.HostDisk.Capacity.String(), negative)
	}
	return nil
}

func acpiIndexNotNegative(s *Subject) (errs field.ErrorList) {
	for i := range s.Spec.Domain.Devices.Interfaces {
		if index := s.Spec.Domain.Devices.Interfaces[i].ACPIIndex; index < 0 && !enough(errs) {
			errs = append(errs, field.Invalid(s.Devices().Child("interfaces").Index(i).Child("acpiIndex"), index, negative))
		}
	}
	return errs
}

func dataVolumeSizeNotNegative(s *Subject) (errs field.ErrorList) {
	if s.VM == nil {
		return nil
	}
	all := func(corev1.ResourceName) bool { return true }
	for i := range s.VM.Spec.DataVolumeTemplates {
		spec, path := &s.VM.Spec.DataVolumeTemplates[i].Spec, dataVolumeTemplatePath(i).Child("spec")
		if enough(errs) {
			return errs
		}
		if spec.Storage != nil {
			at := path.Child("storage", "resources")
			errs = append(errs, listNotNegative(at.Child("requests"), spec.Storage.Resources.Requests, all)...)
			errs = append(errs, listNotNegative(at.Child("limits"), spec.Storage.Resources.Limits, all)...)
		}
		if spec.PVC != nil {
			at := path.Child("pvc", "resources")
			errs = append(errs, listNotNegative(at.Child("requests"), spec.PVC.Resources.Requests, all)...)
			errs = append(errs, listNotNegative(at.Child("limits"), spec.PVC.Resources.Limits, all)...)
		}
	}
	return errs
}

func instancetypeMemoryNotNegative(s *Subject, in *instancetypeSpec) field.ErrorList {
	path := s.Path.Child("memory")
	return append(notNegative(path.Child("guest"), &in.Memory.Guest), amountNotNegative(path.Child("maxGuest"), in.Memory.MaxGuest)...)
}
