package goldenimages

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

const (
	// maxCronName is the length of the name of a DataImportCron, and of the DataSource that it manages, that CDI permits.
	maxCronName = 63
	// maxSchedule bounds a schedule.
	maxSchedule = 256
)

// Validate returns what is wrong with a catalog. CDI would reject some of it only when the catalog creates the
// DataImportCrons, and would never reject the rest.
func Validate(catalog *v1alpha1.GoldenImageCatalog) field.ErrorList {
	var all field.ErrorList
	list := field.NewPath("spec", "dataImportCronTemplates")
	names := map[string]int{}
	for i := range catalog.Spec.DataImportCronTemplates {
		t := &catalog.Spec.DataImportCronTemplates[i]
		all = append(all, validateEntry(list.Index(i), catalog, t)...)
		if _, found := names[t.Name]; found && t.Name != "" {
			all = append(all, field.Duplicate(list.Index(i).Child("metadata", "name"), t.Name))
		}
		names[t.Name] = i
	}
	if len(all) > 0 {
		return all
	}
	return collisions(list, catalog)
}

// collisions are the entries that would use one DataImportCron or DataSource.
func collisions(list *field.Path, catalog *v1alpha1.GoldenImageCatalog) field.ErrorList {
	var all field.ErrorList
	for i, e := range entriesOf(&Input{Catalog: catalog}) {
		if e.problem != nil && e.problem.reason == ReasonDuplicate {
			all = append(all, field.Invalid(list.Index(i).Child("metadata", "name"), e.Name, e.problem.message))
		}
	}
	return all
}

// check finds what is wrong with one aspect of an entry.
type check func(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList

// checks of an entry whose spec is there and whose names are valid, in the order of the fields.
var checks = []check{checkSchedule, checkChoices, checkTemplate, checkSource, checkRegistry, checkStorage}

// validateEntry returns what is wrong with an entry.
func validateEntry(path *field.Path, catalog *v1alpha1.GoldenImageCatalog, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	var all field.ErrorList
	if t.Namespace != "" && t.Namespace != NamespaceOf(catalog) {
		all = append(all, field.Invalid(path.Child("metadata", "namespace"), t.Namespace, fmt.Sprintf("must be the namespace of the catalog, %q", NamespaceOf(catalog))))
	}
	if t.Spec == nil {
		return append(all, field.Required(path.Child("spec"), "the DataImportCron of the image"))
	}
	_, listed := Listed(t)
	all = append(all, checkNames(path, t, listed || fillsIn(catalog, t))...)
	for _, c := range checks {
		all = append(all, c(path, t)...)
	}
	return all
}

func checkNames(path *field.Path, t *v1alpha1.DataImportCronTemplate, suffixes bool) field.ErrorList {
	longest, why := maxCronName, ""
	if suffixes {
		longest, why = v1alpha1.MaxNameLength, ", because the suffix of an architecture is added"
	}
	var all field.ErrorList
	for _, name := range []struct {
		path  *field.Path
		value string
	}{{path.Child("metadata", "name"), t.Name}, {path.Child("spec", "managedDataSource"), t.Spec.ManagedDataSource}} {
		switch faults := validation.IsDNS1123Subdomain(name.value); {
		case name.value == "":
			all = append(all, field.Required(name.path, ""))
		case len(name.value) > longest:
			all = append(all, field.Invalid(name.path, name.value, fmt.Sprintf("must have at most %d characters%s", longest, why)))
		case len(faults) > 0:
			all = append(all, field.Invalid(name.path, name.value, faults[0]))
		}
	}
	return all
}

// checkSchedule parses a schedule as CDI does. Without one, the image is imported once.
func checkSchedule(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	schedule := t.Spec.Schedule
	if schedule == "" {
		return nil
	}
	at := path.Child("spec", "schedule")
	if len(schedule) > maxSchedule {
		return field.ErrorList{field.TooLong(at, "", maxSchedule)}
	}
	// The parser panics if nothing follows the time zone.
	if zone, rest, found := strings.Cut(schedule, " "); !found && strings.Contains(zone, "TZ=") || strings.Contains(zone, "TZ=") && strings.TrimSpace(rest) == "" {
		return field.ErrorList{field.Invalid(at, schedule, "a schedule must follow the time zone")}
	}
	if _, err := cron.ParseStandard(schedule); err != nil {
		return field.ErrorList{field.Invalid(at, schedule, "must be a schedule of cron with five fields: "+err.Error())}
	}
	return nil
}

func checkChoices(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	spec := path.Child("spec")
	all := choice(spec.Child("garbageCollect"), t.Spec.GarbageCollect, cdiv1beta1.DataImportCronGarbageCollectOutdated, cdiv1beta1.DataImportCronGarbageCollectNever)
	all = append(all, choice(spec.Child("retentionPolicy"), t.Spec.RetentionPolicy, cdiv1beta1.DataImportCronRetainAll, cdiv1beta1.DataImportCronRetainNone)...)
	if keep := t.Spec.ImportsToKeep; keep != nil && *keep < 0 {
		all = append(all, field.Invalid(spec.Child("importsToKeep"), *keep, "must be 0 or more"))
	}
	return all
}

func choice[T ~string](path *field.Path, value *T, valid ...T) field.ErrorList {
	if value == nil || slices.Contains(valid, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *value, valid)}
}

