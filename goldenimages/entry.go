package goldenimages

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// Types of conditions of an image, and their reasons.
const (
	Deployed                 = "Deployed"
	UnsupportedArchitectures = "UnsupportedArchitectures"
	MissingArchitecture      = "MissingArchitecture"
	Imported                 = "Imported"

	ReasonDeployed  = "Deployed"
	ReasonDisabled  = "Disabled"
	ReasonInvalid   = "Invalid"
	ReasonNameTaken = "NameTaken"
	// ReasonChained is that of CDI.
	ReasonChained     = "MaxReferenceDepthReached"
	ReasonDuplicate   = "Duplicate"
	ReasonUnsupported = "UnsupportedArchitectures"
	ReasonSingleNode  = "SingleNode"
	ReasonMultiArch   = "MultiArchDisabled"
	ReasonSupported   = "Supported"
	// ReasonManagedBySSP is the reason of images whose objects SSP manages.
	ReasonManagedBySSP = "ManagedBySSP"
	// ReasonRetentionNone is the reason of images whose DataImportCron cannot be replaced.
	ReasonRetentionNone = "RetentionNone"
)

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 512

// problem is why an entry has no imports.
type problem struct{ reason, message string }

// target is a DataImportCron that an entry needs.
type target struct {
	// architecture is empty for an image that is imported once.
	architecture string
	cron         *cdiv1beta1.DataImportCron
}

// entry is an entry of the catalog, and what it needs.
type entry struct {
	*v1alpha1.DataImportCronTemplate

	// original are the architectures that are listed, effective those that nodes have.
	original, effective []string
	// multi reports whether the image is imported for each architecture. single is why it is not although the entry lists
	// architectures.
	multi  bool
	single string
	// suffixes reports whether the entry has, or can get, the names with the suffixes of all architectures.
	suffixes bool
	manifest *manifest
	disabled bool
	targets  []target
	problem  *problem
	// observed is why the catalog writes none of the objects; empty if it does.
	observed string
}

// source is the name of the DataSource without a suffix.
func (e *entry) source() string {
	if e.Spec == nil {
		return ""
	}
	return e.Spec.ManagedDataSource
}

// claim is the names that the entry uses.
func (e *entry) claim() *Claim {
	return &Claim{Cron: e.Name, Source: e.source(), Suffixed: e.suffixes}
}

// names are all names of DataImportCrons and DataSources that the entry can use now or later.
func (e *entry) names() (crons, sources []string) { return e.claim().names() }

// Relevant returns whether a plan needs a DataImportCron or a DataSource: it has the name of one of the catalog, belongs to
// the catalog, or is a DataSource of such a DataImportCron. The DataImportCrons of the input must be complete before
// DataSources are compared.
func Relevant(in *Input) func(Object) bool {
	crons, sources := map[string]bool{}, map[string]bool{}
	for i := range in.Catalog.Spec.DataImportCronTemplates {
		t := &in.Catalog.Spec.DataImportCronTemplates[i]
		e := &entry{DataImportCronTemplate: t, suffixes: true}
		c, s := e.names()
		for k := range c {
			crons[c[k]], sources[s[k]] = true, true
		}
	}
	return func(o Object) bool {
		if in.owns(o) {
			return true
		}
		if _, isCron := o.(*cdiv1beta1.DataImportCron); isCron {
			return crons[o.GetName()]
		}
		label := o.GetLabels()[CronLabel]
		return sources[o.GetName()] || crons[label] || in.Crons[label] != nil
	}
}

// Suffixed is the name of the object of an architecture; without one, that of the image.
func Suffixed(name, architecture string) string {
	if architecture == "" {
		return name
	}
	return name + "-" + architecture
}

// entriesOf reads the entries of the catalog, and what they need.
func entriesOf(in *Input) []*entry {
	entries := ownEntries(in)
	findOwners(in, entries)
	for _, e := range entries {
		if e.problem == nil && !e.disabled {
			e.problem = in.unread(e)
		}
		if e.problem == nil && !e.disabled {
			e.targets = targetsOf(in.Catalog, e)
		}
	}
	return entries
}

// ownEntries reads the entries of the catalog, without a look at other catalogs. Entries whose names collide have a problem,
// all of them.
func ownEntries(in *Input) []*entry {
	entries := make([]*entry, len(in.Catalog.Spec.DataImportCronTemplates))
	for i := range entries {
		entries[i] = entryOf(in, &in.Catalog.Spec.DataImportCronTemplates[i])
	}
	findDuplicates(entries)
	return entries
}

