package validators

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/fieldpath"
)

func dataVolumeTemplateRules() Table {
	return Scoped(OnVM,
		dataVolumeNameRule,
		dataVolumeTargetRule,
		dataVolumeSourceRule,
		dataVolumeSourceKindRule,
		dataVolumesReferencedRule,
		dataVolumeNamespacesRule,
	)
}

// eachDataVolumeTemplate applies a check to the templates of a VM, one after the other.
func eachDataVolumeTemplate(check func(*field.Path, *v1.DataVolumeTemplateSpec) *field.Error) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		if s.VM == nil {
			return
		}
		for i := range s.VM.Spec.DataVolumeTemplates {
			found.Add(check(dataVolumeTemplatePath(i), &s.VM.Spec.DataVolumeTemplates[i]))
		}
	}
}

func dataVolumeTemplatePath(i int) *field.Path {
	return specOfVM.Child("dataVolumeTemplates").Index(i)
}

var dataVolumeNameRule = Rule{
	ID:     "dvt-name",
	Title:  "A DataVolume template has a name",
	Remedy: "Set metadata.name of the template.",
	Check:  eachDataVolumeTemplate(dataVolumeName),
}

func dataVolumeName(path *field.Path, dv *v1.DataVolumeTemplateSpec) *field.Error {
	if dv.Name != "" {
		return nil
	}
	return field.Required(path.Child("metadata", "name"), "a volume refers to the DataVolume by its name")
}

var dataVolumeTargetRule = Rule{
	ID:     "dvt-storage-or-pvc",
	Title:  "A DataVolume template has one of storage and pvc",
	Remedy: "Set spec.storage of the template, and not spec.pvc.",
	Check:  eachDataVolumeTemplate(dataVolumeTarget),
}

func dataVolumeTarget(path *field.Path, dv *v1.DataVolumeTemplateSpec) *field.Error {
	path = path.Child("spec")
	switch pvc, storage := dv.Spec.PVC != nil, dv.Spec.Storage != nil; {
	case pvc && storage:
		return field.Invalid(path, field.OmitValueType{}, "storage and pvc are both set")
	case !pvc && !storage:
		return field.Invalid(path, field.OmitValueType{}, "neither storage nor pvc is set")
	}
	return nil
}

var dataVolumeSourceRule = Rule{
	ID:     "dvt-source",
	Title:  "A DataVolume template has exactly one source",
	Remedy: "Set one of spec.source, spec.sourceRef and the dataSourceRef of spec.storage.",
	Check:  eachDataVolumeTemplate(dataVolumeSource),
}

// dataVolumeSource checks templates with one target: the target names the populator of the volume.
func dataVolumeSource(path *field.Path, dv *v1.DataVolumeTemplateSpec) *field.Error {
	if (dv.Spec.PVC == nil) == (dv.Spec.Storage == nil) {
		return nil
	}
	target, populated := populator(&dv.Spec)
	source := path.Child("spec", "source")
	if dv.Spec.Source == nil && dv.Spec.SourceRef != nil {
		source = path.Child("spec", "sourceRef")
	}
	switch given := dv.Spec.Source != nil || dv.Spec.SourceRef != nil; {
	case given && populated:
		return field.Invalid(source, field.OmitValueType{}, fmt.Sprintf("spec.%s already has a dataSource or dataSourceRef", target))
	case !given && !populated:
		return field.Invalid(source, nil, fmt.Sprintf("nothing says what to fill the volume with: set source, sourceRef, or the dataSourceRef of spec.%s", target))
	}
	return nil
}

// populator names the target of a DataVolume that has one, and reports whether it names a populator.
func populator(spec *cdiv1.DataVolumeSpec) (target string, named bool) {
	if pvc := spec.PVC; pvc != nil {
		return "pvc", pvc.DataSource != nil || pvc.DataSourceRef != nil
	}
	return "storage", spec.Storage.DataSource != nil || spec.Storage.DataSourceRef != nil
}

var dataVolumeSourceKindRule = Rule{
	ID:     "dvt-source-one",
	Title:  "The source of a DataVolume template has one kind",
	Remedy: "Set exactly one kind of source.",
	Check:  eachDataVolumeTemplate(dataVolumeSourceKind),
}

func dataVolumeSourceKind(path *field.Path, dv *v1.DataVolumeTemplateSpec) *field.Error {
	if dv.Spec.Source == nil {
		return nil
	}
	path = path.Child("spec", "source")
	switch kinds := sourceKinds(dv.Spec.Source); len(kinds) {
	case 1:
		return nil
	case 0:
		return field.Invalid(path, field.OmitValueType{}, "has no kind, such as http, registry, pvc or blank")
	default:
		return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("has %d kinds (%s)", len(kinds), strings.Join(kinds, ", ")))
	}
}

// sourceKinds are the names of the kinds that are set, in the order of the type.
func sourceKinds(source *cdiv1.DataVolumeSource) (kinds []string) {
	value := reflect.ValueOf(source).Elem()
	for i := range value.NumField() {
		if f := value.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			described := value.Type().Field(i)
			name, _, _ := fieldpath.Name(&described)
			kinds = append(kinds, name)
		}
	}
	return kinds
}

var dataVolumesReferencedRule = Rule{
	ID:     "dvt-referenced",
	Title:  "A volume uses the DataVolume of each template",
	Remedy: "Add a volume with dataVolume.name, or remove the template.",
	Check:  dataVolumesReferenced,
}

func dataVolumesReferenced(s *Subject, found *Errors) {
	if s.VM == nil || len(s.VM.Spec.DataVolumeTemplates) == 0 {
		return
	}
	used := map[string]bool{}
	for i := range s.Spec.Volumes {
		if source := s.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			used[source.ClaimName] = true
		}
		if source := s.Spec.Volumes[i].DataVolume; source != nil {
			used[source.Name] = true
		}
	}
	for i := range s.VM.Spec.DataVolumeTemplates {
		if name := s.VM.Spec.DataVolumeTemplates[i].Name; name != "" && !used[name] {
			found.Add(field.Required(dataVolumeTemplatePath(i), fmt.Sprintf("no volume uses the DataVolume %q", name)))
		}
	}
}

var dataVolumeNamespacesRule = Rule{
	ID:       "dvt-namespace",
	Title:    "A DataVolume template is in the namespace of its VM",
	Remedy:   "Remove metadata.namespace of the template.",
	Security: true,
	Check:    dataVolumeNamespaces,
}

// dataVolumeNamespaces accepts templates that an update does not change. An object without a namespace
// is one that no API server has seen yet.
func dataVolumeNamespaces(s *Subject, found *Errors) {
	if s.VM == nil || s.VM.Namespace == "" {
		return
	}
	if s.OldVM != nil && equality.Semantic.DeepEqual(s.OldVM.Spec.DataVolumeTemplates, s.VM.Spec.DataVolumeTemplates) {
		return
	}
	for i := range s.VM.Spec.DataVolumeTemplates {
		if ns := s.VM.Spec.DataVolumeTemplates[i].Namespace; ns != "" && ns != s.VM.Namespace {
			found.Add(field.Invalid(dataVolumeTemplatePath(i).Child("metadata", "namespace"), ns, fmt.Sprintf("must be the namespace of the VM, %q, or empty", s.VM.Namespace)))
		}
	}
}
