package validators

import (
	"fmt"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// VirtualImage is what is known of a VirtualImage that a VM or a VMI uses.
type VirtualImage struct {
	// Name is NAMESPACE/NAME.
	Name string
	// Field refers to the image, and Template is the index of its dataVolumeTemplate; -1 if it is a volume.
	Field    *field.Path
	Template int
	// Deleted images are being deleted and are not ready: they do not take new users.
	Deleted bool
	// MinDisk is in GiB, and MinRAM in MiB; 0 for none.
	MinDisk, MinRAM int64
}

func virtualImageRules() Table {
	return append(Scoped(OnSpec, virtualImageDeletedRule, virtualImageMemoryRule), Scoped(OnVM, virtualImageDiskRule)...)
}

var virtualImageDeletedRule = Rule{
	ID:     "virtual-image-deleted",
	Title:  "The VirtualImage that a VM uses is not being deleted",
	Remedy: "Use another image, or create the VirtualImage again after its deletion.",
	Check:  virtualImageDeleted,
}

func virtualImageDeleted(s *Subject, found *Errors) {
	for i := range found.Each(len(s.VirtualImages)) {
		if image := &s.VirtualImages[i]; image.Deleted {
			found.Add(field.Invalid(image.Field, image.Name, "this VirtualImage is being deleted"))
		}
	}
}

var virtualImageMemoryRule = Rule{
	ID:     "virtual-image-memory",
	Title:  "A VM has the memory that its VirtualImage requires",
	Remedy: "Raise the memory of the VM, or use another image.",
	Check:  virtualImageMemory,
}

// virtualImageMemory compares the memory of the guest with the largest minRam of the images.
func virtualImageMemory(s *Subject, found *Errors) {
	var largest *VirtualImage
	for i := range s.VirtualImages {
		if image := &s.VirtualImages[i]; image.MinRAM > 0 && (largest == nil || image.MinRAM > largest.MinRAM) {
			largest = image
		}
	}
	at, memory := guestMemory(s)
	if largest == nil || memory == nil {
		return
	}
	least := resource.NewQuantity(largest.MinRAM<<20, resource.BinarySI)
	if memory.Cmp(*least) < 0 {
		found.Add(field.Invalid(at(), memory.String(), fmt.Sprintf("VirtualImage %s requires at least %s of memory (spec.minRam)", largest.Name, least)))
	}
}

// guestMemory is the memory of the guest, as KubeVirt determines it, and its field; nil if the VM has none.
func guestMemory(s *Subject) (place, *resource.Quantity) {
	domain := &s.Spec.Domain
	if domain.Memory != nil && domain.Memory.Guest != nil {
		return inDomain(s, "memory", "guest"), domain.Memory.Guest
	}
	if request := domain.Resources.Requests.Memory(); !request.IsZero() {
		return requestPlace(s, "memory"), request
	}
	if limit := domain.Resources.Limits.Memory(); !limit.IsZero() {
		return limitPlace(s, "memory"), limit
	}
	return nil, nil
}

var virtualImageDiskRule = Rule{
	ID:     "virtual-image-disk",
	Title:  "A volume has the size that its VirtualImage requires",
	Remedy: "Raise the storage request, or remove it: CDI then takes the size of the image.",
	Check:  virtualImageDisk,
}

func virtualImageDisk(s *Subject, found *Errors) {
	if s.VM == nil {
		return
	}
	for i := range found.Each(len(s.VirtualImages)) {
		image := &s.VirtualImages[i]
		if image.MinDisk <= 0 || image.Template < 0 || image.Template >= len(s.VM.Spec.DataVolumeTemplates) {
			continue
		}
		path, size := requestedSize(dataVolumeTemplatePath(image.Template).Child("spec"), &s.VM.Spec.DataVolumeTemplates[image.Template])
		least := resource.NewQuantity(image.MinDisk<<30, resource.BinarySI)
		if size != nil && size.Cmp(*least) < 0 {
			found.Add(field.Invalid(path, size.String(), fmt.Sprintf("VirtualImage %s requires at least %s of disk (spec.minDisk)", image.Name, least)))
		}
	}
}

// requestedSize is the size of the volume that a template requests, and its field; nil if it requests none.
func requestedSize(path *field.Path, template *v1.DataVolumeTemplateSpec) (*field.Path, *resource.Quantity) {
	if s := template.Spec.Storage; s != nil {
		if size, ok := s.Resources.Requests[k8sv1.ResourceStorage]; ok {
			return path.Child("storage", "resources", "requests", "storage"), &size
		}
	}
	if s := template.Spec.PVC; s != nil {
		if size, ok := s.Resources.Requests[k8sv1.ResourceStorage]; ok {
			return path.Child("pvc", "resources", "requests", "storage"), &size
		}
	}
	return path, nil
}

// SameVirtualImages reports whether an update of a VM changes neither the images that it uses nor its memory.
func SameVirtualImages(vm, old *v1.VirtualMachine) bool {
	if vm == nil || old == nil || vm.Spec.Template == nil || old.Spec.Template == nil {
		return false
	}
	a, b := &vm.Spec.Template.Spec, &old.Spec.Template.Spec
	return equality.Semantic.DeepEqual(vm.Spec.DataVolumeTemplates, old.Spec.DataVolumeTemplates) && equality.Semantic.DeepEqual(a.Volumes, b.Volumes) &&
		equality.Semantic.DeepEqual(a.Domain.Memory, b.Domain.Memory) && equality.Semantic.DeepEqual(a.Domain.Resources, b.Domain.Resources) &&
		equality.Semantic.DeepEqual(vm.Spec.Instancetype, old.Spec.Instancetype)
}
