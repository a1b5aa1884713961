package virtualimages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
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

// ReferencesTo are the references to an image: to the DataSource of its name, and to its volume.
func ReferencesTo(image *v1alpha1.VirtualImage) []Reference {
	return []Reference{
		{Namespace: image.Namespace, Name: image.Name},
		{Claim: true, Namespace: image.Namespace, Name: VolumeName(image.Name, image.UID)},
	}
}

// Use is a reference at a field of an object.
type Use struct {
	Reference

	Field *field.Path
	// Template is the index of the dataVolumeTemplate with the reference; -1 for a volume.
	Template int
}

// UsesOfMachine are the references of the dataVolumeTemplates and of the volumes of a virtual machine, in their order.
func UsesOfMachine(vm *kubevirtv1.VirtualMachine) []Use {
	var list []Use
	spec := field.NewPath("spec")
	for i := range vm.Spec.DataVolumeTemplates {
		list = append(list, ofDataVolume(vm.Namespace, &vm.Spec.DataVolumeTemplates[i].Spec, spec.Child("dataVolumeTemplates").Index(i).Child("spec"), i)...)
	}
	if vm.Spec.Template != nil {
		list = append(list, ofVolumes(vm.Namespace, vm.Spec.Template.Spec.Volumes, spec.Child("template", "spec", "volumes"))...)
	}
	return list
}

// UsesOfInstance are the references of the volumes of an instance, in their order.
func UsesOfInstance(vmi *kubevirtv1.VirtualMachineInstance) []Use {
	return ofVolumes(vmi.Namespace, vmi.Spec.Volumes, field.NewPath("spec", "volumes"))
}

// ReferencesOfMachine are those of the volumes and of the dataVolumeTemplates of a virtual machine, sorted and each once.
func ReferencesOfMachine(vm *kubevirtv1.VirtualMachine) []Reference {
	return unique(UsesOfMachine(vm))
}

// DefaultAccount is the service account of a namespace that clones for its virtual machines and DataVolumes.
const DefaultAccount = "default"

// AccountOfMachine is the name of the service account that KubeVirt clones with for a virtual machine: that of its last volume
// with one, or the default one.
func AccountOfMachine(vm *kubevirtv1.VirtualMachine) string {
	account := DefaultAccount
	if vm.Spec.Template == nil {
		return account
	}
	for i := range vm.Spec.Template.Spec.Volumes {
		if v := vm.Spec.Template.Spec.Volumes[i].ServiceAccount; v != nil {
			account = v.ServiceAccountName
		}
	}
	return account
}

// ReferencesOfInstance are those of the volumes of an instance.
func ReferencesOfInstance(vmi *kubevirtv1.VirtualMachineInstance) []Reference {
	return unique(UsesOfInstance(vmi))
}

// ReferencesOfDataVolume are those of the source of a DataVolume. A DataVolume that is complete has its own copy, and
// refers to nothing.
func ReferencesOfDataVolume(dv *cdiv1beta1.DataVolume) []Reference {
	if dv.Status.Phase == cdiv1beta1.Succeeded {
		return nil
	}
	return unique(ofDataVolume(dv.Namespace, &dv.Spec, field.NewPath("spec"), -1))
}

func ofDataVolume(namespace string, spec *cdiv1beta1.DataVolumeSpec, path *field.Path, template int) []Use {
	var list []Use
	if ref := spec.SourceRef; ref != nil && strings.EqualFold(ref.Kind, "DataSource") {
		in := namespace
		if ref.Namespace != nil && *ref.Namespace != "" {
			in = *ref.Namespace
		}
		list = append(list, Use{Reference{Namespace: in, Name: ref.Name}, path.Child("sourceRef"), template})
	}
	if spec.Source != nil && spec.Source.PVC != nil {
		in := namespace
		if spec.Source.PVC.Namespace != "" {
			in = spec.Source.PVC.Namespace
		}
		list = append(list, Use{Reference{Claim: true, Namespace: in, Name: spec.Source.PVC.Name}, path.Child("source", "pvc"), template})
	}
	return list
}

func ofVolumes(namespace string, volumes []kubevirtv1.Volume, path *field.Path) []Use {
	var list []Use
	for i := range volumes {
		claim := func(name string, at ...string) {
			list = append(list, Use{Reference{Claim: true, Namespace: namespace, Name: name}, path.Index(i).Child(at[0], at[1:]...), -1})
		}
		switch v := &volumes[i]; {
		case v.DataVolume != nil:
			claim(v.DataVolume.Name, "dataVolume", "name")
		case v.PersistentVolumeClaim != nil:
			claim(v.PersistentVolumeClaim.ClaimName, "persistentVolumeClaim", "claimName")
		case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
			claim(v.Ephemeral.PersistentVolumeClaim.ClaimName, "ephemeral", "persistentVolumeClaim", "claimName")
		}
	}
	return list
}

func unique(uses []Use) []Reference {
	if len(uses) == 0 {
		return nil
	}
	list := make([]Reference, len(uses))
	for i := range uses {
		list[i] = uses[i].Reference
	}
	slices.SortFunc(list, func(a, b Reference) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), compareBool(a.Claim, b.Claim))
	})
	return slices.Compact(list)
}

// CanBeImage reports whether a reference can be to an image: the names of volumes of images end with a part of a UID.
func (r Reference) CanBeImage() bool {
	if !r.Claim {
		return true
	}
	at := strings.LastIndexByte(r.Name, '-')
	return at > 0 && len(r.Name)-at-1 == 8 && strings.Trim(r.Name[at+1:], "0123456789abcdef") == ""
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
	// Names are Namespace/Name of those in the namespace of the image, sorted, at most MaxListed of them.
	Names []string
	// Total is the number of all of them, and Elsewhere that of those in other namespaces. Their names are not for readers of
	// the image, who may have no rights there. Of an image with thousands of users, some may not be counted.
	Total, Elsewhere int
}

// CountUsers counts the users of an image of a namespace. Several objects of one virtual machine are one user.
func CountUsers(namespace string, names []string) *Users {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	u := &Users{Total: len(names)}
	for _, name := range names {
		switch {
		case !strings.HasPrefix(name, namespace+"/"):
			u.Elsewhere++
		case len(u.Names) < MaxListed:
			u.Names = append(u.Names, name)
		}
	}
	return u
}

// Listed are the names and the number of the others, for the status.
func (u *Users) Listed() []string {
	names := slices.Clone(u.Names[:min(len(u.Names), MaxListed)])
	switch more := u.Total - len(names); {
	case more == 0:
	case more == u.Elsewhere && len(names) == 0:
		names = append(names, fmt.Sprintf("%d in other namespaces", more))
	case more == u.Elsewhere:
		names = append(names, fmt.Sprintf("and %d more in other namespaces", more))
	case u.Elsewhere > 0:
		names = append(names, fmt.Sprintf("and %d more, %d of them in other namespaces", more, u.Elsewhere))
	default:
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}
