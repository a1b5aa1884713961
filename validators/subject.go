package validators

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// Subject is what rules look at. Everything in it is read-only for them, and it belongs to one goroutine.
type Subject struct {
	// Facts of the cluster.
	Facts *platform.Facts
	// Spec is the effective spec, and Path its path in the object as written: spec.template.spec of a
	// VM, spec of a VMI.
	Spec *v1.VirtualMachineInstanceSpec
	Path *field.Path
	// Meta is the metadata that the VMI has or will have, and MetaPath its path.
	Meta     *metav1.ObjectMeta
	MetaPath *field.Path

	// VM is the VM as it is persisted, and OldVM as it was before an update; nil where there is none.
	VM, OldVM *v1.VirtualMachine
	// VMI is the complete VMI, and OldVMI as it was before an update; nil where there is none.
	VMI, OldVMI *v1.VirtualMachineInstance

	// Image is the golden image that the VM clones; nil if there is none, or if its architecture is unknown.
	Image *Image
	// VirtualImages are those that the VM or the VMI uses, as far as they are known.
	VirtualImages []VirtualImage
	// NodeArchitectures are those of the nodes that run virtual machines; nil if they are unknown.
	NodeArchitectures []string
	// Capacity says whether the cluster has room; nil if that is not known.
	Capacity *Capacity

	// Instancetype or Preference is the spec of one, if that is the object. Only the Facts and the Path of the spec are
	// set then.
	Instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
	Preference   *instancetypev1beta1.VirtualMachinePreferenceSpec

	// Set is a replica set or a pool, where that is the object.
	Set *Set

	// Running is the VMI that runs from the VM, as far as it is known.
	Running *v1.VirtualMachineInstance

	// Raw is the VM or VMI as it was sent, as JSON, where that is known: it may hold fields that no type has.
	Raw []byte
	// Conflicts are what kept the object from being expanded and completed.
	Conflicts []Conflict
	// Missing are the fields that completing a VMI fills although every mutating webhook has seen it.
	Missing []provenance.Change

	// Severities are those of rules which differ from the rules' own.
	Severities Severities

	// Requester is the user name of the requester.
	Requester string
	// RequesterExtra are the extra attributes of the requester.
	RequesterExtra map[string][]string

	// domain and devices are the paths that nearly every rule needs, made once. So a Subject belongs to one
	// goroutine, and its Path does not change.
	domain, devices *field.Path
}

// Image is the golden image that a VM clones.
type Image struct {
	// Template is the index of the dataVolumeTemplate that names the DataSource.
	Template int
	// DataSource is NAMESPACE/NAME, and Architecture that of its image.
	DataSource, Architecture string
}

// Domain is the path of the spec's domain.
func (s *Subject) Domain() *field.Path {
	if s.domain == nil {
		s.domain = s.Path.Child("domain")
	}
	return s.domain
}

// Devices is the path of the domain's devices.
func (s *Subject) Devices() *field.Path {
	if s.devices == nil {
		s.devices = s.Domain().Child("devices")
	}
	return s.devices
}

// ByKubeVirt reports whether the requester is one of KubeVirt's own accounts.
func (s *Subject) ByKubeVirt() bool { return s.Facts.ByKubeVirt(s.Requester) }
