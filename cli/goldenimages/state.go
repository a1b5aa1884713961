package goldenimages

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/texts"
)

// States of an image for an architecture.
const (
	// stateReady: it can be cloned.
	stateReady = "Ready"
	// stateImporting: it is about to be imported.
	stateImporting = "Importing"
	// stateFailed: CDI cannot import it.
	stateFailed = "Failed"
	// stateMissing: nodes have the architecture, and the entry does not list it.
	stateMissing = "Missing"
	// stateAbsent: no node has the architecture.
	stateAbsent = "Absent"
	// statePending: Virtward has not planned the image yet.
	statePending = "Pending"
	// stateBlocked: the image is not deployed.
	stateBlocked = "NotDeployed"
)

// maxText bounds texts of other components, in bytes.
const maxText = 512

// image is an image as list prints it.
type image struct {
	Catalog   string `json:"catalog"`
	Namespace string `json:"namespace"`
	// Entry is the name of the entry of the catalog.
	Entry      string `json:"entry"`
	DataSource string `json:"dataSource"`
	// Default is the architecture that the DataSource points to.
	Default string `json:"defaultArchitecture,omitempty"`
	// Reason is why the image is not deployed; empty if it is.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Imports has the state for each architecture of the nodes and of the image.
	Imports []importOf `json:"imports"`

	template *v1alpha1.DataImportCronTemplate
	catalog  *v1alpha1.GoldenImageCatalog
	status   *v1alpha1.Image
}

// importOf is the state of an image for an architecture.
type importOf struct {
	// Architecture is empty for an image that is imported once.
	Architecture   string `json:"architecture,omitempty"`
	State          string `json:"state"`
	Progress       string `json:"progress,omitempty"`
	Reason         string `json:"reason,omitempty"`
	Message        string `json:"message,omitempty"`
	DataSource     string `json:"dataSource"`
	DataImportCron string `json:"dataImportCron,omitempty"`
	// Imported is when the image was last imported.
	Imported *metav1.Time `json:"imported,omitempty"`
}

// images are those of all catalogs, sorted by catalog and DataSource.
func (v *view) images() []image {
	var all []image
	for i := range v.catalogs {
		c := &v.catalogs[i]
		for k := range c.Spec.DataImportCronTemplates {
			all = append(all, v.image(c, &c.Spec.DataImportCronTemplates[k]))
		}
		for k := range c.Status.Images {
			if common := v.common(c, &c.Status.Images[k]); common != nil {
				all = append(all, v.image(c, common))
			}
		}
	}
	slices.SortFunc(all, func(a, b image) int {
		return cmp.Or(strings.Compare(a.Catalog, b.Catalog), strings.Compare(a.DataSource, b.DataSource), strings.Compare(a.Entry, b.Entry))
	})
	return all
}

// common is the entry of a common image, as far as the status and the DataImportCrons show it. It is nil for an entry of the
// catalog itself, and for one that was removed.
func (v *view) common(c *v1alpha1.GoldenImageCatalog, s *v1alpha1.Image) *v1alpha1.DataImportCronTemplate {
	own := func(e v1alpha1.DataImportCronTemplate) bool { return e.Name == s.Name }
	if !c.Spec.CommonImages || slices.ContainsFunc(c.Spec.DataImportCronTemplates, own) {
		return nil
	}
	e := &v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Spec: &cdiv1beta1.DataImportCronSpec{ManagedDataSource: s.DataSource}}
	if len(s.OriginalArchitectures) > 0 {
		e.Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: strings.Join(s.OriginalArchitectures, ",")}
	}
	for _, of := range s.Imports {
		if cron := v.crons[key{namespaceOf(c), of.DataImportCron}]; cron != nil {
			e.Spec.Template = cron.Spec.Template
		}
	}
	return e
}

func (v *view) image(c *v1alpha1.GoldenImageCatalog, t *v1alpha1.DataImportCronTemplate) image {
	i := image{Catalog: c.Name, Namespace: namespaceOf(c), Entry: t.Name, template: t, catalog: c, Imports: []importOf{}}
	if t.Spec != nil {
		i.DataSource = t.Spec.ManagedDataSource
	}
	if k := slices.IndexFunc(c.Status.Images, func(s v1alpha1.Image) bool { return s.Name == t.Name }); k >= 0 {
		i.status = &c.Status.Images[k]
		i.Default = i.status.DefaultArchitecture
	}
	switch deployed := i.condition(goldenimages.Deployed); {
	case deployed == nil:
		i.Reason, i.Message = statePending, "Virtward has not planned the image yet"
	case deployed.Status != metav1.ConditionTrue:
		i.Reason, i.Message = texts.OneLine(deployed.Reason), texts.OneLine(deployed.Message)
	}
	for _, architecture := range i.architectures() {
		i.Imports = append(i.Imports, v.importOf(&i, architecture))
	}
	return i
}

