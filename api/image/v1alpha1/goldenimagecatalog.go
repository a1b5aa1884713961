package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Annotations of an entry of a catalog. The names are those of
// HyperConverged, so that an entry of one can move to the other.
const (
	// ArchitecturesAnnotation lists the architectures of an image, separated
	// by commas. Without it, the image is imported once, as before.
	ArchitecturesAnnotation = "ssp.kubevirt.io/dict.architectures"
	// EnableAnnotation disables an entry with each value but true.
	EnableAnnotation = "dataimportcrontemplate.kubevirt.io/enable"
)

// Labels and annotations of the objects of a catalog.
const (
	// ArchitectureLabel has the architecture of an image. KubeVirt reads it
	// for virtual machines that set none.
	ArchitectureLabel = "template.kubevirt.io/architecture"
	// DataSourceNameLabel has the name of an image without the architecture.
	DataSourceNameLabel = "cdi.kubevirt.io/storage.import.datasource-name"
	// CatalogAnnotation has the name of the catalog that an object belongs to.
	// On an object that the catalog did not create, it is the consent to manage
	// the object.
	CatalogAnnotation = "image.virtward.io/catalog"
	// RetentionAnnotation has the retention policy None of an entry on its
	// DataImportCrons. CDI retains what they import, and the catalog deletes it
	// when no DataSource refers to it any more.
	RetentionAnnotation = "image.virtward.io/retention-policy"
)

// Kind is the kind of catalogs.
const Kind = "GoldenImageCatalog"

// DefaultNamespace is the namespace of golden images.
const DefaultNamespace = "virtward-os-images"

// MaxNameLength is the length of the names of an entry and of its DataSource.
// The suffix of the architecture must fit into the 63 characters that CDI
// permits.
const MaxNameLength = 57

