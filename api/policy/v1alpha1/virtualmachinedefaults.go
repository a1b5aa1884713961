package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MaxDefaultsNameLength bounds the name of a VirtualMachineDefaults, which the
// provenance of every field it fills names as site/NAME.
const MaxDefaultsNameLength = 63

// VirtualMachineDefaults fills fields that the authors of virtual machines
// leave out, before Virtward's built-in defaults and KubeVirt's do.
//
// What the author wrote stays as it is, and so does what the instancetype and
// the preference that the author named say. A VirtualMachine gets the defaults
// when it is created, written into its template, and keeps them whatever
// becomes of this object. When a VirtualMachine starts, its
// VirtualMachineInstance gets those that the virtual machine does not have,
// except nodeSelector, affinity and tolerations: KubeVirt wants these to be
// the same in both.
//
// Of several objects that say something of one field, one that selects
// namespaces comes before one that does not, and then the one whose name comes
// first in the alphabet.
//
// Whoever may create objects of this kind decides about every virtual machine
// of the cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=virtualmachinedefaults,singular=virtualmachinedefaults,scope=Cluster,shortName=vmdefaults,categories=virtward
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must have at most 63 characters"
// +kubebuilder:printcolumn:name="Hypervisors",type=string,JSONPath=`.spec.match.hypervisors`,priority=1
// +kubebuilder:printcolumn:name="Architectures",type=string,JSONPath=`.spec.match.architectures`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMachineDefaults struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is filled, and where.
	Spec VirtualMachineDefaultsSpec `json:"spec"`
}

// VirtualMachineDefaultsSpec says what is filled, and where.
type VirtualMachineDefaultsSpec struct {
	// The virtual machines that get the defaults; all of them if nothing is
	// said here. All that is said must fit.
	//
	// +optional
	Match DefaultsMatch `json:"match,omitempty"`

	// The defaults: some fields of the spec of a VirtualMachineInstance, which
	// is spec.template.spec of a VirtualMachine, in the same form.
	//
	// A field is filled if the virtual machine has nothing there: no text, no
	// number but 0, nothing but false. Objects are filled field by field, maps
	// such as nodeSelector key by key, and lists only as a whole, if there is
	// no element. Fields that are only right together are filled together or
	// not at all: the sockets, cores and threads and the requested CPUs; the
	// memory of the guest and the requested memory; networks and interfaces;
	// volumes, disks and filesystems; a probe; and of a choice, such as BIOS
	// or EFI, what goes with the choice of the author. maxSockets and maxGuest
	// are left out where the virtual machine could not grow to them.
	//
	// Every virtual machine has an identity of its own, so that there are no
	// defaults for hostname, firmware.uuid, firmware.serial, and MAC
	// addresses.
	//
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`

	// Why, for whoever reads this later. Users never see it, and Virtward does
	// not read it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// DefaultsMatch selects the virtual machines that get defaults.
type DefaultsMatch struct {
	// The namespaces, by their labels; all of them without a selector. Every
	// namespace has the label kubernetes.io/metadata.name, which nobody can
	// set to another value; whoever may set the other labels of a namespace
	// decides whether it is selected by them. Virtward's own namespace and
	// kube-system are never selected.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// The virtual machines, by the labels that they run with: those of a
	// VirtualMachineInstance, and those in the template of a VirtualMachine.
	// All of them without a selector.
	//
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// The hypervisors that the cluster may have, such as kvm or mshv.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Hypervisors []string `json:"hypervisors,omitempty"`

	// The architectures that the virtual machine may have: amd64, arm64 or
	// s390x. That is what its author wrote, or what the preference, the
	// DataSource of its disk, other defaults without architectures, or the
	// cluster says.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Architectures []PolicyArchitecture `json:"architectures,omitempty"`
}

// VirtualMachineDefaultsList is a list of VirtualMachineDefaults.
//
// +kubebuilder:object:root=true
type VirtualMachineDefaultsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachineDefaults `json:"items"`
}