func (i *image) condition(kind string) *metav1.Condition {
	if i.status == nil {
		return nil
	}
	return meta.FindStatusCondition(i.status.Conditions, kind)
}

// listed are the architectures of the entry, or those of its manifest.
func (i *image) listed() (architectures []string, listed bool) {
	if architectures, listed = goldenimages.Listed(i.template); !listed && i.status != nil && len(i.status.OriginalArchitectures) > 0 {
		return slices.Clone(i.status.OriginalArchitectures), true
	}
	return architectures, listed
}

// once reports whether the image is imported once, and not for each architecture.
func (i *image) once() bool {
	if i.status != nil && len(i.status.Imports) > 0 {
		return i.status.Imports[0].Architecture == ""
	}
	_, listed := i.listed()
	return !listed || i.catalog.Spec.MultiArch != nil && !*i.catalog.Spec.MultiArch
}

// architectures are those of KubeVirt that the image or the nodes have, sorted. An image that is imported once has an empty one.
func (i *image) architectures() []string {
	if i.once() {
		return []string{""}
	}
	all, _ := i.listed()
	all = slices.DeleteFunc(all, func(a string) bool { return !architectures.Known(a) })
	for _, c := range i.catalog.Status.Nodes.WorkloadArchitectures {
		if c.Nodes > 0 {
			all = append(all, c.Architecture)
		}
	}
	if i.status != nil {
		for _, state := range i.status.Imports {
			all = append(all, state.Architecture)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// importOf is the state for an architecture.
func (v *view) importOf(i *image, architecture string) importOf {
	s := importOf{Architecture: architecture, DataSource: suffixed(i.DataSource, architecture), DataImportCron: suffixed(i.Entry, architecture)}
	k := -1
	if i.status != nil {
		k = slices.IndexFunc(i.status.Imports, func(of v1alpha1.Import) bool { return of.Architecture == architecture })
	}
	if k < 0 {
		s.DataImportCron = ""
		s.State = i.without(architecture)
		return s
	}
	imported := meta.FindStatusCondition(i.status.Imports[k].Conditions, goldenimages.Imported)
	switch {
	case imported == nil:
		s.State = stateImporting
	case imported.Status == metav1.ConditionTrue:
		s.State, s.Imported = stateReady, &imported.LastTransitionTime
	default:
		s.State, s.Reason, s.Message = stateFailed, texts.OneLine(imported.Reason), texts.OneLine(texts.Shorten(imported.Message, maxText))
		if imported.Reason == "Pending" {
			s.State = stateImporting
		}
	}
	name := key{i.Namespace, s.DataImportCron}
	if cron := v.crons[name]; cron != nil && s.State == stateReady && cron.Status.LastImportTimestamp != nil {
		s.Imported = cron.Status.LastImportTimestamp
	}
	if volume := v.volumes[name]; volume != nil && s.State == stateImporting {
		s.Progress = progress(string(volume.Status.Progress))
	}
	return s
}

// without is the state for an architecture that is not imported.
func (i *image) without(architecture string) string {
	if i.Reason != "" && i.Reason != goldenimages.ReasonUnsupported {
		if i.Reason == statePending {
			return statePending
		}
		return stateBlocked
	}
	listed, _ := i.listed()
	if architecture != "" && !slices.Contains(listed, architecture) {
		return stateMissing
	}
	return stateAbsent
}

// progress is CDI's progress without a fraction; empty if it is unknown.
func progress(of string) string {
	number, isPercent := strings.CutSuffix(of, "%")
	number, _, _ = strings.Cut(number, ".")
	if !isPercent || number == "" || strings.Trim(number, "0123456789") != "" || len(number) > 3 {
		return ""
	}
	return number + "%"
}

func suffixed(name, architecture string) string {
	if architecture == "" {
		return name
	}
	return name + "-" + architecture
}
