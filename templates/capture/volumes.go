package capture

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// Annotations of DataVolumes that CDI reads.
const (
	// annotationBindImmediately: CDI fills the volume at once, even if its storage class waits for a pod.
	annotationBindImmediately = "cdi.kubevirt.io/storage.bind.immediate.requested"
	// annotationKeep: CDI does not delete the completed DataVolume, which owns the PersistentVolumeClaim.
	annotationKeep = "cdi.kubevirt.io/storage.deleteAfterCompletion"
	// annotationAdopt: whether CDI takes a claim that exists for the content of the DataVolume.
	annotationAdopt = "cdi.kubevirt.io/allowClaimAdoption"
)

// Volume is a captured volume.
type Volume struct {
	// Name is the first volume of the VirtualMachine with this claim.
	Name string
	// Claim is the PersistentVolumeClaim of the VirtualMachine.
	Claim string
	// Snapshot is the VolumeSnapshot of the claim.
	Snapshot string
	// base is the fixed part of the name in the template.
	base string
	// spec is that of the claim.
	spec corev1.PersistentVolumeClaimSpec
}

// Error says why a snapshot cannot become a template. It does not change by itself.
type Error struct {
	// Reason is a reason of the conditions of a request.
	Reason  string
	Message string
}

func (e *Error) Error() string { return e.Message }

func fault(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Volumes returns the captured volumes of a snapshot, in the order of the VirtualMachine. Each claim is one volume, even
// if the VirtualMachine has it twice. Copies of other volumes, such as the state of firmware and TPM, are not captured.
// The error is an *Error.
func Volumes(content *snapshotv1beta1.VirtualMachineSnapshotContent) ([]Volume, error) {
	vm := content.Spec.Source.VirtualMachine
	if vm == nil {
		return nil, fault(v1beta1.ReasonSnapshotFailed, "the snapshot has no VirtualMachine")
	}
	if vm.Spec.Template == nil {
		return nil, fault(v1beta1.ReasonInvalidConfiguration, "the VirtualMachine has no spec.template")
	}
	backups := map[string]*snapshotv1beta1.VolumeBackup{}
	for i := range content.Spec.VolumeBackups {
		backups[content.Spec.VolumeBackups[i].VolumeName] = &content.Spec.VolumeBackups[i]
	}
	names := namesOf(vm.Spec.DataVolumeTemplates)
	var volumes []Volume
	var missing []string
	for i := range vm.Spec.Template.Spec.Volumes {
		v := &vm.Spec.Template.Spec.Volumes[i]
		claim, base, isDisk := claimOf(v)
		if !isDisk || slices.ContainsFunc(volumes, func(other Volume) bool { return other.Claim == claim }) {
			continue
		}
		backup := backups[v.Name]
		if backup == nil || ptr.Deref(backup.VolumeSnapshotName, "") == "" {
			missing = append(missing, v.Name)
			continue
		}
		volumes = append(volumes, Volume{
			Name: v.Name, Claim: claim, Snapshot: *backup.VolumeSnapshotName,
			base: names.base(base, claim), spec: backup.PersistentVolumeClaim.Spec,
		})
	}
	if len(missing) > 0 {
		return nil, fault(v1beta1.ReasonVolumesNotCaptured, "the snapshot has no copy of the volumes %s: use a storage class with a VolumeSnapshotClass, or remove the volumes",
			texts.Shorten(strings.Join(missing, ", "), maxListed))
	}
	return volumes, nil
}

// names are the fixed parts of names in a template that are in use.
type names struct {
	// templates are those of the DataVolume templates of the VirtualMachine.
	templates, used map[string]bool
}

func namesOf(list []kubevirtv1.DataVolumeTemplateSpec) *names {
	n := &names{templates: map[string]bool{}, used: map[string]bool{}}
	for i := range list {
		n.templates[list[i].Name] = true
		n.used[list[i].Name] = true
	}
	return n
}

// base returns a name for the DataVolume of a claim: the given one, unless another has it.
func (n *names) base(name, claim string) string {
	base := baseName(name)
	if own := n.templates[claim] && name == claim; n.used[base] && !own {
		base = label(name, maxBase-hashLength-1) + "-" + hash(claim)
	}
	n.used[base] = true
	return base
}

// maxListed bounds lists of names in messages, in bytes.
const maxListed = 512

// claimOf returns the claim of a volume, and the name of its DataVolume in a template. Memory dumps and ephemeral volumes
// are not disks of the VirtualMachine.
func claimOf(v *kubevirtv1.Volume) (claim, base string, isDisk bool) {
	switch {
	case v.DataVolume != nil:
		return v.DataVolume.Name, v.DataVolume.Name, true
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, v.Name, true
	}
	return "", "", false
}

// DataVolume returns the clone of a volume, in the namespace of the request. It belongs to the request.
func DataVolume(request *v1beta1.VirtualMachineTemplateRequest, v *Volume) *cdiv1beta1.DataVolume {
	return &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Namespace, Name: CloneName(request, v.Name),
			Labels:          map[string]string{v1beta1.LabelRequestUID: string(request.UID)},
			Annotations:     map[string]string{annotationBindImmediately: "", annotationKeep: "false", annotationAdopt: "false"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(request, v1beta1.GroupVersion.WithKind("VirtualMachineTemplateRequest"))},
		},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: &cdiv1beta1.DataVolumeSource{Snapshot: &cdiv1beta1.DataVolumeSourceSnapshot{
				Namespace: request.Spec.VirtualMachineRef.Namespace, Name: v.Snapshot,
			}},
			Storage: v.storage(),
		},
	}
}

// storage returns the settings of the claim.
func (v *Volume) storage() *cdiv1beta1.StorageSpec {
	s := &cdiv1beta1.StorageSpec{StorageClassName: v.spec.StorageClassName, VolumeMode: v.spec.VolumeMode, AccessModes: v.spec.AccessModes}
	if size, found := v.size(); found {
		s.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	}
	return s
}

func (v *Volume) size() (resource.Quantity, bool) {
	size, found := v.spec.Resources.Requests[corev1.ResourceStorage]
	return size, found
}