// GoldenImageCatalog lists the golden images of a cluster. Each image is
// imported once for every architecture that virtual machines can run on, and
// has a DataSource for each. The DataSource without a suffix points to the
// default architecture.
//
// The CPU architectures come from the nodes. Users who can create these objects
// decide what the users of golden images boot.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=goldenimagecatalogs,singular=goldenimagecatalog,scope=Cluster,shortName=goldenimages,categories=virtward
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.status.nodes.defaultArchitecture`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GoldenImageCatalog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Images, and where they are imported.
	Spec GoldenImageCatalogSpec `json:"spec"`
	// Nodes and images as they were observed.
	//
	// +optional
	Status GoldenImageCatalogStatus `json:"status,omitempty"`
}

// GoldenImageCatalogSpec has images, and where they are imported.
type GoldenImageCatalogSpec struct {
	// Namespace of the images. It cannot change.
	//
	// +optional
	// +kubebuilder:default=virtward-os-images
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the namespace cannot change"
	Namespace string `json:"namespace,omitempty"`

	// Whether each image is imported for all architectures of the nodes. If
	// false, it is imported once, as the DataImportCron of the entry says.
	//
	// +optional
	// +kubebuilder:default=true
	MultiArch *bool `json:"multiArch,omitempty"`

	// Nodes that virtual machines can run on. By default, these are the nodes
	// with the label node-role.kubernetes.io/worker, or all nodes if none has
	// it. Nodes of Windows never count. Nodes that are cordoned or not ready
	// count.
	//
	// +optional
	Workloads *Placement `json:"workloads,omitempty"`

	// Images. An entry has the form of those in a HyperConverged.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	DataImportCronTemplates []DataImportCronTemplate `json:"dataImportCronTemplates,omitempty"`

	// Whether the catalog also has the common images: those that the values of
	// the chart list. An entry of the same name replaces a common image.
	//
	// +optional
	CommonImages bool `json:"commonImages,omitempty"`

	// Whether Virtward reads the architectures of images from their registries.
	// An entry without the annotation of architectures is then imported for
	// those of its manifest. If an annotation and a manifest differ, the image
	// has a condition. Only URLs that begin with docker:// are read.
	//
	// +optional
	VerifyManifest bool `json:"verifyManifest,omitempty"`

	// How long an architecture without a node keeps its imports. The default
	// is 10m.
	//
	// +optional
	RemovalDelay *metav1.Duration `json:"removalDelay,omitempty"`
}

// Placement selects nodes, as a pod does.
type Placement struct {
	// Labels of the nodes.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Node affinity. Only its required terms select nodes.
	//
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Taints that virtual machines tolerate. A node with another taint, whose
	// effect is NoSchedule or NoExecute, does not count.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// DataImportCronTemplate is an image: the DataImportCron that imports it.
type DataImportCronTemplate struct {
	// The name, and the annotations that list the architectures of the image
	// (ssp.kubevirt.io/dict.architectures) and disable the entry
	// (dataimportcrontemplate.kubevirt.io/enable: "false").
	metav1.ObjectMeta `json:"metadata"`

	// DataImportCron of CDI.
	//
	// +optional
	Spec *cdiv1beta1.DataImportCronSpec `json:"spec,omitempty"`
}

// GoldenImageCatalogStatus has nodes and images as they were observed.
type GoldenImageCatalogStatus struct {
	// Generation that was observed.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Architectures of the nodes.
	//
	// +optional
	Nodes NodeArchitectures `json:"nodes,omitempty"`
	// Architectures without a node whose imports are removed after a delay.
	//
	// +optional
	// +listType=map
	// +listMapKey=architecture
	Absent []AbsentArchitecture `json:"absent,omitempty"`
	// DataImportCrons with the retention policy None that are deleted. Their
	// images are deleted when no DataSource refers to them.
	//
	// +optional
	// +listType=map
	// +listMapKey=dataImportCron
	Retired []RetiredImport `json:"retired,omitempty"`
	// Images.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Images []Image `json:"images,omitempty"`
	// Ready: all images are imported for all their architectures.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeArchitectures has the architectures of the nodes.
type NodeArchitectures struct {
	// Architectures on which virtual machines run, in alphabetical order.
	//
	// +optional
	// +listType=map
	// +listMapKey=architecture
	WorkloadArchitectures []ArchitectureCount `json:"workloadArchitectures,omitempty"`
	// Architectures of the control plane, in alphabetical order.
	//
	// +optional
	// +listType=map
	// +listMapKey=architecture
	ControlPlaneArchitectures []ArchitectureCount `json:"controlPlaneArchitectures,omitempty"`
	// Architectures of nodes that KubeVirt does not support. They have no
	// images.
	//
	// +optional
	// +listType=map
	// +listMapKey=architecture
	UnknownArchitectures []ArchitectureCount `json:"unknownArchitectures,omitempty"`
	// Architecture of images that have it: that of the control plane if virtual
	// machines run on it, else that of most nodes.
	//
	// +optional
	DefaultArchitecture string `json:"defaultArchitecture,omitempty"`
}

// ArchitectureCount is the number of nodes of an architecture.
type ArchitectureCount struct {
	// Architecture, as the node reports it.
	Architecture string `json:"architecture"`
	// Number of nodes.
	Nodes int32 `json:"nodes"`
}

// AbsentArchitecture is an architecture whose last node has left.
type AbsentArchitecture struct {
	// Architecture of the nodes.
	Architecture string `json:"architecture"`
	// When the last node was missing.
	Since metav1.Time `json:"since"`
}

// RetiredImport is a DataImportCron whose images are deleted.
type RetiredImport struct {
	// Name of the DataImportCron.
	DataImportCron string `json:"dataImportCron"`
	// DataSource that it managed.
	DataSource string `json:"dataSource"`
}

// Image is the state of an image.
type Image struct {
	// Name of the entry.
	Name string `json:"name"`
	// DataSource of the image.
	//
	// +optional
	DataSource string `json:"dataSource,omitempty"`
	// Architectures that the entry lists, or those of its manifest.
	//
	// +optional
	// +listType=atomic
	OriginalArchitectures []string `json:"originalArchitectures,omitempty"`
	// Architectures that are imported.
	//
	// +optional
	// +listType=atomic
	Architectures []string `json:"architectures,omitempty"`
	// Architecture that the DataSource points to.
	//
	// +optional
	DefaultArchitecture string `json:"defaultArchitecture,omitempty"`
	// Manifest of the image, as its registry last sent it. It exists only with
	// verifyManifest.
	//
	// +optional
	Manifest *ImageManifest `json:"manifest,omitempty"`
	// State of each import.
	//
	// +optional
	// +listType=atomic
	Imports []Import `json:"imports,omitempty"`
	// Deployed, UnsupportedArchitectures and MissingArchitecture; with
	// verifyManifest also ManifestVerified.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ImageManifest is what a registry has for an image.
type ImageManifest struct {
	// URL of the image.
	URL string `json:"url"`
	// Architectures of the index, or of the only image, in alphabetical order.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Architectures []string `json:"architectures,omitempty"`
	// Platforms of the index with a variant, such as arm64/v8. Of these, CDI
	// imports only arm64/v8.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Variants []string `json:"variants,omitempty"`
}

// Import is the state of the import of an image, for one architecture.
type Import struct {
	// Architecture. It is empty for an image that is imported once.
	//
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// DataImportCron that imports the image.
	DataImportCron string `json:"dataImportCron"`
	// DataSource with the imported image.
	DataSource string `json:"dataSource"`
	// Imported.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GoldenImageCatalogList is a list of catalogs.
//
// +kubebuilder:object:root=true
type GoldenImageCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GoldenImageCatalog `json:"items"`
}

var _ runtime.Object = &GoldenImageCatalog{}
