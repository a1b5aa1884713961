package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The bounds of an export.
const (
	// MaxExportDisks bounds the volumes with content.
	MaxExportDisks = 64
	// MaxExportNamespaces bounds the namespaces of sources.
	MaxExportNamespaces = 10
)

// VirtualMachineTemplateExport serves a VirtualMachineTemplate and its
// volumes as an OVA for download. Virtward clones the volumes into the
// namespace of the export, and a pod there makes the OVA while it is
// downloaded. The clones and the pod are deleted with the export.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmte;vmtes,categories=kubevirt;virtward
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef.name`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Expires",type=date,JSONPath=`.status.expires`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: must have at most 63 characters"
type VirtualMachineTemplateExport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is exported. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec VirtualMachineTemplateExportSpec `json:"spec"`

	// What Virtward has done.
	//
	// +optional
	Status VirtualMachineTemplateExportStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateExportSpec says what is exported, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'OCI' || has(self.keepUserData) && self.keepUserData",message="keepUserData: must be true for the format OCI, which keeps MAC addresses, and the data for cloud-init with its passwords and keys"
type VirtualMachineTemplateExportSpec struct {
	// The template, in the namespace of the export. You need permission to get
	// it.
	TemplateRef TemplateReference `json:"templateRef"`

	// What is made: OVA, the default, or OCI, an image layout with the artifact
	// that KubeVirt exports. An artifact has the template as it is, with its MAC
	// addresses and its data for cloud-init: it needs keepUserData.
	//
	// +optional
	// +kubebuilder:validation:Enum=OVA;OCI
	Format ExportFormat `json:"format,omitempty"`

	// The namespaces of the volumes, the snapshots and the DataSources of the
	// template, beside that of the export. You need permission to clone from
	// them: create on datavolumes/source.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	SourceNamespaces []string `json:"sourceNamespaces,omitempty"`

	// The StorageClass of the clones. By default, CDI chooses it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	StorageClass string `json:"storageClass,omitempty"`

	// Keep the data for cloud-init as it is. By default, passwords and keys in
	// it are removed.
	//
	// +optional
	KeepUserData bool `json:"keepUserData,omitempty"`

	// Virtward deletes the export this time after it became ready, or after it
	// failed, such as 24h. By default 2h. An admin bounds it.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be 1m or longer"
	TTL *metav1.Duration `json:"ttl,omitempty"`
}

// ExportFormat says what an export makes.
type ExportFormat string

// The formats of exports.
const (
	// ExportOVA is an archive with the descriptor and the disks.
	ExportOVA ExportFormat = "OVA"
	// ExportOCI is an image layout with an OCI artifact.
	ExportOCI ExportFormat = "OCI"
)

// VirtualMachineTemplateExportStatus is what Virtward has done.
type VirtualMachineTemplateExportStatus struct {
	// Ready: the file can be downloaded. Progressing: Virtward clones or reads
	// the volumes; False with Ready False means that the export has failed.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// When Virtward deletes the export.
	//
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// The part of the present step that is done, such as 42%.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Progress string `json:"progress,omitempty"`

	// The volumes that are cloned.
	//
	// +optional
	// +listType=map
	// +listMapKey=volume
	// +kubebuilder:validation:MaxItems=64
	Disks []ExportDisk `json:"disks,omitempty"`

	// Where the OVA is.
	//
	// +optional
	Links *ExportLinks `json:"links,omitempty"`

	// The Secret whose key token has the value of the header X-Virtward-Token
	// for the link.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TokenSecretRef string `json:"tokenSecretRef,omitempty"`

	// The name of the file.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	FileName string `json:"fileName,omitempty"`

	// The size of the OVA in bytes.
	//
	// +optional
	Size int64 `json:"size,omitempty"`

	// What identifies the bytes of the OVA: its entity tag. Exports with the
	// same digest have the same bytes. The manifest in the OVA has the SHA-256
	// digests of the files.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`

	// The downloads of the whole OVA.
	//
	// +optional
	Downloads int64 `json:"downloads,omitempty"`

	// What is not exported, and what other programs do not read.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=512
	Warnings []string `json:"warnings,omitempty"`
}

// ExportDisk is a volume that is cloned.
type ExportDisk struct {
	// The name of the volume in the template.
	//
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume"`

	// The name of the DataVolume with the clone.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// What is cloned.
	Source ExportSource `json:"source"`

	// The part that CDI has cloned, such as 42%.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Progress string `json:"progress,omitempty"`

	// What the clone waits for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ExportSource is an object with the content of a volume.
type ExportSource struct {
	// The kind.
	//
	// +kubebuilder:validation:Enum=PersistentVolumeClaim;VolumeSnapshot
	Kind string `json:"kind"`

	// The namespace.
	//
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// The name.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ExportLinks are the places of an OVA.
type ExportLinks struct {
	// The place for clients in the cluster.
	//
	// +optional
	Internal *ExportLink `json:"internal,omitempty"`

	// The place for clients outside of the cluster, where an admin has
	// configured one. Without it, kubectl virtward template export connects
	// through the API server.
	//
	// +optional
	External *ExportLink `json:"external,omitempty"`
}

// ExportLink is where an OVA is.
type ExportLink struct {
	// The URL of the OVA, with the scheme https.
	//
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`

	// The certificates in PEM that verify the server.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Cert string `json:"cert,omitempty"`
}

// VirtualMachineTemplateExportList is a list of VirtualMachineTemplateExports.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateExportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The exports.
	Items []VirtualMachineTemplateExport `json:"items"`
}