// checkTemplate finds fields of the DataVolume that CDI sets itself.
func checkTemplate(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	spec, at := &t.Spec.Template.Spec, path.Child("spec", "template", "spec")
	set := map[string]bool{"sourceRef": spec.SourceRef != nil, "contentType": spec.ContentType != "", "checkpoints": len(spec.Checkpoints) > 0, "finalCheckpoint": spec.FinalCheckpoint}
	var all field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] {
			all = append(all, field.Forbidden(at.Child(name), "a DataImportCron must not set it"))
		}
	}
	return all
}

func checkSource(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	source, at := t.Spec.Template.Spec.Source, path.Child("spec", "template", "spec", "source")
	if source == nil {
		return field.ErrorList{field.Required(at, "an image has the source registry, or pvc")}
	}
	sources := map[string]bool{
		"registry": source.Registry != nil, "pvc": source.PVC != nil, "http": source.HTTP != nil, "s3": source.S3 != nil, "gcs": source.GCS != nil,
		"upload": source.Upload != nil, "blank": source.Blank != nil, "imageio": source.Imageio != nil, "vddk": source.VDDK != nil, "snapshot": source.Snapshot != nil,
	}
	maps.DeleteFunc(sources, func(_ string, set bool) bool { return !set })
	_, listed := Listed(t)
	switch {
	case len(sources) > 1:
		return field.ErrorList{field.Invalid(at, strings.Join(slices.Sorted(maps.Keys(sources)), ", "), "must have one source")}
	case !sources["registry"] && !sources["pvc"]:
		return field.ErrorList{field.Required(at, "an image has the source registry, or pvc")}
	case sources["pvc"] && (source.PVC.Name == "" || source.PVC.Namespace == ""):
		return field.ErrorList{field.Required(at.Child("pvc"), "name and namespace")}
	case listed && !sources["registry"]:
		return field.ErrorList{field.Forbidden(path.Child("metadata", "annotations").Key(v1alpha1.ArchitecturesAnnotation), "only images of registries have architectures")}
	}
	return nil
}

func checkRegistry(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	if t.Spec.Template.Spec.Source == nil || t.Spec.Template.Spec.Source.Registry == nil {
		return nil
	}
	registry, at := t.Spec.Template.Spec.Source.Registry, path.Child("spec", "template", "spec", "source", "registry")
	all := choice(at.Child("pullMethod"), registry.PullMethod, "", cdiv1beta1.RegistryPullPod, cdiv1beta1.RegistryPullNode)
	node := registry.PullMethod != nil && *registry.PullMethod == cdiv1beta1.RegistryPullNode
	switch {
	case (registry.URL == nil) == (registry.ImageStream == nil):
		all = append(all, field.Required(at, "either url or imageStream"))
	case registry.ImageStream != nil && (*registry.ImageStream == "" || !node):
		all = append(all, field.Invalid(at.Child("imageStream"), *registry.ImageStream, "must have a name, and requires the pullMethod node"))
	case registry.URL != nil:
		u, err := url.Parse(*registry.URL)
		if err != nil || u.Scheme != cdiv1beta1.RegistrySchemeDocker && u.Scheme != cdiv1beta1.RegistrySchemeOci {
			all = append(all, field.Invalid(at.Child("url"), *registry.URL, "must begin with docker:// or oci-archive://"))
		}
	}
	if registry.Platform != nil && registry.Platform.Architecture != "" && !architectures.Known(registry.Platform.Architecture) {
		all = append(all, field.NotSupported(at.Child("platform", "architecture"), registry.Platform.Architecture, architectures.Names()))
	}
	return all
}

func checkStorage(path *field.Path, t *v1alpha1.DataImportCronTemplate) field.ErrorList {
	spec, at := &t.Spec.Template.Spec, path.Child("spec", "template", "spec")
	switch {
	case spec.Storage != nil && spec.PVC != nil:
		return field.ErrorList{field.Invalid(at, "pvc, storage", "must have one of pvc and storage")}
	case spec.Storage == nil && spec.PVC == nil:
		return field.ErrorList{field.Required(at.Child("storage"), "the size of the volume")}
	}
	size, where := spec.PVC != nil && spec.PVC.Resources.Requests.Storage().Sign() > 0, at.Child("pvc")
	if spec.Storage != nil {
		size, where = spec.Storage.Resources.Requests.Storage().Sign() > 0, at.Child("storage")
	}
	if !size {
		return field.ErrorList{field.Required(where.Child("resources", "requests").Key("storage"), "the size of the volume")}
	}
	return nil
}
