package goldenimages

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// pointer is the DataSource without a suffix.
func (p *plan) pointer(e *entry, name string) *cdiv1beta1.DataSource {
	return &cdiv1beta1.DataSource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: NamespaceOf(p.Catalog), Name: e.source(),
			Annotations:     map[string]string{v1alpha1.CatalogAnnotation: p.Catalog.Name},
			OwnerReferences: []metav1.OwnerReference{ownerOf(p.Catalog)},
		},
		Spec: cdiv1beta1.DataSourceSpec{Source: sourceOf(NamespaceOf(p.Catalog), name)},
	}
}

// copied is the DataSource of the default architecture, with the source of the one without a suffix.
func (p *plan) copied(e *entry, from *cdiv1beta1.DataSource, name, architecture string) *cdiv1beta1.DataSource {
	source := p.pointer(e, "")
	source.Name, source.Spec = name, *from.Spec.DeepCopy()
	source.Labels = map[string]string{v1alpha1.ArchitectureLabel: architecture, v1alpha1.DataSourceNameLabel: e.source()}
	return source
}

func sourceOf(namespace, name string) cdiv1beta1.DataSourceSource {
	return cdiv1beta1.DataSourceSource{DataSource: &cdiv1beta1.DataSourceRefSourceDataSource{Namespace: namespace, Name: name}}
}

// repointed returns the pointer with its target, and without the labels of a cron. It is nil if the pointer is right. CDI
// copies the architecture to its label and never corrects it.
func (p *plan) repointed(pointer *cdiv1beta1.DataSource, name, architecture string) *cdiv1beta1.DataSource {
	changed := pointer.DeepCopy()
	changed.Spec.Source = sourceOf(pointer.Namespace, name)
	delete(changed.Labels, CronLabel)
	delete(changed.Labels, CleanupLabel)
	if _, found := changed.Labels[v1alpha1.ArchitectureLabel]; found {
		changed.Labels[v1alpha1.ArchitectureLabel] = architecture
	}
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[v1alpha1.CatalogAnnotation] = p.Catalog.Name
	if equality.Semantic.DeepEqual(pointer, changed) {
		return nil
	}
	return changed
}

// defaultOf chooses the architecture that the pointer has. It keeps the previous one while it is imported, unless its
// import fails and another one is ready.
func (p *plan) defaultOf(e *entry, previous string) string {
	choice := previous
	if !slices.Contains(e.effective, previous) {
		choice = surveyOf(&p.Nodes).preferred(e.effective)
	}
	imported := slices.DeleteFunc(slices.Clone(e.effective), func(a string) bool { return !ready(p.Sources[Suffixed(e.source(), a)]) })
	_, fails := p.Failures[Suffixed(e.Name, choice)]
	if fails && !slices.Contains(imported, choice) && len(imported) > 0 {
		return surveyOf(&p.Nodes).preferred(imported)
	}
	return choice
}

// pointers deletes the pointers of the catalog that no entry has any more.
func (p *plan) pointers() {
	for _, name := range slices.Sorted(maps.Keys(p.Sources)) {
		if source := p.Sources[name]; !p.sources[name] && pointsTo(source) != "" && p.owns(source) && source.DeletionTimestamp == nil {
			p.write(Delete, source)
		}
	}
}

// marked returns a pointer that has the labels of a cron.
func (p *plan) marked(cron string) *cdiv1beta1.DataSource {
	for _, name := range slices.Sorted(maps.Keys(p.Sources)) {
		if source := p.Sources[name]; source.Labels[CronLabel] == cron && pointsTo(source) != "" && p.owns(source) {
			return source
		}
	}
	return nil
}

// chained returns why CDI does not follow the pointer of an image: its target is a pointer, too.
func (p *plan) chained(e *entry) *problem {
	pointer := p.Sources[e.source()]
	if pointer == nil || !e.multi || pointsTo(pointer) == "" {
		return nil
	}
	target := p.Sources[pointsTo(pointer)]
	if target == nil || pointsTo(target) == "" {
		return nil
	}
	return &problem{ReasonChained, fmt.Sprintf("the DataSource %q points to %q, which points to %q; CDI follows one pointer only", pointer.Name, target.Name, pointsTo(target))}
}

// ready reports whether CDI says that a DataSource can be cloned.
func ready(source *cdiv1beta1.DataSource) bool {
	return source != nil && slices.ContainsFunc(source.Status.Conditions, func(c cdiv1beta1.DataSourceCondition) bool {
		return c.Type == cdiv1beta1.DataSourceReady && c.Status == corev1.ConditionTrue
	})
}

// examined reports whether CDI has said if a DataSource is ready.
func examined(source *cdiv1beta1.DataSource) bool {
	return slices.ContainsFunc(source.Status.Conditions, func(c cdiv1beta1.DataSourceCondition) bool { return c.Type == cdiv1beta1.DataSourceReady })
}

// pointsTo returns the DataSource that a pointer names.
func pointsTo(source *cdiv1beta1.DataSource) string {
	if source.Spec.Source.DataSource == nil {
		return ""
	}
	return source.Spec.Source.DataSource.Name
}
