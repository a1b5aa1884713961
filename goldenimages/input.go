package goldenimages

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// Labels with which CDI marks the DataSource that a DataImportCron manages. CDI rewrites the source of such a DataSource,
// and deletes it with the cron if the second one is set.
const (
	CronLabel    = "cdi.kubevirt.io/dataImportCron"
	CleanupLabel = "cdi.kubevirt.io/dataImportCron.cleanup"
)

// Input is the catalog, the nodes, and the objects that exist.
type Input struct {
	Catalog *v1alpha1.GoldenImageCatalog
	// Nodes are those of the cluster. The caller keeps architectures that disappeared for the delay of their removal.
	Nodes v1alpha1.NodeArchitectures
	// SingleNode reports whether the cluster has one node.
	SingleNode bool
	// SSP is the namespace and the name of the resource of SSP; empty if there is none. While there is one, nothing is written.
	SSP string
	// Crons and Sources are those of the catalog's namespace, by name.
	Crons   map[string]*cdiv1beta1.DataImportCron
	Sources map[string]*cdiv1beta1.DataSource
	// Others are the names that other catalogs use. A name belongs to the oldest catalog of a namespace.
	Others []Claims
	// Absent are architectures in Nodes whose last node has left.
	Absent []v1alpha1.AbsentArchitecture
	// Now is the time of conditions that change.
	Now metav1.Time
	// Stored are the imports of the retired DataImportCrons of the status, and InUse is what DataSources of all namespaces refer
	// to. StoredRead reports whether all of them were read.
	Stored     []Stored
	InUse      map[Reference]bool
	StoredRead bool
	// Manifests are what registries have for images, by the name of the entry. Entries that were not read yet have none.
	Manifests map[string]Manifest
	// Failures are the reasons, as CDI gives them, why the imports of DataImportCrons fail, by the name of the cron.
	Failures map[string]Failure
}

// Failure is why an import fails.
type Failure struct{ Reason, Message string }

// Verb is a kind of write.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Write is a write of an object. An update and a delete have the resource version of what was observed, and must fail if
// the object has changed.
type Write struct {
	Verb   Verb
	Object Object
}

// Object is a DataImportCron or a DataSource, or the metadata of an import that is deleted.
type Object interface {
	metav1.Object
	runtime.Object
}

// Result is what to write now, and the state of the images. After the writes, the plan is made again: a later step has to
// observe what CDI made of an earlier one.
type Result struct {
	Writes []Write
	Images []v1alpha1.Image
	// Retired is for the status. After a change of it, the plan is made again.
	Retired []v1alpha1.RetiredImport
	// Waits reports whether a write waits for the end of a deletion.
	Waits bool
}
