package goldenimages

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// crons creates the DataImportCrons of an entry, and replaces those that differ: CDI does not permit changes.
func (p *plan) crons(e *entry) {
	for _, t := range e.targets {
		existing := p.Crons[t.cron.Name]
		if existing == nil && p.manual(p.Sources[t.cron.Spec.ManagedDataSource]) {
			continue
		}
		p.needed[t.cron.Name] = true
		if source := p.Sources[t.cron.Spec.ManagedDataSource]; source != nil && existing != nil && source.Annotations[v1alpha1.CatalogAnnotation] == "" {
			p.write(Update, p.claimed(source))
			continue
		}
		if source := p.Sources[t.cron.Spec.ManagedDataSource]; source != nil && pointsTo(source) == "" && source.Labels[CronLabel] != "" && source.Labels[CronLabel] != t.cron.Name && p.owns(source) {
			changed := source.DeepCopy() // CDI ignores a DataSource with the label of another cron
			changed.Labels[CronLabel] = t.cron.Name
			p.write(Update, changed)
		}
		p.cron(existing, t.cron)
	}
}

// cron creates a DataImportCron, or makes it what it has to be.
func (p *plan) cron(existing, wanted *cdiv1beta1.DataImportCron) {
	switch {
	case existing == nil && p.vanishing(wanted.Name):
		p.Waits = true
	case existing == nil:
		p.write(Create, wanted)
	case existing.DeletionTimestamp != nil: // it is created when CDI has deleted it
	case !equality.Semantic.DeepEqual(existing.Spec, wanted.Spec) && !(deletes(existing) && sameButRetention(existing, wanted)):
		if p.replaced[existing.Name] = true; p.retires(existing) {
			p.write(Delete, existing)
		}
	case !Contains(existing.Labels, wanted.Labels) || !Contains(existing.Annotations, wanted.Annotations) ||
		existing.Annotations[v1alpha1.RetentionAnnotation] != wanted.Annotations[v1alpha1.RetentionAnnotation]:
		changed := existing.DeepCopy()
		delete(changed.Annotations, v1alpha1.RetentionAnnotation)
		changed.Labels, changed.Annotations = Merged(changed.Labels, wanted.Labels), Merged(changed.Annotations, wanted.Annotations)
		p.write(Update, changed)
	}
}

// architectures plans an image that is imported for each architecture. The pointer changes to a DataSource only when that
// is ready, and the crons behind the old one are deleted only afterwards.
func (p *plan) architectures(e *entry, image *v1alpha1.Image) {
	image.DefaultArchitecture = p.defaultOf(e, image.DefaultArchitecture)
	wanted := Suffixed(e.source(), image.DefaultArchitecture)
	pointer := p.Sources[e.source()]
	if p.manual(pointer) && p.Sources[wanted] == nil && p.Crons[Suffixed(e.Name, image.DefaultArchitecture)] == nil {
		p.write(Create, p.copied(e, pointer, wanted, image.DefaultArchitecture))
		p.keep(e)
		return
	}
	p.crons(e)
	switch {
	case pointer == nil:
		p.write(Create, p.pointer(e, wanted))
		return
	case pointsTo(pointer) == wanted || ready(p.Sources[wanted]) || !ready(pointer):
		if changed := p.repointed(pointer, wanted, image.DefaultArchitecture); changed != nil {
			p.write(Update, changed)
			p.keep(e)
		}
	default: // it stays ready with its old source
		p.keep(e)
	}
}

// sameButRetention reports whether two DataImportCrons differ in their retention at most.
func sameButRetention(a, b *cdiv1beta1.DataImportCron) bool {
	left, right := a.Spec, b.Spec
	left.RetentionPolicy, right.RetentionPolicy = nil, nil
	return equality.Semantic.DeepEqual(left, right)
}

// once plans an image that is imported once. If its DataSource is a pointer, CDI gets it with the label of the cron; the
// crons of architectures are deleted when CDI has filled in a source.
func (p *plan) once(e *entry) {
	p.crons(e)
	source := p.Sources[e.source()]
	if source == nil {
		return
	}
	cron := e.targets[0].cron.Name
	changed := source.DeepCopy()
	if pointsTo(source) != "" {
		p.keep(e)
		if p.Crons[cron] == nil {
			return
		}
		changed.Labels = Merged(source.Labels, map[string]string{CronLabel: cron})
	} else {
		if e.Labels[v1alpha1.ArchitectureLabel] == "" {
			delete(changed.Labels, v1alpha1.ArchitectureLabel)
		}
	}
	if !equality.Semantic.DeepEqual(source, changed) {
		p.write(Update, changed)
	}
}

// orphans deletes the crons of the catalog that no entry needs any more. A cron whose label is on a DataSource that points
// elsewhere is not deleted: CDI could delete the DataSource too.
func (p *plan) orphans() {
	for _, name := range slices.Sorted(maps.Keys(p.Crons)) {
		cron := p.Crons[name]
		if p.needed[name] || !p.owns(cron) || cron.DeletionTimestamp != nil {
			continue
		}
		if source := p.marked(name); source != nil {
			changed := source.DeepCopy()
			delete(changed.Labels, CronLabel)
			delete(changed.Labels, CleanupLabel)
			p.write(Update, changed)
			continue
		}
		if source := p.Sources[cron.Spec.ManagedDataSource]; source != nil && source.Labels[CronLabel] == name && source.Annotations[v1alpha1.CatalogAnnotation] == "" {
			p.write(Update, p.claimed(source))
			continue
		}
		if !p.supplies(cron) && p.retires(cron) {
			p.write(Delete, cron)
		}
	}
}
