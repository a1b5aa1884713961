package kvm

import "github.com/virtward/virtward/domain"

// Converter makes the domains of kvm.
type Converter struct {
	*domain.BaseConverter
}

// NewConverter builds the converter for kvm and an architecture.
func NewConverter(architecture string) *Converter {
	base := domain.NewBaseConverter(architecture)
	virtType := base.HypervisorConfigurator
	base.HypervisorConfigurator = func(b *domain.Build) error {
		if b.EmulateArchitecture() {
			return nil
		}
		return virtType(b)
	}
	// KVM reports these through its device, and KubeVirt labels nodes with them.
	base.HypervFeatures = []string{"frequencies", "ipi", "reenlightenment", "reset", "runtime", "stimer", "synic", "tlbflush", "vpindex"}
	return &Converter{BaseConverter: base}
}
