package kvm

import (
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
)

// Defaults completes VMs for kvm.
type Defaults struct {
	*mutators.BaseDefaults
}

// NewDefaults builds the provider for kvm and an architecture.
func NewDefaults(architecture string) (*Defaults, error) {
	base, err := mutators.NewBaseDefaults(architecture,
		mutators.Layer{Name: platform.KVM},
		mutators.Layer{Name: platform.KVM + "/" + architecture})
	if err != nil {
		return nil, err
	}
	return &Defaults{BaseDefaults: base}, nil
}
