package kvm

import "github.com/virtward/virtward/validators"

// Validator checks VMs for kvm: what holds for every hypervisor, and nothing else.
type Validator struct {
	*validators.BaseValidator
}

// NewValidator builds the validator for kvm and an architecture.
func NewValidator(architecture string) (*Validator, error) {
	base, err := validators.NewBaseValidator(architecture)
	if err != nil {
		return nil, err
	}
	return &Validator{BaseValidator: base}, nil
}
