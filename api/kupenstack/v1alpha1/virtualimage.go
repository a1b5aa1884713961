package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is the kind of this package.
const Kind = "VirtualImage"

// Finalizer keeps a VirtualImage until no virtual machine uses it and the
// backend deleted its image.
const Finalizer = "kupenstack.io/virtual-image"

// MaxName is the length of the longest name of a VirtualImage.
const MaxName = 63

// LabelImage is the label of the objects of a VirtualImage. Its value is the
// UID of the VirtualImage.
const LabelImage = "kupenstack.io/virtual-image-uid"

// VirtualImage is an image of a disk. Virtward imports it from a URL, or a user
// uploads it, once.
// The image cannot be changed, and it is not deleted while virtual machines, or
// servers of OpenStack that Virtward may list, use it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualimages,singular=virtualimage,scope=Namespaced,shortName=vimage,categories=virtward
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="In-Use",type=boolean,JSONPath=`.status.usage.inUse`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.imageClassName`,priority=1
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must have at most 63 characters"
type VirtualImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The source and the form of the image. It cannot be changed.
	Spec VirtualImageSpec `json:"spec"`

	// The state of the image.
	//
	// +optional
	Status VirtualImageStatus `json:"status,omitempty"`
}

// VirtualImageSpec has the source and the form of an image.
//
// +kubebuilder:validation:XValidation:rule="has(self.src) != has(self.upload)",fieldPath=".src",message="set either src or upload"
// +kubebuilder:validation:XValidation:rule="!has(self.upload) || !has(self.checksum) && !has(self.secretRef) && !has(self.certConfigMap)",fieldPath=".upload",message="checksum, secretRef and certConfigMap are only for src"
// +kubebuilder:validation:XValidation:rule="has(self.upload) == has(oldSelf.upload)",fieldPath=".upload",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.containerFormat) == has(oldSelf.containerFormat) && (!has(self.containerFormat) || self.containerFormat == oldSelf.containerFormat)",fieldPath=".containerFormat",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.minDisk) == has(oldSelf.minDisk) && (!has(self.minDisk) || self.minDisk == oldSelf.minDisk)",fieldPath=".minDisk",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.minRam) == has(oldSelf.minRam) && (!has(self.minRam) || self.minRam == oldSelf.minRam)",fieldPath=".minRam",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.imageClassName) == has(oldSelf.imageClassName) && (!has(self.imageClassName) || self.imageClassName == oldSelf.imageClassName)",fieldPath=".imageClassName",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.checksum) == has(oldSelf.checksum) && (!has(self.checksum) || self.checksum == oldSelf.checksum)",fieldPath=".checksum",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) == has(oldSelf.secretRef) && (!has(self.secretRef) || self.secretRef == oldSelf.secretRef)",fieldPath=".secretRef",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.certConfigMap) == has(oldSelf.certConfigMap) && (!has(self.certConfigMap) || self.certConfigMap == oldSelf.certConfigMap)",fieldPath=".certConfigMap",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage) && (!has(self.storage) || self.storage == oldSelf.storage)",fieldPath=".storage",message="cannot be changed: create another VirtualImage"
// +kubebuilder:validation:XValidation:rule="has(self.clusterCopy) == has(oldSelf.clusterCopy) && (!has(self.clusterCopy) || self.clusterCopy == oldSelf.clusterCopy)",fieldPath=".clusterCopy",message="cannot be changed: create another VirtualImage"
type VirtualImageSpec struct {
	// URL that the image is imported from, with the scheme http or https. Each
	// image has either src or upload.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''",message="must be a URL such as https://example.com/disk.qcow2"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/?#]*@')",message="must not contain credentials: use secretRef"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another VirtualImage"
	Src string `json:"src,omitempty"`

	// The image has no URL: a user uploads the file, with kubectl virtward image
	// upload.
	//
	// +optional
	Upload *VirtualImageUpload `json:"upload,omitempty"`

	// Format of the disk.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another VirtualImage"
	Format DiskFormat `json:"format"`

	// Format of the container of the disk. The default is bare.
	//
	// +optional
	// +kubebuilder:default=bare
	ContainerFormat ContainerFormat `json:"containerFormat,omitempty"`

	// Size of the smallest disk on which the image boots, in GB of 2^30 bytes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048576
	MinDisk *int32 `json:"minDisk,omitempty"`

	// Smallest memory with which the image boots, in MB of 2^20 bytes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=67108864
	MinRAM *int32 `json:"minRam,omitempty"`

	// Name of the class of the image: where it is stored. An admin configures
	// the classes and the default.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ImageClassName string `json:"imageClassName,omitempty"`

	// Checksum of the file at the URL, such as sha256:9f86d0…. An image with
	// another checksum is not imported.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=135
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`
	Checksum string `json:"checksum,omitempty"`

	// Name of a Secret of the namespace with the credentials for the URL:
	// accessKeyId is the user name, secretKey the password.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretRef string `json:"secretRef,omitempty"`

	// Name of a ConfigMap of the namespace with certificates of authorities
	// that sign the certificate of the URL.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	CertConfigMap string `json:"certConfigMap,omitempty"`

	// The volume of the image, where the class stores images in the cluster.
	//
	// +optional
	Storage *VirtualImageStorage `json:"storage,omitempty"`

	// Whether an image of a class that stores it outside of the cluster is
	// also copied into the cluster, so that virtual machines can clone it by
	// its DataSource. The default is that of the class.
	//
	// +optional
	ClusterCopy ClusterCopy `json:"clusterCopy,omitempty"`
}

