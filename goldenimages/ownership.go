package goldenimages

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

// previous is the image as the status has it.
func (in *Input) previous(name string) *v1alpha1.Image {
	images := in.Catalog.Status.Images
	if i := slices.IndexFunc(images, func(image v1alpha1.Image) bool { return image.Name == name }); i >= 0 {
		return &images[i]
	}
	return nil
}

// applied reports whether an entry has imports of architectures.
func (in *Input) applied(e *entry) bool { return len(in.importedFor(e)) > 0 }

// importedFor are the architectures that an entry has imports of.
func (in *Input) importedFor(e *entry) []string {
	return slices.DeleteFunc(architectures.Names(), func(a string) bool {
		cron := in.Crons[Suffixed(e.Name, a)]
		return cron == nil || !in.owns(cron)
	})
}

// owns reports whether the catalog created an object, or may manage it.
func (in *Input) owns(o Object) bool {
	return !managedBySSP(o) && (slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == in.Catalog.UID }) ||
		o.GetAnnotations()[v1alpha1.CatalogAnnotation] == in.Catalog.Name)
}

// manages reports whether the catalog may write a DataSource. CDI creates some of them, each for the cron of the catalog that
// manages its name. Any other label is that of another author.
func (in *Input) manages(source *cdiv1beta1.DataSource) bool {
	cron := in.Crons[source.Labels[CronLabel]]
	return in.owns(source) || cron != nil && in.owns(cron) && !managedBySSP(source) && cron.Spec.ManagedDataSource == source.Name
}

// taken returns the object of another owner that an entry would write.
func (p *plan) taken(e *entry) *problem {
	for _, t := range e.targets {
		cron := p.Crons[t.cron.Name]
		if cron != nil && !p.owns(cron) {
			return takenBy("DataImportCron", cron)
		}
		if cron != nil {
			if why := p.unreplaceable(cron, t.cron); why != nil {
				return why
			}
		}
		if source := p.Sources[t.cron.Spec.ManagedDataSource]; source != nil && !p.manages(source) {
			return takenBy("DataSource", source)
		}
	}
	if source := p.Sources[e.source()]; source != nil && e.multi && !p.manages(source) {
		return takenBy("DataSource", source)
	}
	return nil
}

func takenBy(kind string, o Object) *problem {
	return &problem{ReasonNameTaken, fmt.Sprintf("the %s %q exists and does not belong to the catalog; %s", kind, o.GetName(), consent)}
}

// claimed returns a DataSource that CDI made for a cron, with the name of the catalog. It belongs to the catalog after the
// cron is deleted, too.
func (p *plan) claimed(source *cdiv1beta1.DataSource) *cdiv1beta1.DataSource {
	changed := source.DeepCopy()
	changed.Annotations = Merged(source.Annotations, map[string]string{v1alpha1.CatalogAnnotation: p.Catalog.Name})
	return changed
}

// manual reports whether a DataSource of the catalog has a claim or a snapshot that no cron imported. CDI has found it, or
// not looked yet.
func (p *plan) manual(source *cdiv1beta1.DataSource) bool {
	return source != nil && p.owns(source) && (ready(source) || !examined(source)) && source.Labels[CronLabel] == "" && pointsTo(source) == "" && source.Spec.Source != (cdiv1beta1.DataSourceSource{})
}
