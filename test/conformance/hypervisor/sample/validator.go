package sample

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/validators"
)

// Validator checks VMs for sample.
type Validator struct {
	*validators.BaseValidator
}

// NewValidator builds the validator for sample and an architecture: the shared rules, those of the capability
// table, and one that no line of it could say.
func NewValidator(architecture string) (*Validator, error) {
	base, err := validators.NewBaseValidator(architecture, Support().For(Name, architecture).Rules(), rules())
	if err != nil {
		return nil, err
	}
	return &Validator{BaseValidator: base}, nil
}

func rules() validators.Table {
	return validators.Table{{
		ID: "sample-cores", Title: "A socket has at most 64 cores on sample", Scope: validators.OnSpec,
		Remedy: "Use more sockets of fewer cores.", Check: cores,
	}}
}

// maxCores is what a socket may have.
const maxCores = 64

func cores(s *validators.Subject) field.ErrorList {
	cpu := s.Spec.Domain.CPU
	if cpu == nil || cpu.Cores <= maxCores {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Domain().Child("cpu", "cores"), cpu.Cores, fmt.Sprintf("sample has at most %d cores in a socket", maxCores))}
}