// VirtualImageUpload is an image that a user uploads. It has no fields.
type VirtualImageUpload struct{}

// ClusterCopy says whether an image is copied into the cluster.
//
// +kubebuilder:validation:Enum=Always;Never
type ClusterCopy string

// The choices of ClusterCopy.
const (
	ClusterCopyAlways ClusterCopy = "Always"
	ClusterCopyNever  ClusterCopy = "Never"
)

// DiskFormat is the format of a disk.
//
// +kubebuilder:validation:Enum=raw;qcow2;iso;vdi;ami;ari;aki;vhd;vmdk
type DiskFormat string

// The formats of disks.
const (
	FormatRaw   DiskFormat = "raw"
	FormatQCOW2 DiskFormat = "qcow2"
	FormatISO   DiskFormat = "iso"
	FormatVDI   DiskFormat = "vdi"
	FormatAMI   DiskFormat = "ami"
	FormatARI   DiskFormat = "ari"
	FormatAKI   DiskFormat = "aki"
	FormatVHD   DiskFormat = "vhd"
	FormatVMDK  DiskFormat = "vmdk"
)

// ContainerFormat is the format of the container of a disk.
//
// +kubebuilder:validation:Enum=bare;ami;ari;aki;ovf
type ContainerFormat string

// ContainerBare is a disk without a container.
const ContainerBare ContainerFormat = "bare"

// VirtualImageStorage is the volume of an image.
type VirtualImageStorage struct {
	// The size of the volume. Without it, the size is minDisk, or the size that
	// the file states.
	//
	// +optional
	Resources *VirtualImageResources `json:"resources,omitempty"`

	// Name of the StorageClass. The default is that of CDI.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`

	// Access modes of the volume. The default is that of the StorageProfile.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// Mode of the volume. The default is that of the StorageProfile.
	//
	// +optional
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
}

// VirtualImageResources has the size of the volume of an image.
type VirtualImageResources struct {
	Requests VirtualImageRequests `json:"requests"`
}

// VirtualImageRequests has the size of the volume of an image.
type VirtualImageRequests struct {
	// The size of the volume, for example 10Gi.
	Storage resource.Quantity `json:"storage"`
}

// The types of conditions.
const (
	// ConditionImported is true when the import is complete.
	ConditionImported = "Imported"
	// ConditionReady is true when virtual machines can use the image.
	ConditionReady = "Ready"
	// ConditionInUse is true when virtual machines of the cluster or servers
	// of OpenStack use the image.
	ConditionInUse = "InUse"
	// ConditionDeleting is true when the image is being deleted.
	ConditionDeleting = "Deleting"
	// ConditionCloudUsersCounted is true when all users of the image in
	// OpenStack are counted. Only images that are stored there have it.
	ConditionCloudUsersCounted = "CloudUsersCounted"
)

// VirtualImageStatus is the state of an image.
type VirtualImageStatus struct {
	// Identifier of the image in its backend. Virtward chooses it before the
	// image is created there.
	//
	// +optional
	ID string `json:"id,omitempty"`

	// Whether virtual machines can use the image.
	//
	// +optional
	Ready bool `json:"ready"`

	// Size of the stored image, for example 56.78mb (1mb is 10^6 bytes).
	//
	// +optional
	Size string `json:"size,omitempty"`

	// Virtual machines that use the image.
	//
	// +optional
	Usage VirtualImageUsage `json:"usage"`

	// Size of the stored image in bytes.
	//
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`

	// Checksum of the stored image, as its backend states it.
	//
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// Name of the class that stores the image.
	//
	// +optional
	ImageClassName string `json:"imageClassName,omitempty"`

	// Progress of the import, for example 42%, or 42% of 56.78mb.
	//
	// +optional
	Progress string `json:"progress,omitempty"`

	// Number of the attempt to import the image.
	//
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// The generation that this status is for.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Imported, Ready, InUse, Deleting, and CloudUsersCounted.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VirtualImageUsage has the virtual machines that use an image.
type VirtualImageUsage struct {
	// Virtual machines, virtual machine instances and DataVolumes that use the
	// image, as Namespace/Name. Of more than 20, the last entry is their
	// number: "and 480 more".
	//
	// +optional
	// +listType=atomic
	VirtualMachines []string `json:"virtualMachines,omitempty"`

	// VirtualMachineTemplates that use the image, as Namespace/Name. They do
	// not prevent its deletion.
	//
	// +optional
	// +listType=atomic
	Templates []string `json:"templates,omitempty"`

	// Users of the image in OpenStack, if it is stored there. The condition
	// CloudUsersCounted says which of them Virtward may list.
	//
	// +optional
	Cloud *VirtualImageCloudUsage `json:"cloud,omitempty"`

	// Whether a virtual machine, or a server of OpenStack, uses the image.
	//
	// +optional
	InUse bool `json:"inUse"`
}

// VirtualImageCloudUsage has the numbers of the users of an image in OpenStack.
type VirtualImageCloudUsage struct {
	// Number of servers that were booted from the image. 1000 stands for 1000
	// or more. It is absent if Virtward may not list them.
	//
	// +optional
	Servers *int32 `json:"servers,omitempty"`

	// Number of volumes that were made from the image and are attached to
	// servers. 1000 stands for 1000 or more. It is absent if Virtward may not
	// list them.
	//
	// +optional
	Volumes *int32 `json:"volumes,omitempty"`
}

// VirtualImageList is a list of VirtualImages.
//
// +kubebuilder:object:root=true
type VirtualImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualImage `json:"items"`
}
