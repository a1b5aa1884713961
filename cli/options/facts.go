package options

import (
	"github.com/virtward/virtward/platform"
)

// Assume replaces the hypervisor and the architecture of the facts by those of the command line.
func (s *Sources) Assume(facts *platform.Facts) (*platform.Facts, error) {
	if s.Hypervisor != "" && s.Hypervisor != facts.Hypervisor.ConfiguredName {
		h, err := platform.HypervisorByName(s.Hypervisor)
		if err != nil {
			return nil, usageError{err}
		}
		facts = facts.WithHypervisor(withModel(h, s.Settings.MSHVCPUModel))
		facts.Notes = nil // they are about the hypervisor of the KubeVirt object
		facts.Source += ", --hypervisor " + s.Hypervisor
	}
	if s.Architecture != "" && s.Architecture != facts.DefaultArchitecture {
		facts = facts.WithDefaultArchitecture(s.Architecture)
		facts.Source += ", --arch " + s.Architecture
	}
	return facts, nil
}

// withModel sets the CPU model of mshv for a hypervisor that was not read from a KubeVirt object.
func withModel(h platform.Hypervisor, model string) platform.Hypervisor {
	switch {
	case h.Name != platform.MSHV || model == "" || model == "auto":
	case model == "none":
		h.CPUModel = ""
	default:
		h.CPUModel = model
	}
	return h
}
