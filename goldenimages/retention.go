package goldenimages

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// Kinds in which CDI stores what it imports.
var (
	DataVolumeKind = cdiv1beta1.SchemeGroupVersion.WithKind("DataVolume")
	ClaimKind      = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	SnapshotKind   = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}
)

// maxRetired bounds the DataImportCrons whose images are deleted at the same time. Others wait.
const maxRetired = 200

// Stored is an object in which CDI stored an import of a DataImportCron.
type Stored struct {
	Kind            schema.GroupVersionKind
	Name, Cron      string
	UID             types.UID
	ResourceVersion string
	// Owned reports whether another object owns it, and is deleted instead.
	Owned bool
	// Deleting reports whether it is being deleted.
	Deleting bool
}

// name identifies what a DataSource refers to: a DataVolume and its claim have one name.
func (s *Stored) name() Reference {
	return Reference{Snapshot: s.Kind.Kind == SnapshotKind.Kind, Name: s.Name}
}

// Reference is a claim or a snapshot of the catalog's namespace that a DataSource refers to.
type Reference struct {
	Snapshot bool
	Name     string
}

// References returns the claims and snapshots of a namespace that a DataSource refers to, in its spec or its status.
func References(source *cdiv1beta1.DataSource, namespace string) []Reference {
	var found []Reference
	for _, s := range []cdiv1beta1.DataSourceSource{source.Spec.Source, source.Status.Source} {
		if s.PVC != nil && (s.PVC.Namespace == namespace || s.PVC.Namespace == "" && source.Namespace == namespace) {
			found = append(found, Reference{Name: s.PVC.Name})
		}
		if s.Snapshot != nil && (s.Snapshot.Namespace == namespace || s.Snapshot.Namespace == "" && source.Namespace == namespace) {
			found = append(found, Reference{Snapshot: true, Name: s.Snapshot.Name})
		}
	}
	return found
}

// temporary reports whether the images of an entry are deleted with its DataImportCrons.
func temporary(t *v1alpha1.DataImportCronTemplate) bool {
	return t.Spec != nil && t.Spec.RetentionPolicy != nil && *t.Spec.RetentionPolicy == cdiv1beta1.DataImportCronRetainNone
}

// retires reports whether a DataImportCron may be deleted. If its images are to be deleted, the status must say so before:
// afterwards nothing else does.
func (p *plan) retires(cron *cdiv1beta1.DataImportCron) bool {
	if cron.Annotations[v1alpha1.RetentionAnnotation] != string(cdiv1beta1.DataImportCronRetainNone) || p.wasRetired(cron.Name) {
		return true
	}
	if len(p.Catalog.Status.Retired)+p.added < maxRetired {
		p.added++
		p.Retired = append(p.Retired, v1alpha1.RetiredImport{DataImportCron: cron.Name, DataSource: cron.Spec.ManagedDataSource})
	}
	return false
}

func (in *Input) wasRetired(cron string) bool {
	return slices.ContainsFunc(in.Catalog.Status.Retired, func(r v1alpha1.RetiredImport) bool { return r.DataImportCron == cron })
}

// remembered keeps the retired imports of the status that are not done. A DataImportCron that exists and is needed again keeps
// its images.
func (p *plan) remembered() {
	for _, r := range p.Catalog.Status.Retired {
		cron := p.Crons[r.DataImportCron]
		stored := slices.ContainsFunc(p.Stored, func(s Stored) bool { return s.Cron == r.DataImportCron })
		pending := cron != nil || stored || p.remains(r) != nil || !p.StoredRead
		if p.needed[r.DataImportCron] {
			pending = cron == nil || p.replaced[cron.Name]
		}
		if pending {
			p.Retired = append(p.Retired, r)
		}
	}
}

// remains is the DataSource of a retired DataImportCron; nil if there is none, or if an entry or a pointer needs it.
func (p *plan) remains(r v1alpha1.RetiredImport) *cdiv1beta1.DataSource {
	source := p.Sources[r.DataSource]
	if source == nil || !p.owns(source) || pointsTo(source) != "" || source.Labels[CronLabel] != r.DataImportCron || p.sources[source.Name] {
		return nil
	}
	for _, other := range p.Sources {
		if pointsTo(other) == source.Name {
			return nil
		}
	}
	return source
}

// retired deletes what DataImportCrons without retention have left: first their DataSources, then the volumes that no
// DataSource refers to. While a DataImportCron exists, CDI itself keeps as many of its imports as importsToKeep says.
func (p *plan) retired() {
	for _, r := range p.Catalog.Status.Retired {
		if p.needed[r.DataImportCron] || p.Crons[r.DataImportCron] != nil {
			continue
		}
		if source := p.remains(r); source != nil {
			if source.DeletionTimestamp == nil {
				p.write(Delete, source)
			}
			continue // its volumes are in use until then
		}
		for i := range p.Stored {
			if s := &p.Stored[i]; s.Cron == r.DataImportCron && !s.Owned && !s.Deleting && !p.InUse[s.name()] {
				p.write(Delete, s.object(NamespaceOf(p.Catalog)))
			}
		}
	}
}

// object is what identifies a stored import for its deletion.
func (s *Stored) object(namespace string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}}
	o.SetGroupVersionKind(s.Kind)
	return o
}

// vanishing reports whether an import of a DataImportCron is being deleted, or its owner is gone. A new DataImportCron of the name
// would import into it.
func (p *plan) vanishing(cron string) bool {
	return slices.ContainsFunc(p.Stored, func(s Stored) bool {
		return s.Cron == cron && (s.Deleting || s.Owned && !slices.ContainsFunc(p.Stored, func(o Stored) bool { return o.Kind == DataVolumeKind && o.Name == s.Name }))
	})
}

// Done reports whether a plan has nothing to do until something changes.
func (r *Result) Done(catalog *v1alpha1.GoldenImageCatalog) bool {
	return len(r.Writes) == 0 && !r.Waits && slices.Equal(r.Retired, catalog.Status.Retired)
}

// unreplaceable returns why a DataImportCron that the catalog took over cannot be replaced under its name: with the
// retention policy None, CDI deletes its image with it.
func (p *plan) unreplaceable(cron, wanted *cdiv1beta1.DataImportCron) *problem {
	if !p.supplies(cron) || sameButRetention(cron, wanted) {
		return nil
	}
	return &problem{ReasonRetentionNone, fmt.Sprintf("the DataImportCron %q differs from its entry and has the retention policy None: CDI would delete its image with it. "+
		"Rename the entry: then a new DataImportCron imports the image before Virtward deletes this one", cron.Name)}
}

// deletes reports whether CDI deletes the images of a DataImportCron with it. Those that a catalog created retain them.
func deletes(cron *cdiv1beta1.DataImportCron) bool {
	return cron.Spec.RetentionPolicy != nil && *cron.Spec.RetentionPolicy == cdiv1beta1.DataImportCronRetainNone
}

// supplies reports whether a DataSource still has the image of a DataImportCron, which CDI deletes with it.
func (p *plan) supplies(cron *cdiv1beta1.DataImportCron) bool {
	last := cron.Status.LastImportedPVC
	if !deletes(cron) || last == nil {
		return false
	}
	for name, source := range p.Sources {
		if p.sources[name] && slices.ContainsFunc(References(source, NamespaceOf(p.Catalog)), func(r Reference) bool { return r.Name == last.Name }) {
			return true
		}
	}
	return false
}
