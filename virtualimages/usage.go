package virtualimages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// Reference is what a virtual machine or a DataVolume refers to: a DataSource or a claim.
type Reference struct {
	// Claim tells that it is a claim or a DataVolume, whose names are the same.
	Claim           bool
	Namespace, Name string
}

// Of reports whether the reference is to an image: to the DataSource of its name, or to its volume.
func (r Reference) Of(image *v1alpha1.VirtualImage) bool {
	if r.Namespace != image.Namespace {
		return false
	}
	if r.Claim {
		return r.Name == VolumeName(image.Name, image.UID)
	}
	return r.Name == image.Name
}

// ReferencesOfMachine are those of the volumes and of the dataVolumeTemplates of a virtual machine, sorted and each once.
func ReferencesOfMachine(vm *kubevirtv1.VirtualMachine) []Reference {
	var list []Reference
	for i := range vm.Spec.DataVolumeTemplates {
		list = append(list, ofDataVolume(vm.Namespace, &vm.Spec.DataVolumeTemplates[i].Spec)...)
	}
	if vm.Spec.Template != nil {
		list = append(list, ofVolumes(vm.Namespace, vm.Spec.Template.Spec.Volumes)...)
	}
	return unique(list)
}

// ReferencesOfInstance are those of the volumes of an instance.
func ReferencesOfInstance(vmi *kubevirtv1.VirtualMachineInstance) []Reference {
	return unique(ofVolumes(vmi.Namespace, vmi.Spec.Volumes))
}

// ReferencesOfDataVolume are those of the source of a DataVolume. A DataVolume that is complete has its own copy, and
// refers to nothing.
func ReferencesOfDataVolume(dv *cdiv1beta1.DataVolume) []Reference {
	if dv.Status.Phase == cdiv1beta1.Succeeded {
		return nil
	}
	return unique(ofDataVolume(dv.Namespace, &dv.Spec))
}

func ofDataVolume(namespace string, spec *cdiv1beta1.DataVolumeSpec) []Reference {
	var list []Reference
	if ref := spec.SourceRef; ref != nil && strings.EqualFold(ref.Kind, "DataSource") {
		in := namespace
		if ref.Namespace != nil && *ref.Namespace != "" {
			in = *ref.Namespace
		}
		list = append(list, Reference{Namespace: in, Name: ref.Name})
	}
	if spec.Source != nil && spec.Source.PVC != nil {
		in := namespace
		if spec.Source.PVC.Namespace != "" {
			in = spec.Source.PVC.Namespace
		}
		list = append(list, Reference{Claim: true, Namespace: in, Name: spec.Source.PVC.Name})
	}
	return list
}

func ofVolumes(namespace string, volumes []kubevirtv1.Volume) []Reference {
	var list []Reference
	for i := range volumes {
		v := &volumes[i]
		switch {
		case v.DataVolume != nil:
			list = append(list, Reference{Claim: true, Namespace: namespace, Name: v.DataVolume.Name})
		case v.PersistentVolumeClaim != nil:
			list = append(list, Reference{Claim: true, Namespace: namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
			list = append(list, Reference{Claim: true, Namespace: namespace, Name: v.Ephemeral.PersistentVolumeClaim.ClaimName})
		}
	}
	return list
}

func unique(list []Reference) []Reference {
	slices.SortFunc(list, func(a, b Reference) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), compareBool(a.Claim, b.Claim))
	})
	return slices.Compact(list)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// MaxListed is the number of virtual machines that the status lists.
const MaxListed = 20

// Users are the virtual machines that use an image.
type Users struct {
	// Names are Namespace/Name, sorted, at most MaxListed of them.
	Names []string
	// Total is the number of all of them.
	Total int
}

// Listed are the names for the status.
func (u Users) Listed() []string {
	names := slices.Clone(u.Names[:min(len(u.Names), MaxListed)])
	if more := u.Total - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}
