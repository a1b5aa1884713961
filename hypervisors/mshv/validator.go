package mshv

import (
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Validator checks VMs for mshv.
type Validator struct {
	*validators.BaseValidator
}

// NewValidator builds the validator for mshv and an architecture.
func NewValidator(architecture string) (*Validator, error) {
	base, err := validators.NewBaseValidator(architecture, Support().For(platform.MSHV, architecture).Rules())
	if err != nil {
		return nil, err
	}
	return &Validator{BaseValidator: base}, nil
}
