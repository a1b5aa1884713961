package hypervisors

//go:generate go run ./gen ../docs/hypervisors.md

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtward/virtward/hypervisors/kvm"
	"github.com/virtward/virtward/hypervisors/mshv"
	"github.com/virtward/virtward/mutators"
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
		},
		{
			Name:      platform.MSHV,
			Defaults:  func(arch string) (mutators.DefaultsProvider, error) { return mshv.NewDefaults(arch) },
			Validator: func(arch string) (validators.Validator, error) { return mshv.NewValidator(arch) },
			Support:   mshv.Support(),
		},
	}
}

// Registry finds providers and validators by hypervisor and architecture. It is immutable and safe for
// concurrent use.
type Registry struct {
	defaults   map[string]mutators.DefaultsProvider
	validators map[string]validators.Validator
	rules      validators.Table
	support    validators.SupportTable
}

// NewRegistry builds the providers and validators of the given hypervisors. A name given twice is an error,
// and so are two rules that say different things under one id, and a line of the capability table that is not
// whole, or whose rule its platform does not check.
func NewRegistry(hypervisors ...Hypervisor) (*Registry, error) {
	r := &Registry{
		defaults: map[string]mutators.DefaultsProvider{}, validators: map[string]validators.Validator{},
		support: validators.BaseSupport(),
	}
	for _, h := range hypervisors {
		for _, arch := range mutators.Architectures() {
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
			r.defaults[key], r.validators[key] = provider, validator
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

// Defaults finds the provider for a pair. An architecture that is not known is completed as amd64, as
// KubeVirt does; a hypervisor that is not registered is an error.
func (r *Registry) Defaults(hypervisor, architecture string) (mutators.DefaultsProvider, error) {
	return find(r, r.defaults, hypervisor, architecture)
}

// Validator finds the validator for a pair, as Defaults does.
func (r *Registry) Validator(hypervisor, architecture string) (validators.Validator, error) {
	return find(r, r.validators, hypervisor, architecture)
}

func find[T any](r *Registry, registered map[string]T, hypervisor, architecture string) (T, error) {
	if !slices.Contains(mutators.Architectures(), architecture) {
		architecture = platform.AMD64
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
