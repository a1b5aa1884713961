package hypervisors

import (
	"fmt"
	"slices"

	"github.com/virtward/virtward/hypervisors/kvm"
	"github.com/virtward/virtward/hypervisors/mshv"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
)

// Hypervisor is what a folder under hypervisors/ contributes.
type Hypervisor struct {
	// Name is the one that platform.Facts uses: kvm, mshv.
	Name string
	// Defaults makes the provider for an architecture.
	Defaults func(architecture string) (mutators.DefaultsProvider, error)
}

// BuiltIn are the hypervisors of this repository.
func BuiltIn() []Hypervisor {
	return []Hypervisor{
		{Name: platform.KVM, Defaults: func(arch string) (mutators.DefaultsProvider, error) { return kvm.NewDefaults(arch) }},
		{Name: platform.MSHV, Defaults: func(arch string) (mutators.DefaultsProvider, error) { return mshv.NewDefaults(arch) }},
	}
}

// Registry finds providers by hypervisor and architecture. It is immutable and safe for concurrent use.
type Registry struct {
	defaults map[string]mutators.DefaultsProvider
}

// NewRegistry builds every provider of the given hypervisors. A name given twice is an error.
func NewRegistry(hypervisors ...Hypervisor) (*Registry, error) {
	r := &Registry{defaults: map[string]mutators.DefaultsProvider{}}
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
			r.defaults[key] = provider
		}
	}
	return r, nil
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
	if !slices.Contains(mutators.Architectures(), architecture) {
		architecture = platform.AMD64
	}
	provider, ok := r.defaults[Key(hypervisor, architecture)]
	if !ok {
		return nil, fmt.Errorf("no hypervisor is registered under %s: the keys are %v", Key(hypervisor, architecture), r.Keys())
	}
	return provider, nil
}
