package hypervisors

//go:generate go run ./gen ../docs/hypervisors.md

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/hypervisors/kvm"
	"github.com/virtward/virtward/hypervisors/mshv"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/nodetuning"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Hypervisor is what a folder under hypervisors/ contributes.
type Hypervisor struct {
	// Name is the one that platform.Facts uses: kvm, mshv.
	Name string
	// Defaults makes the provider for an architecture, and Validator the validator.
	Defaults  func(architecture string) (mutators.DefaultsProvider, error)
	Validator func(architecture string) (validators.Validator, error)
	// Converter makes the converter for an architecture; nil for domain.BaseConverter.
	Converter func(architecture string) domain.Converter
	// Launcher makes the renderer of the launcher's pod for an architecture: the memory overhead and the devices. It is nil for a
	// hypervisor whose launchers need what all launchers need, and the device of the facts.
	Launcher func(architecture string) launcher.ResourceRenderer
	// Labeller makes the labeller of nodes for an architecture, from one of the hypervisor's names in the KubeVirt resource, and the
	// devices that its pods can request. It is nil for a hypervisor with the labels that all hypervisors have.
	Labeller func(form platform.Hypervisor, architecture string, devices []launcher.DeviceRequest) nodelabels.Labeller
	// Tuner makes the tuner of processes on nodes for an architecture, with the renderer of pods. It is nil for a hypervisor whose
	// processes are tuned as those of kvm, and is never used where virt-handler tunes them.
	Tuner func(architecture string, renderer launcher.ResourceRenderer) nodetuning.DomainTuner
	// Support are its own lines of the capability table: what it lacks, or has with a proviso. Those that make
	// rules do so in its Validator.
	Support validators.SupportTable
}

// BuiltIn are the hypervisors of this repository.
func BuiltIn() []Hypervisor {
	return []Hypervisor{
		{
			Name:      platform.KVM,
			Defaults:  func(arch string) (mutators.DefaultsProvider, error) { return kvm.NewDefaults(arch) },
			Validator: func(arch string) (validators.Validator, error) { return kvm.NewValidator(arch) },
			Converter: func(arch string) domain.Converter { return kvm.NewConverter(arch) },
			Labeller: func(form platform.Hypervisor, arch string, devices []launcher.DeviceRequest) nodelabels.Labeller {
				return kvm.NewLabeller(form, arch, devices)
			},
		},
		{
			Name:      platform.MSHV,
			Defaults:  func(arch string) (mutators.DefaultsProvider, error) { return mshv.NewDefaults(arch) },
			Validator: func(arch string) (validators.Validator, error) { return mshv.NewValidator(arch) },
			Support:   mshv.Support(),
		},
	}
}

// Registry finds providers, validators and converters by hypervisor and architecture. It is immutable and safe for
// concurrent use.
type Registry struct {
	defaults   map[string]mutators.DefaultsProvider
	validators map[string]validators.Validator
	converters map[string]domain.Converter
	launchers  map[string]launcher.ResourceRenderer
	// labellers are by the name of the hypervisor; without an entry for one with the common labels.
	labellers map[string]func(platform.Hypervisor, string, []launcher.DeviceRequest) nodelabels.Labeller
	// tuners are by the name of the hypervisor; without an entry for one with the common tuner.
	tuners  map[string]func(string, launcher.ResourceRenderer) nodetuning.DomainTuner
	rules   validators.Table
	support validators.SupportTable
}

