package cli

import (
	"github.com/virtward/virtward/platform"
)

// assume lays the hypervisor and the architecture of the command line over the facts.
func (o *sources) assume(facts *platform.Facts) (*platform.Facts, error) {
	if o.hypervisor != "" && o.hypervisor != facts.Hypervisor.ConfiguredName {
		h, err := platform.HypervisorByName(o.hypervisor)
		if err != nil {
			return nil, usageError{err}
		}
		facts = facts.WithHypervisor(withModel(h, o.settings.MSHVCPUModel))
		facts.Notes = nil // they say why VMs run on another one
		facts.Source += ", --hypervisor " + o.hypervisor
	}
	if o.architecture != "" && o.architecture != facts.DefaultArchitecture {
		facts = facts.WithDefaultArchitecture(o.architecture)
		facts.Source += ", --arch " + o.architecture
	}
	return facts, nil
}

// withModel applies the setting for mshv's CPU model to a hypervisor that was not read from a KubeVirt object.
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
