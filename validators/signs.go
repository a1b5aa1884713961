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
	return slices.Concat(
		Scoped(OnSpec, memoryNotNegativeRule, resourcesNotNegativeRule, capacityNotNegativeRule, acpiIndexNotNegativeRule),
		Scoped(OnVM, dataVolumeSizeNotNegativeRule),
		Scoped(OnInstancetype, instancetypeMemoryNotNegativeRule),
	)
}

const negative = "must not be negative"

var memoryNotNegativeRule = Rule{
	ID:      "memory-not-negative",
	Title:   "The amounts of a guest's memory are not negative",
	Remedy:  "Set the field to zero or more, or leave it out.",
	AtStart: true,
	Check:   memoryNotNegative,
}

func memoryNotNegative(s *Subject, found *Errors) {
	memory := s.Spec.Domain.Memory
	if memory == nil {
		return
	}
	amountNotNegative(inDomain(s, "memory", "guest"), memory.Guest, found)
	amountNotNegative(inDomain(s, "memory", "maxGuest"), memory.MaxGuest, found)
	if memory.ReservedOverhead != nil {
		amountNotNegative(inDomain(s, "memory", "reservedOverhead", "addedOverhead"), memory.ReservedOverhead.AddedOverhead, found)
	}
}

func amountNotNegative(at place, amount *resource.Quantity, found *Errors) {
	if amount == nil {
		return
	}
	notNegative(at, amount, found)
}

var resourcesNotNegativeRule = Rule{
	ID:      "scheduling-resources-not-negative",
	Title:   "Requests and limits are not negative",
	Remedy:  "Set the request or the limit to zero or more, or leave it out.",
	AtStart: true,
	Check:   resourcesNotNegative,
}

// resourcesNotNegative leaves CPU and memory to rules of their own, which KubeVirt has too.
func resourcesNotNegative(s *Subject, found *Errors) {
	other := func(name corev1.ResourceName) bool {
		return name != corev1.ResourceCPU && name != corev1.ResourceMemory
	}
	listNotNegative(inDomain(s, "resources", "requests"), s.Spec.Domain.Resources.Requests, other, found)
	listNotNegative(inDomain(s, "resources", "limits"), s.Spec.Domain.Resources.Limits, other, found)
}

func listNotNegative(at place, list corev1.ResourceList, of func(corev1.ResourceName) bool, found *Errors) {
	names := slices.Sorted(maps.Keys(list))
	for i := range found.Each(len(names)) {
		name := names[i]
		if amount := list[name]; of(name) {
			notNegative(func() *field.Path { return at().Key(string(name)) }, &amount, found)
		}
	}
}

var capacityNotNegativeRule = Rule{
	ID:      "volume-capacity-not-negative",
	Title:   "The capacity of a disk is not negative",
	Remedy:  "Set the capacity to more than zero.",
	AtStart: true,
	Check:   eachVolume(capacityNotNegative),
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

var acpiIndexNotNegativeRule = Rule{
	ID:      "interface-acpi-index-not-negative",
	Title:   "The ACPI index of an interface is not negative",
	Remedy:  "Set acpiIndex to 1 or more, or leave it out.",
	AtStart: true,
	Check:   acpiIndexNotNegative,
}

func acpiIndexNotNegative(s *Subject, found *Errors) {
	interfaces := s.Spec.Domain.Devices.Interfaces
	for i := range found.Each(len(interfaces)) {
		if index := interfaces[i].ACPIIndex; index < 0 {
			found.Add(field.Invalid(s.Devices().Child("interfaces").Index(i).Child("acpiIndex"), index, negative))
		}
	}
}

var dataVolumeSizeNotNegativeRule = Rule{
	ID:      "dvt-size-not-negative",
	Title:   "The size of a DataVolume template is not negative",
	Remedy:  "Set the size to more than zero.",
	AtStart: true,
	Check:   dataVolumeSizeNotNegative,
}

func dataVolumeSizeNotNegative(s *Subject, found *Errors) {
	if s.VM == nil {
		return
	}
	all := func(corev1.ResourceName) bool { return true }
	templates := s.VM.Spec.DataVolumeTemplates
	for i := range found.Each(len(templates)) {
		spec, path := &templates[i].Spec, dataVolumeTemplatePath(i).Child("spec")
		if spec.Storage != nil {
			at := path.Child("storage", "resources")
			listNotNegative(under(at, "requests"), spec.Storage.Resources.Requests, all, found)
			listNotNegative(under(at, "limits"), spec.Storage.Resources.Limits, all, found)
		}
		if spec.PVC != nil {
			at := path.Child("pvc", "resources")
			listNotNegative(under(at, "requests"), spec.PVC.Resources.Requests, all, found)
			listNotNegative(under(at, "limits"), spec.PVC.Resources.Limits, all, found)
		}
	}
}

var instancetypeMemoryNotNegativeRule = Rule{
	ID:     "instancetype-memory-not-negative",
	Title:  "The memory of an instancetype is not negative",
	Remedy: "Set the amount to more than zero.",
	Check:  ofInstancetype(instancetypeMemoryNotNegative),
}

func instancetypeMemoryNotNegative(s *Subject, in *instancetypeSpec, found *Errors) {
	path := s.Path.Child("memory")
	notNegative(under(path, "guest"), &in.Memory.Guest, found)
	amountNotNegative(under(path, "maxGuest"), in.Memory.MaxGuest, found)
}