// NewRegistry builds the providers and validators of the given hypervisors. A name given twice is an error,
// and so are two rules that say different things under one id, and a line of the capability table that is not
// whole, or whose rule its platform does not check.
func NewRegistry(hypervisors ...Hypervisor) (*Registry, error) {
	r := &Registry{
		defaults: map[string]mutators.DefaultsProvider{}, validators: map[string]validators.Validator{},
		converters: map[string]domain.Converter{}, launchers: map[string]launcher.ResourceRenderer{},
		tuners:    map[string]func(string, launcher.ResourceRenderer) nodetuning.DomainTuner{},
		labellers: map[string]func(platform.Hypervisor, string, []launcher.DeviceRequest) nodelabels.Labeller{},
		support:   validators.BaseSupport(),
	}
	for _, h := range hypervisors {
		for _, arch := range architectures.Names() {
			key := Key(h.Name, arch)
			if _, taken := r.defaults[key]; taken {
				return nil, fmt.Errorf("two hypervisors are registered under %s", key)
			}
			provider, err := h.Defaults(arch)
			if err != nil {
				return nil, fmt.Errorf("building the defaults of %s: %w", key, err)
			}
			validator, err := h.Validator(arch)
			if err != nil {
				return nil, fmt.Errorf("building the validator of %s: %w", key, err)
			}
			r.defaults[key], r.validators[key], r.converters[key], r.launchers[key] = provider, validator, h.converter(arch), rendererOf(&h, arch)
		}
		if h.Tuner != nil {
			r.tuners[h.Name] = h.Tuner
		}
		if h.Labeller != nil {
			r.labellers[h.Name] = h.Labeller
		}
		if err := r.addSupport(h); err != nil {
			return nil, err
		}
	}
	if err := r.collectRules(); err != nil {
		return nil, err
	}
	return r, r.checkSupport()
}

func (h *Hypervisor) converter(architecture string) domain.Converter {
	if h.Converter == nil {
		return domain.NewBaseConverter(architecture)
	}
	return h.Converter(architecture)
}

// rendererOf makes the renderer of a hypervisor.
func rendererOf(h *Hypervisor, architecture string) launcher.ResourceRenderer {
	if h.Launcher == nil {
		return launcher.NewBaseRenderer(architecture)
	}
	return h.Launcher(architecture)
}

// addSupport takes the lines of a hypervisor over. It speaks for itself only.
func (r *Registry) addSupport(h Hypervisor) error {
	for i := range h.Support {
		if line := &h.Support[i]; line.Hypervisor != h.Name {
			return fmt.Errorf("the hypervisor %s says of %s whether it has the capability %q", h.Name, line.Platform(), line.Capability.Name)
		}
	}
	r.support = append(r.support, h.Support...)
	return nil
}

// checkSupport holds the capability table to what is checked.
func (r *Registry) checkSupport() error {
	if err := r.support.Validate(); err != nil {
		return fmt.Errorf("the capability table: %w", err)
	}
	for _, key := range r.Keys() {
		hypervisor, architecture, _ := strings.Cut(key, "/")
		rules := map[string]bool{}
		for _, rule := range r.validators[key].Rules() {
			rules[rule.ID] = true
		}
		for _, line := range r.Support(hypervisor, architecture) {
			if line.Rule != "" && !rules[line.Rule] {
				return fmt.Errorf("the capability %q of %s has the rule %s, which %s does not check", line.Capability.Name, line.Platform(), line.Rule, key)
			}
		}
	}
	return nil
}

// collectRules lists the rules of every validator, each once, in the order of the keys.
func (r *Registry) collectRules() error {
	seen := map[string]validators.Rule{}
	for _, key := range r.Keys() {
		for _, rule := range r.validators[key].Rules() {
			before, taken := seen[rule.ID]
			if taken && (before.Title != rule.Title || before.Remedy != rule.Remedy || before.Severity != rule.Severity || before.Security != rule.Security) {
				return fmt.Errorf("%s has another rule %s than the hypervisors before it: %q, not %q", key, rule.ID, rule.Title, before.Title)
			}
			if !taken {
				seen[rule.ID] = rule
				r.rules = append(r.rules, rule)
			}
		}
	}
	return nil
}

// Key is what a provider is registered under: kvm/amd64.
func Key(hypervisor, architecture string) string { return hypervisor + "/" + architecture }

