package mutators

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// sitePrefix begins the names of the site's layers.
const sitePrefix = "site/"

// SiteLayer names the layer of a VirtualMachineDefaults.
func SiteLayer(name string) string { return sitePrefix + name }

// IsSiteLayer reports whether a layer is that of a VirtualMachineDefaults.
func IsSiteLayer(layer string) bool { return strings.HasPrefix(layer, sitePrefix) }

// Scheduling reports whether a field, given relative to the spec, is one that KubeVirt keeps the same in a VM and in
// the VMI that runs from it: KubeVirt would remove it if only the VMI had it.
func Scheduling(path string) bool {
	for _, name := range []string{"nodeSelector", "affinity", "tolerations"} {
		if fieldpath.Within(path, name) {
			return true
		}
	}
	return false
}

// SiteDefaults are one VirtualMachineDefaults, compiled: a layer of its own, that comes before the built-in ones.
// The value is immutable and safe for concurrent use.
type SiteDefaults struct {
	layer string
	// namespaces and objects select by labels; nil selects everything.
	namespaces, objects         labels.Selector
	hypervisors, architectures  []string
	template                    *v1.VirtualMachineInstanceSpec
	fields                      []siteField
	groups                      groups
	limitsSockets, limitsMemory bool
}

// Layer is the name under which the fields it fills are recorded.
func (s *SiteDefaults) Layer() string { return s.layer }

// NewSiteDefaults compiles an object. The errors name its fields; with errors there is nothing to use.
func NewSiteDefaults(object *policyv1alpha1.VirtualMachineDefaults) (*SiteDefaults, field.ErrorList) {
	s := &SiteDefaults{layer: SiteLayer(object.Name), hypervisors: object.Spec.Match.Hypervisors}
	for _, architecture := range object.Spec.Match.Architectures {
		s.architectures = append(s.architectures, string(architecture))
	}
	match, path := &object.Spec.Match, field.NewPath("spec", "match")
	var errs field.ErrorList
	s.namespaces, errs = compileSelector(match.NamespaceSelector, path.Child("namespaceSelector"), errs)
	s.objects, errs = compileSelector(match.ObjectSelector, path.Child("objectSelector"), errs)
	template, wrong := readTemplate(object.Spec.Template.Raw, field.NewPath("spec", "template"))
	if errs = append(errs, wrong...); len(errs) > 0 {
		return nil, errs
	}
	if template.Architecture != "" && len(s.architectures) > 0 {
		return nil, append(errs, field.Forbidden(field.NewPath("spec", "template", "architecture"),
			"defaults for some architectures cannot choose the architecture: leave out spec.match.architectures"))
	}
	s.template = template
	s.fields = fieldsIn(template)
	s.groups = groupsOf(s.fields)
	s.limitsSockets = template.Domain.CPU != nil && template.Domain.CPU.MaxSockets != 0
	s.limitsMemory = template.Domain.Memory != nil && template.Domain.Memory.MaxGuest != nil
	return s, nil
}

