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
	return validators.Scoped(validators.OnSpec, coresRule)
}

// maxCores is what a socket may have.
const maxCores = 64

var coresRule = validators.Rule{
	ID:     "sample-cores",
	Title:  "A socket has at most 64 cores on sample",
	Remedy: "Use more sockets of fewer cores.",
	Check:  cores,
}

func cores(s *validators.Subject, found *validators.Errors) {
	if cpu := s.Spec.Domain.CPU; cpu != nil && cpu.Cores > maxCores {
		found.Add(field.Invalid(s.Domain().Child("cpu", "cores"), cpu.Cores, fmt.Sprintf("sample has at most %d cores in a socket", maxCores)))
	}
}