// Keys are all keys, sorted.
func (r *Registry) Keys() []string {
	keys := make([]string, 0, len(r.defaults))
	for k := range r.defaults {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Defaults finds the provider for a pair. An architecture that is not known is completed as the default one, as
// KubeVirt does; a hypervisor that is not registered is an error.
func (r *Registry) Defaults(hypervisor, architecture string) (mutators.DefaultsProvider, error) {
	return find(r, r.defaults, hypervisor, architecture)
}

// Validator finds the validator for a pair, as Defaults does.
func (r *Registry) Validator(hypervisor, architecture string) (validators.Validator, error) {
	return find(r, r.validators, hypervisor, architecture)
}

// Converter finds the converter for a pair, as Defaults does.
func (r *Registry) Converter(hypervisor, architecture string) (domain.Converter, error) {
	return find(r, r.converters, hypervisor, architecture)
}

// Launcher finds the renderer of the launcher's pod for a pair, as Defaults does.
func (r *Registry) Launcher(hypervisor, architecture string) (launcher.ResourceRenderer, error) {
	return find(r, r.launchers, hypervisor, architecture)
}

// Labeller returns the labeller of nodes for one of a hypervisor's names in the KubeVirt resource, and an architecture. The form can
// have another device or domain type than the table of names.
func (r *Registry) Labeller(form platform.Hypervisor, architecture string) (nodelabels.Labeller, error) {
	renderer, err := r.Launcher(form.Name, architecture)
	if err != nil {
		return nil, err
	}
	devices := renderer.Devices(&platform.Facts{Hypervisor: form})
	if custom, found := r.labellers[form.Name]; found {
		return custom(form, architecture, devices), nil
	}
	return nodelabels.NewBaseLabeller(form, architecture, devices), nil
}

// Tuner returns the tuner of processes on nodes for one of a hypervisor's names in the KubeVirt resource, and an architecture. It
// returns an error for those that virt-handler tunes: there is never a second writer.
func (r *Registry) Tuner(form platform.Hypervisor, architecture string) (nodetuning.DomainTuner, error) {
	if nodetuning.TunedByKubeVirt(form.ConfiguredName) {
		return nil, fmt.Errorf("KubeVirt's virt-handler tunes the processes of %s itself", form.ConfiguredName)
	}
	renderer, err := r.Launcher(form.Name, architecture)
	if err != nil {
		return nil, err
	}
	if custom, found := r.tuners[form.Name]; found {
		return custom(architecture, renderer), nil
	}
	return nodetuning.NewBaseTuner(renderer), nil
}

// Labellers are those of all hypervisors, in the order of their names. Of the names of a hypervisor in the KubeVirt resource, the first
// one is its form, unless one of the given forms has it.
func (r *Registry) Labellers(architecture string, forms ...platform.Hypervisor) ([]nodelabels.Named, error) {
	for _, name := range platform.HypervisorNames() {
		form, err := platform.HypervisorByName(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(forms, func(f platform.Hypervisor) bool { return f.Name == form.Name }) {
			forms = append(forms, form)
		}
	}
	slices.SortStableFunc(forms, func(a, b platform.Hypervisor) int { return strings.Compare(a.Name, b.Name) })
	named := make([]nodelabels.Named, 0, len(forms))
	for _, form := range forms {
		if _, registered := r.defaults[Key(form.Name, architectures.Default)]; !registered {
			continue // a registry of a test has other hypervisors
		}
		labeller, err := r.Labeller(form, architecture)
		if err != nil {
			return nil, err
		}
		named = append(named, nodelabels.Named{Hypervisor: form.Name, Labeller: labeller})
	}
	return named, nil
}

func find[T any](r *Registry, registered map[string]T, hypervisor, architecture string) (T, error) {
	if !architectures.Known(architecture) {
		architecture = architectures.Default
	}
	found, ok := registered[Key(hypervisor, architecture)]
	if !ok {
		return found, fmt.Errorf("no hypervisor is registered under %s: the keys are %v", Key(hypervisor, architecture), r.Keys())
	}
	return found, nil
}

// Support are the lines of the capability table that hold for a pair. What they do not list is supported,
// or unknown.
func (r *Registry) Support(hypervisor, architecture string) validators.SupportTable {
	return r.support.For(hypervisor, architecture)
}

// Rules are those of every validator, each once. The table is for reading, not for checking: some of it
// holds for one hypervisor or architecture only.
func (r *Registry) Rules() validators.Table { return r.rules }