// compileSelector leaves a selector nil that selects everything.
func compileSelector(selector *metav1.LabelSelector, path *field.Path, errs field.ErrorList) (labels.Selector, field.ErrorList) {
	if selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0 {
		return nil, errs
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return compiled, errs
}

// selects reports whether a virtual machine gets the defaults, if its namespace is selected.
func (s *SiteDefaults) selects(object labels.Set, hypervisor, architecture string) bool {
	return (len(s.hypervisors) == 0 || slices.Contains(s.hypervisors, hypervisor)) &&
		(len(s.architectures) == 0 || slices.Contains(s.architectures, architecture)) &&
		(s.objects == nil || s.objects.Matches(object))
}

// Site are all VirtualMachineDefaults of a cluster, compiled. The value is immutable and safe for concurrent use;
// nil says that there are none.
type Site struct {
	// selected select namespaces, in the order of their names; everywhere do not.
	selected, everywhere []SiteDefaults
}

// NewSite compiles objects. One that cannot be used is left out, and told in the notes; it never affects another.
// The order of the objects does not matter.
func NewSite(objects ...policyv1alpha1.VirtualMachineDefaults) (*Site, []string) {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b policyv1alpha1.VirtualMachineDefaults) int { return cmp.Compare(a.Name, b.Name) })
	site := &Site{}
	var notes []string
	for i := range sorted {
		compiled, errs := NewSiteDefaults(&sorted[i])
		switch {
		case len(errs) > 0:
			all := make([]error, 0, len(errs))
			for _, err := range errs {
				all = append(all, err)
			}
			notes = append(notes, fmt.Sprintf("VirtualMachineDefaults %s has no effect: %s", sorted[i].Name, strings.ReplaceAll(errors.Join(all...).Error(), "\n", "; ")))
		case compiled.namespaces != nil:
			site.selected = append(site.selected, *compiled)
		default:
			site.everywhere = append(site.everywhere, *compiled)
		}
	}
	return site, notes
}

// SelectsNamespaces reports whether the labels of a namespace matter to For.
func (s *Site) SelectsNamespaces() bool { return s != nil && len(s.selected) > 0 }

// For are the defaults in a namespace with the given labels, in the order in which they fill: those that select
// the namespace come first. Nil labels are for an object without a namespace, which no selector selects. The
// result is shared: do not change it.
func (s *Site) For(namespace labels.Set) []SiteDefaults {
	if s == nil {
		return nil
	}
	if namespace == nil || len(s.selected) == 0 {
		return s.everywhere
	}
	var matching []SiteDefaults
	for i := range s.selected {
		if s.selected[i].namespaces.Matches(namespace) {
			matching = append(matching, s.selected[i])
		}
	}
	if matching == nil {
		return s.everywhere
	}
	return append(matching, s.everywhere...)
}

// SiteFill is a spec that the site's layers fill, and what is known of it.
type SiteFill struct {
	// Facts of the cluster. Read-only.
	Facts *platform.Facts
	// Spec is filled in place.
	Spec *v1.VirtualMachineInstanceSpec
	// Beside is the spec together with what its author chose elsewhere; nil for nothing. A field that has a value
	// there is not filled. Read-only.
	Beside *v1.VirtualMachineInstanceSpec
	// Labels are those that the virtual machine runs with.
	Labels labels.Set
	// Leave reports whether a field, relative to the spec, is never filled; nil for none.
	Leave func(path string) bool
	// Recorder notes every change. Its paths are relative to the spec.
	Recorder *provenance.Recorder
}

// FillSite fills zero fields of a spec, each from the first of some defaults that has it.
func FillSite(site []SiteDefaults, fill SiteFill) {
	if len(site) == 0 {
		return
	}
	architecture := fill.architecture(site)
	var bounding []*SiteDefaults
	for i := range site {
		s := &site[i]
		if !s.selects(fill.Labels, fill.Facts.Hypervisor.Name, architecture) {
			continue
		}
		fill.Recorder.SetLayer(s.layer)
		newFilling(&fill, s).run(s)
		if s.limitsSockets || s.limitsMemory {
			bounding = append(bounding, s)
		}
	}
	for _, s := range bounding {
		fill.Recorder.SetLayer(s.layer)
		fill.bounds(s, architecture)
	}
}

// architecture is the one that the spec has or will get. Defaults for some architectures cannot say one.
func (f *SiteFill) architecture(site []SiteDefaults) string {
	if a := f.Spec.Architecture; a != "" {
		return a
	}
	for i := range site {
		s := &site[i]
		if s.template.Architecture != "" && s.selects(f.Labels, f.Facts.Hypervisor.Name, "") {
			return s.template.Architecture
		}
	}
	return f.Facts.DefaultArchitecture
}

// leaves reports whether a field is never filled.
func (f *SiteFill) leaves(path string) bool { return f.Leave != nil && f.Leave(path) }