func entryOf(in *Input, template *v1alpha1.DataImportCronTemplate) *entry {
	e := &entry{DataImportCronTemplate: template, manifest: in.manifestOf(template)}
	e.disabled = disabled(template)
	e.problem = invalid(in.Catalog, template)
	original, listed := Listed(template)
	fills := fillsIn(in.Catalog, template)
	if fills {
		architectures, none := in.filled(e)
		original, listed = architectures, !none
	}
	e.original = original
	e.suffixes = fills && !(in.SingleNode && !in.applied(e))
	switch {
	case !listed:
	case !multiArch(in.Catalog):
		e.single = ReasonMultiArch
	case in.SingleNode && !in.applied(e):
		e.single = ReasonSingleNode
	default:
		e.multi, e.suffixes = true, true
		e.effective = effective(original, &in.Nodes)
	}
	return e
}

// disabled reports whether an entry has the annotation that disables it. HCO enables entries without the annotation, and
// those where it is true.
func disabled(template *v1alpha1.DataImportCronTemplate) bool {
	value, found := template.Annotations[v1alpha1.EnableAnnotation]
	return found && !strings.EqualFold(value, "true")
}

// invalid returns why an entry cannot be imported.
func invalid(catalog *v1alpha1.GoldenImageCatalog, t *v1alpha1.DataImportCronTemplate) *problem {
	if errs := validateEntry(nil, catalog, t); len(errs) > 0 {
		return &problem{ReasonInvalid, errs[0].Error()}
	}
	return nil
}

// findDuplicates sets the problem of entries that would use the same DataImportCron or DataSource.
func findDuplicates(entries []*entry) {
	crons, sources := map[string][]*entry{}, map[string][]*entry{}
	for _, e := range entries {
		if e.problem != nil || e.disabled {
			continue
		}
		c, s := e.names()
		for _, name := range c {
			crons[name] = append(crons[name], e)
		}
		for _, name := range s {
			sources[name] = append(sources[name], e)
		}
	}
	for _, uses := range []struct {
		kind string
		of   map[string][]*entry
	}{{"DataImportCron", crons}, {"DataSource", sources}} {
		for _, name := range slices.Sorted(maps.Keys(uses.of)) {
			users := uses.of[name]
			for _, e := range users[:len(users)*min(1, len(users)-1)] {
				if e.problem == nil {
					e.problem = &problem{ReasonDuplicate, fmt.Sprintf("the entries %q and %q both use the %s %q", users[0].Name, users[1].Name, uses.kind, name)}
				}
			}
		}
	}
}

// targetsOf returns the DataImportCrons that an entry needs.
func targetsOf(catalog *v1alpha1.GoldenImageCatalog, e *entry) []target {
	if !e.multi {
		return []target{{cron: cronOf(catalog, e, "")}}
	}
	var targets []target
	for _, architecture := range e.effective {
		targets = append(targets, target{architecture, cronOf(catalog, e, architecture)})
	}
	return targets
}

// cronOf returns the DataImportCron for an architecture. It always retains what it has imported: CDI would otherwise
// delete a source that a pointer still needs. The catalog deletes sources itself: see
// retention.go.
func cronOf(catalog *v1alpha1.GoldenImageCatalog, e *entry, architecture string) *cdiv1beta1.DataImportCron {
	cron := &cdiv1beta1.DataImportCron{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: NamespaceOf(catalog), Name: Suffixed(e.Name, architecture),
			Labels: maps.Clone(e.Labels), Annotations: maps.Clone(e.Annotations),
			OwnerReferences: []metav1.OwnerReference{ownerOf(catalog)},
		},
		Spec: *e.Spec.DeepCopy(),
	}
	if cron.Annotations == nil {
		cron.Annotations = map[string]string{}
	}
	delete(cron.Annotations, v1alpha1.ArchitecturesAnnotation)
	delete(cron.Annotations, v1alpha1.EnableAnnotation)
	cron.Annotations[v1alpha1.CatalogAnnotation] = catalog.Name
	unmarked(cron)
	if temporary(e.DataImportCronTemplate) {
		cron.Annotations[v1alpha1.RetentionAnnotation] = string(cdiv1beta1.DataImportCronRetainNone)
	}
	retain := cdiv1beta1.DataImportCronRetainAll
	cron.Spec.RetentionPolicy = &retain
	if architecture == "" {
		return cron
	}
	if cron.Labels == nil {
		cron.Labels = map[string]string{}
	}
	cron.Labels[v1alpha1.ArchitectureLabel] = architecture
	cron.Labels[v1alpha1.DataSourceNameLabel] = e.source()
	cron.Spec.ManagedDataSource = Suffixed(e.source(), architecture)
	cron.Spec.Template.Spec.Source.Registry.Platform = &cdiv1beta1.PlatformOptions{Architecture: architecture}
	return cron
}

// NamespaceOf is the namespace of the imports and DataSources of a catalog.
func NamespaceOf(catalog *v1alpha1.GoldenImageCatalog) string {
	if catalog.Spec.Namespace == "" {
		return v1alpha1.DefaultNamespace
	}
	return catalog.Spec.Namespace
}

func ownerOf(catalog *v1alpha1.GoldenImageCatalog) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GoldenImageCatalog", Name: catalog.Name, UID: catalog.UID}
}
