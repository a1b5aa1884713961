package images

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/texts"
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

// Plan plans the next writes of a catalog. The DataSource without a suffix stays ready through all of them, if it is.
func Plan(in *Input) Result {
	p := &plan{Input: in, needed: map[string]bool{}, sources: map[string]bool{}, replaced: map[string]bool{}}
	entries := entriesOf(in)
	for _, e := range entries {
		p.uses(e)
	}
	for _, e := range entries {
		p.image(e)
	}
	if in.SSP != "" {
		p.Retired = in.Catalog.Status.Retired
		return p.Result
	}
	p.remembered()
	p.orphans()
	p.pointers()
	p.retired()
	return p.Result
}

type plan struct {
	*Input
	Result

	// needed are the DataImportCrons that an entry needs, or still needs, and sources the DataSources that an entry has.
	// replaced are the DataImportCrons that are deleted and created again.
	needed, sources, replaced map[string]bool
	// added counts the retired DataImportCrons that the status has not yet.
	added int
}

// uses notes the DataSources of an entry. One without imports whose images are deleted has none.
func (p *plan) uses(e *entry) {
	if e.disabled || e.multi && e.problem == nil && len(e.targets) == 0 && temporary(e.DataImportCronTemplate) {
		return
	}
	p.sources[e.source()] = true
	for _, t := range e.targets {
		p.sources[t.cron.Spec.ManagedDataSource] = true
	}
}

func (p *plan) write(verb Verb, object Object) {
	p.Writes = append(p.Writes, Write{verb, object})
}

// image plans one entry.
func (p *plan) image(e *entry) {
	image := v1alpha1.Image{Name: e.Name, DataSource: e.source(), OriginalArchitectures: e.original, Architectures: e.effective, Manifest: e.manifest.status()}
	if previous := p.previous(e.Name); previous != nil {
		image.DefaultArchitecture = previous.DefaultArchitecture
	}
	if e.problem == nil && !e.disabled {
		if e.observed = p.observed(e); e.observed == "" {
			e.problem = p.taken(e)
		}
	}
	switch {
	case e.problem != nil:
		p.keep(e)
	case e.observed != "":
		image.DefaultArchitecture = p.pointed(e)
		p.keep(e)
	case e.disabled || len(e.targets) == 0:
	case e.multi:
		p.architectures(e, &image)
	default:
		image.DefaultArchitecture = ""
		p.once(e)
	}
	p.conditions(e, &image)
	p.Images = append(p.Images, image)
}

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
	return slices.DeleteFunc(slices.Clone(Architectures), func(a string) bool {
		cron := in.Crons[suffixed(e.Name, a)]
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

// keep leaves everything of an entry as it is.
func (p *plan) keep(e *entry) {
	for _, name := range append([]string{""}, Architectures...) {
		p.needed[suffixed(e.Name, name)] = true
	}
}

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
	case !contains(existing.Labels, wanted.Labels) || !contains(existing.Annotations, wanted.Annotations) ||
		existing.Annotations[v1alpha1.RetentionAnnotation] != wanted.Annotations[v1alpha1.RetentionAnnotation]:
		changed := existing.DeepCopy()
		delete(changed.Annotations, v1alpha1.RetentionAnnotation)
		changed.Labels, changed.Annotations = merged(changed.Labels, wanted.Labels), merged(changed.Annotations, wanted.Annotations)
		p.write(Update, changed)
	}
}

// architectures plans an image that is imported for each architecture. The pointer changes to a DataSource only when that
// is ready, and the crons behind the old one are deleted only afterwards.
func (p *plan) architectures(e *entry, image *v1alpha1.Image) {
	image.DefaultArchitecture = p.defaultOf(e, image.DefaultArchitecture)
	wanted := suffixed(e.source(), image.DefaultArchitecture)
	pointer := p.Sources[e.source()]
	if p.manual(pointer) && p.Sources[wanted] == nil && p.Crons[suffixed(e.Name, image.DefaultArchitecture)] == nil {
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

// pointer is the DataSource without a suffix.
func (p *plan) pointer(e *entry, name string) *cdiv1beta1.DataSource {
	return &cdiv1beta1.DataSource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(p.Catalog), Name: e.source(),
			Annotations:     map[string]string{v1alpha1.CatalogAnnotation: p.Catalog.Name},
			OwnerReferences: []metav1.OwnerReference{ownerOf(p.Catalog)},
		},
		Spec: cdiv1beta1.DataSourceSpec{Source: sourceOf(namespaceOf(p.Catalog), name)},
	}
}

// claimed returns a DataSource that CDI made for a cron, with the name of the catalog. It belongs to the catalog after the
// cron is deleted, too.
func (p *plan) claimed(source *cdiv1beta1.DataSource) *cdiv1beta1.DataSource {
	changed := source.DeepCopy()
	changed.Annotations = merged(source.Annotations, map[string]string{v1alpha1.CatalogAnnotation: p.Catalog.Name})
	return changed
}

