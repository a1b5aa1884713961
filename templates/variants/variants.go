package variants

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/limits/decode"
)

// Reasons why a VM template gets no variants.
const (
	ReasonNoDataSource = "NoDataSource"
	ReasonNoImage      = "NoImage"
	ReasonUnreadable   = "Unreadable"
	ReasonInvalid      = "VariantInvalid"
)

// maxTemplateName is the length of the name of a VM template.
const maxTemplateName = 253

// Fault is why a VM template gets no variants, or not all of them.
type Fault struct{ Reason, Message string }

// Variants are those that a VM template gets.
type Variants struct {
	// Architectures of the variants.
	Architectures []string
	// Keep reports whether the variants stay as they are, because it is not known what the image has.
	Keep bool
	// Fault is nil if the template is right.
	Fault *Fault

	source *v1beta1.VirtualMachineTemplate
	image  string
}

// Of decides which variants a VM template gets: one for each architecture that its image is imported for. The image
// is that of the label, in the namespace from which the template clones it.
func Of(source *v1beta1.VirtualMachineTemplate, catalogs []v1alpha1.GoldenImageCatalog) Variants {
	v := Variants{source: source, image: source.Labels[v1alpha1.PerArchitectureLabel]}
	if v.image == "" || source.Labels[v1alpha1.VariantLabel] != "" {
		return v
	}
	t, err := parse(source)
	if err != nil {
		v.Keep, v.Fault = true, &Fault{ReasonUnreadable, "spec.virtualMachine: " + err.Error()}
		return v
	}
	namespace, found := t.clones(v.image)
	if !found {
		v.Fault = &Fault{ReasonNoDataSource, fmt.Sprintf("no dataVolumeTemplate of the virtual machine clones the DataSource %q of the label %s", v.image, v1alpha1.PerArchitectureLabel)}
		return v
	}
	for i := range catalogs {
		c := &catalogs[i]
		if goldenimages.NamespaceOf(c) == namespace && lists(c, v.image) {
			v.Architectures, v.Keep = importedFor(c, v.image)
			return v
		}
	}
	v.Fault = &Fault{ReasonNoImage, fmt.Sprintf("no catalog has the image %q in the namespace %q", v.image, namespace)}
	return v
}

// lists reports whether a catalog has an image. Its status has the common images too.
func lists(c *v1alpha1.GoldenImageCatalog, source string) bool {
	own := func(e v1alpha1.DataImportCronTemplate) bool {
		return e.Spec != nil && e.Spec.ManagedDataSource == source
	}
	return slices.ContainsFunc(c.Spec.DataImportCronTemplates, own) || slices.ContainsFunc(c.Status.Images, func(i v1alpha1.Image) bool { return i.DataSource == source })
}

// importedFor are the architectures that a catalog imports an image for. keep is true while an error keeps its imports.
func importedFor(c *v1alpha1.GoldenImageCatalog, source string) (architectures []string, keep bool) {
	i := slices.IndexFunc(c.Status.Images, func(image v1alpha1.Image) bool { return image.DataSource == source })
	if i < 0 {
		return nil, true
	}
	image := &c.Status.Images[i]
	for _, of := range image.Imports {
		if of.Architecture != "" {
			architectures = append(architectures, of.Architecture)
		}
	}
	return architectures, len(image.Imports) == 0 && keptFor(image)
}

// keptFor reports whether an image without imports keeps its DataImportCrons.
func keptFor(image *v1alpha1.Image) bool {
	for _, c := range image.Conditions {
		if c.Type == goldenimages.Deployed {
			return c.Status != metav1.ConditionTrue && c.Reason != goldenimages.ReasonDisabled && c.Reason != goldenimages.ReasonUnsupported
		}
	}
	return true
}

// Name is the name of a variant.
func Name(source, architecture string) string { return goldenimages.Suffixed(source, architecture) }

// SourceName is the name of the VM template that a variant has been made of.
func SourceName(variant string) string {
	for _, architecture := range architectures.Names() {
		if name, found := strings.CutSuffix(variant, "-"+architecture); found {
			return name
		}
	}
	return variant
}

// Write is a write of a variant.
type Write struct {
	Verb   goldenimages.Verb
	Object *v1beta1.VirtualMachineTemplate
}

