package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MaxDefaultsNameLength is the length of the name of a VirtualMachineDefaults.
// The provenance of each field that it fills has the name, as site/NAME.
const MaxDefaultsNameLength = 63

// VirtualMachineDefaults fills fields that the authors of virtual machines
// leave empty. It takes precedence over the built-in defaults of Virtward and
// KubeVirt.
//
// Fields of the author, and of the instancetype and the preference that the
// author named, do not change. A VirtualMachine gets the defaults in its
// template when it is created, and keeps them if this object changes or is
// deleted. When a VirtualMachine starts, its VirtualMachineInstance gets the
// defaults that the VirtualMachine does not have, except nodeSelector, affinity
// and tolerations: KubeVirt requires these to be the same in both.
//
// If several objects have a default for the same field, objects with a
// namespace selector take precedence. If several of these have one, the
// object whose name is first in alphabetical order applies.
//
// Users who can create these objects can change every virtual machine of the
// cluster.
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

	// Defaults, and the virtual machines that get them.
	Spec VirtualMachineDefaultsSpec `json:"spec"`
}

// VirtualMachineDefaultsSpec has defaults, and the virtual machines that get
// them.
type VirtualMachineDefaultsSpec struct {
	// Virtual machines that get the defaults. By default, all of them do.
	//
	// +optional
	Match DefaultsMatch `json:"match,omitempty"`

	// Defaults: fields of the spec of a VirtualMachineInstance, which is
	// spec.template.spec of a VirtualMachine.
	//
	// A field is filled if it is empty, zero or false. Objects are filled field
	// by field, and maps such as nodeSelector key by key. A list is filled only
	// if it has no element. Fields that depend on each other are filled
	// together or not at all: sockets, cores, threads and the requested CPUs;
	// guest memory and requested memory; networks and interfaces; volumes,
	// disks and filesystems; the fields of a probe. For a choice such as BIOS
	// or EFI, only defaults for the author's choice are filled. maxSockets and
	// maxGuest are not filled if the virtual machine cannot grow to them.
	//
	// hostname, firmware.uuid, firmware.serial and MAC addresses cannot have
	// defaults, because they identify one virtual machine.
	//
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`

	// Why the defaults exist. Virtward does not use this field.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// DefaultsMatch selects the virtual machines that get defaults. They must match
// every field that is set.
type DefaultsMatch struct {
	// Labels of the namespaces. Without a selector, all namespaces match. Users
	// cannot change the label kubernetes.io/metadata.name; users who can set
	// other labels of a namespace can change whether it matches. Virtward's own
	// namespace and kube-system never match.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Labels of the VirtualMachineInstance, or of the template in the
	// VirtualMachine. Without a selector, all virtual machines match.
	//
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// Hypervisors of the cluster. For example: kvm or mshv. By default, all
	// match.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Hypervisors []string `json:"hypervisors,omitempty"`

	// Architectures of the virtual machine. The architecture is from the first
	// of these: the author, the preference, the DataSource of a disk, other
	// defaults without architectures, the cluster.
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