// manual reports whether a DataSource of the catalog has a claim or a snapshot that no cron imported. CDI has found it, or
// not looked yet.
func (p *plan) manual(source *cdiv1beta1.DataSource) bool {
	return source != nil && p.owns(source) && (ready(source) || !examined(source)) && source.Labels[CronLabel] == "" && pointsTo(source) == "" && source.Spec.Source != (cdiv1beta1.DataSourceSource{})
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
		changed.Labels = merged(source.Labels, map[string]string{CronLabel: cron})
	} else {
		if e.Labels[v1alpha1.ArchitectureLabel] == "" {
			delete(changed.Labels, v1alpha1.ArchitectureLabel)
		}
	}
	if !equality.Semantic.DeepEqual(source, changed) {
		p.write(Update, changed)
	}
}

// defaultOf chooses the architecture that the pointer has. It keeps the previous one while it is imported, unless its
// import fails and another one is ready.
func (p *plan) defaultOf(e *entry, previous string) string {
	choice := previous
	if !slices.Contains(e.effective, previous) {
		choice = surveyOf(&p.Nodes).preferred(e.effective)
	}
	imported := slices.DeleteFunc(slices.Clone(e.effective), func(a string) bool { return !ready(p.Sources[suffixed(e.source(), a)]) })
	_, fails := p.Failures[suffixed(e.Name, choice)]
	if fails && !slices.Contains(imported, choice) && len(imported) > 0 {
		return surveyOf(&p.Nodes).preferred(imported)
	}
	return choice
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

// conditions of the image.
func (p *plan) conditions(e *entry, image *v1alpha1.Image) {
	previous := p.previous(e.Name)
	if previous != nil {
		image.Conditions = slices.Clone(previous.Conditions)
	}
	is, deployed := e.problem == nil && !e.disabled && len(e.targets) > 0, problem{ReasonDeployed, "all DataImportCrons are created"}
	switch {
	case e.problem != nil:
		deployed = *e.problem
	case e.observed != "":
		is, deployed = p.observation(e)
	case e.disabled:
		deployed = problem{ReasonDisabled, fmt.Sprintf("the annotation %s is not true", v1alpha1.EnableAnnotation)}
	case len(e.targets) == 0:
		deployed = problem{ReasonUnsupported, "no node has an architecture of the image"}
	case p.chained(e) != nil:
		is, deployed = false, *p.chained(e)
	case e.single != "":
		deployed.reason = e.single
	}
	p.set(&image.Conditions, Deployed, is, deployed)
	p.verify(e, &image.Conditions)
	p.set(&image.Conditions, UnsupportedArchitectures, e.multi && len(e.effective) < len(e.original), problem{ReasonSupported, fmt.Sprintf("listed: %v; of nodes: %v", e.original, e.effective)})
	missing := problem{"Imported", "no import fails"}
	for _, t := range e.targets {
		if e.problem != nil {
			break
		}
		state := p.imported(t, previous)
		image.Imports = append(image.Imports, state)
		if failure, fails := p.Failures[t.cron.Name]; fails && missing.reason == "Imported" {
			missing = problem{failure.Reason, fmt.Sprintf("%s: %s", cmp.Or(t.architecture, t.cron.Name), failure.Message)}
		}
	}
	p.set(&image.Conditions, MissingArchitecture, missing.reason != "Imported", missing)
}

func (p *plan) imported(t target, previous *v1alpha1.Image) v1alpha1.Import {
	state := v1alpha1.Import{Architecture: t.architecture, DataImportCron: t.cron.Name, DataSource: t.cron.Spec.ManagedDataSource}
	if previous != nil {
		if i := slices.IndexFunc(previous.Imports, func(i v1alpha1.Import) bool { return i.DataImportCron == t.cron.Name }); i >= 0 {
			state.Conditions = slices.Clone(previous.Imports[i].Conditions)
		}
	}
	source := p.Sources[state.DataSource]
	why := problem{"Pending", "the image is not imported yet"}
	if failure, fails := p.Failures[t.cron.Name]; fails {
		why = problem{failure.Reason, failure.Message}
	}
	if ready(source) {
		why = problem{"Imported", "the DataSource is ready"}
	}
	p.set(&state.Conditions, Imported, ready(source), why)
	return state
}

// set sets a condition. Messages of other components are in some of them, so they are shortened.
func (in *Input) set(conditions *[]metav1.Condition, kind string, holds bool, why problem) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	in.setStatus(conditions, kind, status, why)
}

func (in *Input) setStatus(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, why problem) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: why.reason, Message: texts.Shorten(why.message, maxMessage), LastTransitionTime: in.Now,
	})
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

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

func merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, b)
	return m
}