// Plan plans the variant of an architecture. existing is the template of that name, or nil.
func (v *Variants) Plan(architecture string, existing *v1beta1.VirtualMachineTemplate) (*Write, *Fault) {
	own := existing != nil && existing.Labels[v1alpha1.VariantLabel] != "" && metav1.IsControlledBy(existing, v.source)
	wanted := slices.Contains(v.Architectures, architecture)
	switch {
	case v.Keep, existing == nil && !wanted, existing != nil && existing.DeletionTimestamp != nil, existing != nil && !own && !wanted:
		return nil, nil
	case existing != nil && !own:
		return nil, &Fault{goldenimages.ReasonNameTaken, fmt.Sprintf("the template %q exists, and is not a variant of this one", existing.Name)}
	case !wanted:
		return &Write{goldenimages.Delete, existing}, nil
	}
	variant, err := v.variant(architecture)
	switch {
	case err != nil:
		return nil, &Fault{ReasonInvalid, fmt.Sprintf("%s: %s", architecture, err)}
	case existing == nil:
		return &Write{goldenimages.Create, variant}, nil
	case same(existing, variant) && goldenimages.Contains(existing.Labels, variant.Labels) && goldenimages.Contains(existing.Annotations, variant.Annotations):
		return nil, nil
	}
	changed := existing.DeepCopy()
	changed.Spec = variant.Spec
	changed.Labels, changed.Annotations = goldenimages.Merged(existing.Labels, variant.Labels), goldenimages.Merged(existing.Annotations, variant.Annotations)
	return &Write{goldenimages.Update, changed}, nil
}

// same reports whether two templates have the same spec.
func same(a, b *v1beta1.VirtualMachineTemplate) bool {
	x, err := parse(a)
	y, err2 := parse(b)
	return err == nil && err2 == nil && reflect.DeepEqual(x.vm, y.vm) && equality.Semantic.DeepEqual(a.Spec.Parameters, b.Spec.Parameters) && a.Spec.Message == b.Spec.Message
}

// variant is the template for an architecture.
func (v *Variants) variant(architecture string) (*v1beta1.VirtualMachineTemplate, error) {
	t, err := parse(v.source)
	if err != nil {
		return nil, err
	}
	name := Name(v.source.Name, architecture)
	if len(name) > maxTemplateName {
		return nil, fmt.Errorf("the name %q has more than %d characters", name, maxTemplateName)
	}
	spec := t.forArchitecture(v.image, architecture, preferenceOf(v.source, architecture))
	variant := &v1beta1.VirtualMachineTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "VirtualMachineTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.source.Namespace, Name: name, Labels: inherited(v.source.Labels), Annotations: inherited(v.source.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(v.source, v1beta1.GroupVersion.WithKind("VirtualMachineTemplate"))},
		},
	}
	maps.Copy(variant.Labels, map[string]string{
		v1alpha1.VariantLabel: "true", v1alpha1.ArchitectureLabel: architecture, v1alpha1.DataSourceNameLabel: v.image, "app.kubernetes.io/managed-by": "virtward",
	})
	if _, found := variant.Labels[commonArchitecture]; found {
		variant.Labels[commonArchitecture] = architecture
	}
	if text := variant.Annotations["description"]; text != "" {
		variant.Annotations["description"] = text + " (" + architecture + ")"
	}
	variant.Spec, err = spec.written()
	return variant, err
}

// commonArchitecture is the label of common templates with their architecture.
const commonArchitecture = "template.virtward.io/architecture"

// inherited are the labels or annotations that a variant gets of its template. Those of tools that install and compare
// objects would make the tool delete the variant.
func inherited(of map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range of {
		domain, _, _ := strings.Cut(key, "/")
		foreign := slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "helm.sh", "argoproj.io", "fluxcd.io", "image.virtward.io"}, func(d string) bool {
			return domain == d || strings.HasSuffix(domain, "."+d)
		})
		if !foreign && key != v1beta1.LabelRequestUID {
			kept[key] = value
		}
	}
	return kept
}

