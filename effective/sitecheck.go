package effective

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// CheckDefaults says what is wrong with a VirtualMachineDefaults: what cannot be read, and what would make the
// checks reject virtual machines. These are tried out, with the facts and the severities active, on one that says
// nothing and on one that says what most do, for each hypervisor and architecture that the defaults are for; of the
// hypervisors that the cluster does not have, as KubeVirt itself names them. The error of the second kind is about
// the call.
func (p *Pipeline) CheckDefaults(object *policyv1alpha1.VirtualMachineDefaults, facts *platform.Facts, severities validators.Severities) (field.ErrorList, error) {
	platforms, errs := p.platformsOf(&object.Spec.Match)
	everywhere := object.DeepCopy() // what its selectors have to say was checked
	everywhere.Spec.Match = policyv1alpha1.DefaultsMatch{Architectures: object.Spec.Match.Architectures}
	_, wrong := mutators.NewSiteDefaults(everywhere)
	if errs = append(errs, wrong...); len(errs) > 0 {
		return errs, nil
	}
	everywhere.Spec.Match.Architectures = nil
	defaults, errs := mutators.NewSiteDefaults(everywhere)
	if len(errs) > 0 {
		return errs, nil
	}
	t := trial{pipeline: p, site: []mutators.SiteDefaults{*defaults}, severities: severities}
	if err := json.Unmarshal(object.Spec.Template.Raw, &t.template); err != nil {
		return nil, fmt.Errorf("reading the template of %s: %w", object.Name, err)
	}
	for _, key := range platforms {
		if err := t.on(key, facts); err != nil {
			return nil, err
		}
	}
	return t.errors(), nil
}

// platformsOf are the pairs of hypervisor and architecture that a match names, as keys; all of them if it names none.
func (p *Pipeline) platformsOf(match *policyv1alpha1.DefaultsMatch) (keys []string, errs field.ErrorList) {
	path := field.NewPath("spec", "match")
	errs = append(errs, validators.CheckSelector(match.NamespaceSelector, path.Child("namespaceSelector"))...)
	errs = append(errs, validators.CheckSelector(match.ObjectSelector, path.Child("objectSelector"))...)
	var known []string
	for _, key := range p.hypervisors.Keys() {
		hypervisor, architecture, _ := strings.Cut(key, "/")
		if !slices.Contains(known, hypervisor) {
			known = append(known, hypervisor)
		}
		if (len(match.Hypervisors) == 0 || slices.Contains(match.Hypervisors, hypervisor)) &&
			(len(match.Architectures) == 0 || slices.Contains(match.Architectures, policyv1alpha1.PolicyArchitecture(architecture))) {
			keys = append(keys, key)
		}
	}
	for i, name := range match.Hypervisors {
		if !slices.Contains(known, name) {
			errs = append(errs, field.NotSupported(path.Child("hypervisors").Index(i), name, known))
		}
	}
	for i, name := range match.Architectures {
		if !architectures.Known(string(name)) {
			errs = append(errs, field.NotSupported(path.Child("architectures").Index(i), string(name), architectures.Names()))
		}
	}
	return keys, errs
}

// trial completes and checks virtual machines with defaults and without.
type trial struct {
	pipeline   *Pipeline
	site       []mutators.SiteDefaults
	severities validators.Severities
	// template is what the object says, as nested fields.
	template map[string]any

	found []trialFinding
}

// trialFinding is a finding that only the virtual machine with the defaults has.
type trialFinding struct {
	validators.Finding

	// platforms are those that it was found on.
	platforms []string
}

// on tries one platform.
func (t *trial) on(key string, facts *platform.Facts) error {
	hypervisor, architecture, _ := strings.Cut(key, "/")
	if facts.Hypervisor.Name != hypervisor {
		facts = facts.WithHypervisor(hypervisorNamed(hypervisor))
	}
	facts = facts.WithDefaultArchitecture(architecture)
	for _, probe := range probes() {
		without, err := t.pipeline.Decide(Input{VM: probe, Facts: facts, Severities: t.severities})
		if err != nil {
			return err
		}
		with, err := t.pipeline.Decide(Input{VM: probe, Facts: facts, Severities: t.severities, Site: t.site})
		if err != nil {
			return err
		}
		for i := range with.Findings {
			if f := &with.Findings[i]; f.Severity == validators.Deny && !slices.ContainsFunc(without.Findings, sameAs(f)) {
				t.add(f, key)
			}
		}
	}
	return nil
}

// sameAs reports whether a finding is that of another virtual machine.
func sameAs(f *validators.Finding) func(validators.Finding) bool {
	return func(other validators.Finding) bool {
		return f.Rule == other.Rule && f.Error.Error() == other.Error.Error()
	}
}

func (t *trial) add(f *validators.Finding, key string) {
	i := slices.IndexFunc(t.found, func(known trialFinding) bool { return sameAs(f)(known.Finding) })
	if i < 0 {
		i = len(t.found)
		t.found = append(t.found, trialFinding{Finding: *f})
	}
	if !slices.Contains(t.found[i].platforms, key) {
		t.found[i].platforms = append(t.found[i].platforms, key)
	}
}

// errors puts what was found in terms of the object that holds the defaults.
func (t *trial) errors() (errs field.ErrorList) {
	for i := range t.found {
		f := &t.found[i]
		at, detail := t.locate(f.Error.Field), f.Error.ErrorBody()
		if !strings.HasSuffix(at, strings.TrimPrefix(f.Error.Field, templateSpec)) {
			detail = f.Error.Error()
		}
		errs = append(errs, &field.Error{
			Type: field.ErrorTypeInvalid, Field: at, BadValue: field.OmitValueType{},
			Detail: fmt.Sprintf("the rule %s rejects a virtual machine that gets this on %s: %s", f.Rule, strings.Join(f.platforms, ", "), detail),
		})
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

// locate is the field of the defaults that stands for one of the virtual machine: the nearest that they set.
func (t *trial) locate(path string) string {
	const template = "spec.template"
	rest, ok := strings.CutPrefix(path, templateSpec+".")
	if !ok {
		return template
	}
	var at any = t.template
	named := template
	for i, step := range fieldpath.Split(rest) {
		if at, _ = fieldpath.Step(at, step); at == nil {
			break
		}
		named = template + "." + fieldpath.Prefix(rest, i+1)
	}
	return named
}

// hypervisorNamed is a hypervisor that the cluster does not have.
func hypervisorNamed(name string) platform.Hypervisor {
	for _, configured := range platform.HypervisorNames() {
		if h, err := platform.HypervisorByName(configured); err == nil && h.Name == name {
			return h
		}
	}
	return platform.Hypervisor{Name: name, ConfiguredName: name}
}

// probes are virtual machines to try defaults out on.
func probes() []*v1.VirtualMachine {
	memory := resource.MustParse("2Gi")
	always := v1.RunStrategyAlways
	bare := &v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: k8sv1.NamespaceDefault, Name: "probe"},
		Spec:       v1.VirtualMachineSpec{RunStrategy: &always, Template: &v1.VirtualMachineInstanceTemplateSpec{}},
	}
	typical := bare.DeepCopy()
	spec := &typical.Spec.Template.Spec
	spec.Domain.CPU = &v1.CPU{Cores: 2}
	spec.Domain.Memory = &v1.Memory{Guest: &memory}
	spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "registry.example/disk:1"}}}}
	spec.Domain.Devices.Disks = []v1.Disk{{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}}}
	return []*v1.VirtualMachine{bare, typical}
}
