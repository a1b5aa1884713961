package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The bounds of the status of an import.
const (
	// MaxImportDisks bounds the disks and CDs of an import.
	MaxImportDisks = 64
	// MaxImportNotes bounds the warnings, the rejections and the choices of each kind.
	MaxImportNotes = 100
	// MaxImportNote bounds a warning, a rejection and a text of a choice, in characters.
	MaxImportNote = 512
)

// VirtualMachineTemplateImport makes a VirtualMachineTemplate of a virtual
// appliance, or of an OCI artifact with a template. Virtward reads the
// descriptor, imports each disk into a DataVolume of the namespace and creates
// the template there.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmti;vmtis,categories=kubevirt;virtward
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.templateRef.name`
// +kubebuilder:printcolumn:name="Completed",type=string,JSONPath=`.status.conditions[?(@.type=="Completed")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: must have at most 63 characters"
type VirtualMachineTemplateImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is imported. It cannot be changed.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable"
	Spec VirtualMachineTemplateImportSpec `json:"spec"`

	// What Virtward has done.
	//
	// +optional
	Status VirtualMachineTemplateImportStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateImportSpec says what is imported, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.source.oci) || !has(self.checksum) || size(self.checksum) == 0",message="checksum: name the digest of an artifact in source.oci.reference"