// preferenceOf is the preference of a variant; empty for that of the template.
func preferenceOf(source *v1beta1.VirtualMachineTemplate, architecture string) string {
	for pair := range strings.SplitSeq(source.Annotations[v1alpha1.PreferencesAnnotation], ",") {
		if of, name, found := strings.Cut(pair, "="); found && goldenimages.ParsePlatform(of).Normalized().String() == architecture {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// parsed is the spec of a VM template.
type parsed struct {
	vm         map[string]any
	parameters []v1beta1.Parameter
	message    string
	namespace  string
}

// parse reads the virtual machine of a template, with new maps and a copy of the parameters.
func parse(t *v1beta1.VirtualMachineTemplate) (*parsed, error) {
	p := &parsed{message: t.Spec.Message, namespace: t.Namespace}
	if t.Spec.VirtualMachine == nil {
		return nil, errors.New("is missing")
	}
	if err := decode.Object(t.Spec.VirtualMachine.Raw, reflect.TypeFor[any]()); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(t.Spec.VirtualMachine.Raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&p.vm); err != nil {
		return nil, err
	}
	for i := range t.Spec.Parameters {
		p.parameters = append(p.parameters, *t.Spec.Parameters[i].DeepCopy())
	}
	return p, nil
}

func (p *parsed) written() (v1beta1.VirtualMachineTemplateSpec, error) {
	raw, err := json.Marshal(p.vm)
	return v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &runtime.RawExtension{Raw: raw}, Parameters: p.parameters, Message: p.message}, err
}

// clones returns the namespace from which the virtual machine clones a DataSource.
func (p *parsed) clones(source string) (namespace string, found bool) {
	for _, ref := range p.sourceRefs() {
		if p.value(ref["name"]) == source {
			if namespace = p.value(ref["namespace"]); namespace == "" {
				namespace = p.namespace
			}
			return namespace, true
		}
	}
	return "", false
}

// sourceRefs are the references to DataSources.
func (p *parsed) sourceRefs() []map[string]any {
	var refs []map[string]any
	list, _ := within(p.vm, "spec")["dataVolumeTemplates"].([]any)
	for _, item := range list {
		volume, _ := item.(map[string]any)
		if ref := within(volume, "spec", "sourceRef"); ref != nil && strings.EqualFold(p.value(ref["kind"]), "DataSource") {
			refs = append(refs, ref)
		}
	}
	return refs
}

// within returns an object in an object; nil if there is none.
func within(object map[string]any, fields ...string) map[string]any {
	for _, field := range fields {
		object, _ = object[field].(map[string]any)
	}
	return object
}

// forArchitecture changes the template: the DataSource of the architecture, the architecture, and the preference.
func (p *parsed) forArchitecture(source, architecture, preference string) *parsed {
	for _, ref := range p.sourceRefs() {
		if p.value(ref["name"]) == source {
			p.set(ref, "name", goldenimages.Suffixed(source, architecture))
		}
	}
	spec := within(p.vm, "spec")
	if inner := within(spec, "template", "spec"); inner != nil {
		p.set(inner, "architecture", architecture)
	}
	if chosen := within(spec, "preference"); chosen != nil && preference != "" {
		p.set(chosen, "name", preference)
	}
	return p
}

// value is a text, or the default of the parameter that it is.
func (p *parsed) value(of any) string {
	text, _ := of.(string)
	if parameter := p.parameter(text); parameter != nil {
		return parameter.Value
	}
	return text
}

// set sets a field, or the default of the parameter that it is.
func (p *parsed) set(object map[string]any, field, value string) {
	text, _ := object[field].(string)
	parameter := p.parameter(text)
	if parameter == nil {
		object[field] = value
		return
	}
	if i := slices.Index(parameter.Enum, parameter.Value); i >= 0 && !slices.Contains(parameter.Enum, value) {
		parameter.Enum[i] = value
	}
	parameter.Value = value
}

// parameter is that of a text such as ${NAME}; nil if the text is none.
func (p *parsed) parameter(text string) *v1beta1.Parameter {
	name, found := strings.CutPrefix(text, "${")
	name, closed := strings.CutSuffix(name, "}")
	if !found || !closed {
		return nil
	}
	if inner, doubled := strings.CutPrefix(name, "{"); doubled {
		name = strings.TrimSuffix(inner, "}")
	}
	if i := slices.IndexFunc(p.parameters, func(q v1beta1.Parameter) bool { return q.Name == name }); i >= 0 {
		return &p.parameters[i]
	}
	return nil
}

// Named is an entry with its names only.
func Named(e *v1alpha1.DataImportCronTemplate) v1alpha1.DataImportCronTemplate {
	named := v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: e.Name}}
	if e.Spec != nil {
		named.Spec = &cdiv1beta1.DataImportCronSpec{ManagedDataSource: e.Spec.ManagedDataSource}
	}
	return named
}

// Condensed is the state of an image with what decides about variants.
func Condensed(image *v1alpha1.Image) v1alpha1.Image {
	kept := v1alpha1.Image{Name: image.Name, DataSource: image.DataSource}
	for _, c := range image.Conditions {
		if c.Type == goldenimages.Deployed {
			kept.Conditions = append(kept.Conditions, metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	for _, of := range image.Imports {
		kept.Imports = append(kept.Imports, v1alpha1.Import{Architecture: of.Architecture, DataImportCron: of.DataImportCron, DataSource: of.DataSource})
	}
	return kept
}