// +kubebuilder:validation:XValidation:rule="!has(self.staging) || has(self.source.http) || has(self.source.oci)",message="staging: only a file of source.http, and an OVA of source.oci, are copied into a volume"
type VirtualMachineTemplateImportSpec struct {
	// Where the appliance is.
	Source ImportSource `json:"source"`

	// The name of the template. By default, the name of the import. The
	// DataVolumes have it as a prefix.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	TemplateName string `json:"templateName,omitempty"`

	// The digest of the whole file: sha256: and 64 hexadecimal digits, or
	// sha512: and 128. Virtward reads the file once before CDI does, and
	// compares it. Zeros behind the file in a claim do not count. The
	// reference of an artifact has its digest instead.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=135
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})?$`
	Checksum string `json:"checksum,omitempty"`

	// How the manifest of the appliance is used. IfPresent, the default,
	// compares each file with its digest while CDI reads it. Require fails if
	// there is no manifest, or if it does not list all files that are used,
	// and reads the file once before CDI does. Skip ignores the manifest. The
	// digests of the layers of an artifact are always compared, and Require
	// reads all layers once before CDI does. An OVA that is a layer is read
	// once before CDI does, and needs no manifest. With Skip, it is not, and
	// the digest of the layer is compared only if an admin requires a
	// signature.
	//
	// +optional
	// +kubebuilder:validation:Enum=IfPresent;Require;Skip
	Verify ImportVerify `json:"verify,omitempty"`

	// What the networks of the descriptor become. Without a mapping, the first
	// interface is connected to the pod network; others need one.
	//
	// +optional
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MaxItems=64
	NetworkMappings []NetworkMapping `json:"networkMappings,omitempty"`

	// How the volumes are stored.
	//
	// +optional
	Storage *ImportStorage `json:"storage,omitempty"`

	// A volume that the OVA of source.http or of source.oci is copied into, if
	// the server sends no parts of the file, or if the file is compressed as a
	// whole with gzip, bzip2, xz or zstd. Without it, such an import fails.
	// Virtward deletes the volume when the disks are imported.
	//
	// +optional
	Staging *ImportStaging `json:"staging,omitempty"`

	// The instancetype of the template, in place of the CPU and the memory of
	// the descriptor.
	//
	// +optional
	Instancetype *ImportInstancetype `json:"instancetype,omitempty"`

	// The preference of the template, in place of the one that fits the
	// operating system of the descriptor.
	//
	// +optional
	Preference *ImportPreference `json:"preference,omitempty"`

	// The deployment option of the descriptor. By default, that of the
	// descriptor.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DeploymentOption string `json:"deploymentOption,omitempty"`

	// The id of the virtual system. It is required if the descriptor has
	// several.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VirtualSystem string `json:"virtualSystem,omitempty"`

	// Whether you accept the license of the appliance.
	//
	// +optional
	AcceptEula bool `json:"acceptEula,omitempty"`

	// Values of properties of the descriptor by their keys. They become the
	// defaults of the parameters of the template. A property that is a
	// password cannot have one.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(self[key]) <= 4096)",message="a property must have at most 4096 characters"
	Properties map[string]string `json:"properties,omitempty"`

	// Drop devices and sections without an equivalent, although the
	// descriptor requires them. They become warnings.
	//
	// +optional
	Lax bool `json:"lax,omitempty"`

	// Virtward deletes a completed import after this number of seconds. The
	// template stays. Without a value, or if the import fails, it is kept.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ImportSource says where an appliance is.
//
// +kubebuilder:validation:XValidation:rule="[has(self.http), has(self.upload), has(self.pvc), has(self.oci)].filter(set, set).size() == 1",message="set exactly one of http, upload, pvc and oci"
// +kubebuilder:validation:XValidation:rule="!has(self.upload)",message="upload: this version of Virtward imports from http, oci and pvc: put the file on a web server, or upload it into a claim"
type ImportSource struct {
	// A file on a web server.
	//
	// +optional
	HTTP *ImportHTTP `json:"http,omitempty"`

	// A file that you upload. This version rejects it.
	//
	// +optional
	Upload *ImportUpload `json:"upload,omitempty"`

	// A file of a PersistentVolumeClaim.
	//
	// +optional
	PVC *ImportPVC `json:"pvc,omitempty"`

	// An artifact of a registry.
	//
	// +optional
	OCI *ImportOCI `json:"oci,omitempty"`
}

// ImportHTTP is a file on a web server.
type ImportHTTP struct {
	// The URL of the OVA, with the scheme http or https and without
	// credentials. The server must send parts of the file (Range), unless
	// spec.staging is set.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.matches('^[^/]+//[^/]*@')",message="must be a URL with the scheme http or https, with a host and without credentials"
	URL string `json:"url"`

	// A Secret of the namespace with accessKeyId and secretKey, the user name
	// and the password for the URL. You need permission to get it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretRef string `json:"secretRef,omitempty"`

	// A ConfigMap of the namespace with certificates of authorities in PEM
	// that verify the server. You need permission to get it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	CertConfigMap string `json:"certConfigMap,omitempty"`
}

// ImportUpload is a file that is uploaded.
type ImportUpload struct{}

// ImportPVC is an OVA in a PersistentVolumeClaim of the namespace, which a pod
// of Virtward mounts without writing to it.
type ImportPVC struct {
	// The claim. That of a block device has the OVA from its first byte on.
	// You need permission to get it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// The path of the file in the file system of the claim, without links. By
	// default, disk.img, which CDI writes, or else the only file with the
	// extension .ova.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.split('/').exists(part, part in ['', '.', '..'])",message="must be the path of a file in the claim, without . and .."
	Path string `json:"path,omitempty"`
}

// ImportOCI is an artifact of a registry: a template with its disks, as
// KubeVirt exports them, or an OVA as a layer.
type ImportOCI struct {
	// The artifact, with a tag or a digest, such as
	// oci://registry.example.com/templates/db:1. Virtward connects to the
	// registry with TLS. status.source.digest has the digest of a tag.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^oci://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$')",message="must be oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST"
	Reference string `json:"reference"`

	// The architecture, if the artifact has several: amd64, or arm64/v8.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=65
	// +kubebuilder:validation:Pattern=`^([a-z0-9_]{1,32}(/[a-z0-9_]{1,32})?)?$`
	Platform string `json:"platform,omitempty"`

	// A Secret of the namespace with accessKeyId and secretKey, the user name
	// and the password for the registry. You need permission to get it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SecretRef string `json:"secretRef,omitempty"`

	// A ConfigMap of the namespace with certificates of authorities in PEM
	// that verify the registry and the servers that it names. You need
	// permission to get it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	CertConfigMap string `json:"certConfigMap,omitempty"`
}

// ImportVerify says how a manifest is used.
type ImportVerify string

// The uses of a manifest.
const (
	// ImportVerifyIfPresent compares files with their digests, if there are any.
	ImportVerifyIfPresent ImportVerify = "IfPresent"
	// ImportVerifyRequire requires a digest of each file.
	ImportVerifyRequire ImportVerify = "Require"
	// ImportVerifySkip ignores the manifest.
	ImportVerifySkip ImportVerify = "Skip"
)

// NetworkMapping says what a network of a descriptor becomes.
type NetworkMapping struct {
	// The name of the network in the descriptor.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Source string `json:"source"`

	// A NetworkAttachmentDefinition as NAME or NAMESPACE/NAME, or pod for the
	// pod network, or none to drop the interface.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Target string `json:"target"`
}

// ImportStorage says how volumes are stored.
type ImportStorage struct {
	// The StorageClass. By default, that of the cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Class string `json:"class,omitempty"`

	// The access mode. By default, CDI chooses it by the StorageProfile.
	//
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany;ReadOnlyMany;ReadWriteOncePod
	AccessMode string `json:"accessMode,omitempty"`
}

// ImportStaging is a volume for a copy of a file.
type ImportStaging struct {
	// The size of the volume, and the largest size of the OVA, decompressed,
	// such as 20Gi. It counts in quotas. The class of storage is that of the
	// volume.
	//
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Ti')) <= 0",message="must be from 1Mi to 16Ti"
	Size resource.Quantity `json:"size"`
}

// ImportInstancetype names an instancetype.
type ImportInstancetype struct {
	// The kind. By default, VirtualMachineClusterInstancetype.
	//
	// +optional
	// +kubebuilder:validation:Enum=VirtualMachineInstancetype;VirtualMachineClusterInstancetype
	Kind string `json:"kind,omitempty"`

	// The name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ImportPreference names a preference.
type ImportPreference struct {
	// The kind. By default, VirtualMachineClusterPreference.
	//
	// +optional
	// +kubebuilder:validation:Enum=VirtualMachinePreference;VirtualMachineClusterPreference
	Kind string `json:"kind,omitempty"`

	// The name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// VirtualMachineTemplateImportStatus is what Virtward has done.
type VirtualMachineTemplateImportStatus struct {
	// Ready: the template exists and is ready. Progressing: Virtward works on
	// the import. Completed: the template exists and all intermediate objects
	// are gone.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The template.
	//
	// +optional
	TemplateRef *TemplateReference `json:"templateRef,omitempty"`

	// The file that is imported. Another one in its place fails the import.
	//
	// +optional
	Source *ImportedSource `json:"source,omitempty"`

	// The copy of the file, if spec.staging is needed.
	//
	// +optional
	Staging *ImportStaged `json:"staging,omitempty"`

	// The part that is imported of all disks, such as 42%.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Progress string `json:"progress,omitempty"`

	// The disks and CDs that are imported.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Disks []ImportDisk `json:"disks,omitempty"`

	// What you can choose.
	//
	// +optional
	Choices *ImportChoices `json:"choices,omitempty"`

	// Parts of the descriptor that were dropped or guessed.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=512
	Warnings []string `json:"warnings,omitempty"`

	// Why the appliance cannot be imported.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=512
	Rejections []string `json:"rejections,omitempty"`
}

// ImportedSource is the file that is imported.
type ImportedSource struct {
	// The size in bytes. That of an artifact is the sum of its layers, and
	// that of a file which is copied into a volume is that of the copy.
	Size int64 `json:"size"`

	// The name of the OVA, if the artifact has one as a layer.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	File string `json:"file,omitempty"`

	// The digest of what the reference of an artifact names: an index, or a
	// manifest. The import continues with it if the tag moves. Of a file, the
	// SHA-256 digest, once Virtward has read all of it; of a compressed file,
	// that of the compressed bytes. That of a file in a claim
	// includes the zeros behind it, unless spec.checksum is a SHA-256 digest.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// Who signed the artifact, if an admin requires a signature.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Signer string `json:"signer,omitempty"`

	// What identifies this version of the file: its ETag or the time of its
	// last change; the digest of the manifest of an artifact. That of a file of
	// a claim, and that of a copy in a volume, depends on its size, its last
	// change and its beginning.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Validator string `json:"validator,omitempty"`

	// The SHA-256 digest of what Virtward makes of the descriptor.
	//
	// +kubebuilder:validation:MaxLength=128
	Plan string `json:"plan"`

	// The SHA-256 digest of the spec of the template that Virtward creates. An
	// approval names the source only of a template that still has it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=71
	TemplateDigest string `json:"templateDigest,omitempty"`

	// Whether Virtward has read the whole file in its own process, and
	// compared it with the checksum, the manifest and the digests of layers.
	//
	// +optional
	Verified bool `json:"verified,omitempty"`
}

// ImportStaged is the copy of a file in a volume.
type ImportStaged struct {
	// The name of the DataVolume, and of its claim.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The compression of the file: gzip, bzip2, xz, zstd, or empty for none. The
	// copy is decompressed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Compression string `json:"compression,omitempty"`

	// The digest of what the tag of an artifact named when the copy began; empty
	// for a file of a web server.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=135
	Digest string `json:"digest,omitempty"`

	// Whether all of the file is copied.
	//
	// +optional
	Complete bool `json:"complete,omitempty"`
}

// ImportDisk is a disk or a CD that is imported.
type ImportDisk struct {
	// The name of the DataVolume.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The file in the appliance.
	//
	// +kubebuilder:validation:MaxLength=512
	File string `json:"file"`

	// The size of the disk in bytes, without the space that a file system
	// needs.
	Size int64 `json:"size"`

	// The SHA-256 digests of the files of the disk in an appliance, if
	// Virtward has read the whole file: one, or those of chunks. CDI gets no
	// other bytes.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=71
	Digests []string `json:"digests,omitempty"`

	// The part that CDI has imported, such as 42.00%.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Progress string `json:"progress,omitempty"`

	// What the import of the disk waits for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ImportChoices are what a descriptor or an artifact offers.
type ImportChoices struct {
	// The platforms of an artifact with several, for spec.source.oci.platform.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Platforms []ImportChoice `json:"platforms,omitempty"`

	// The virtual systems, for spec.virtualSystem.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	VirtualSystems []ImportChoice `json:"virtualSystems,omitempty"`

	// The deployment options, for spec.deploymentOption.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	DeploymentOptions []ImportChoice `json:"deploymentOptions,omitempty"`

	// The networks, for spec.networkMappings.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Networks []ImportChoice `json:"networks,omitempty"`

	// The properties that you can set, for spec.properties.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Properties []ImportChoice `json:"properties,omitempty"`

	// Whether the appliance has a license, for spec.acceptEula.
	//
	// +optional
	Eula bool `json:"eula,omitempty"`
}

// ImportChoice is one of several.
type ImportChoice struct {
	// The id, or the name or the key.
	//
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id"`

	// What it is.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Label string `json:"label,omitempty"`
}

// VirtualMachineTemplateImportList is a list of VirtualMachineTemplateImports.
//
// +kubebuilder:object:root=true
type VirtualMachineTemplateImportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The imports.
	Items []VirtualMachineTemplateImport `json:"items"`
}
