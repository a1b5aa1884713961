package validators

import (
	"fmt"

	"github.com/virtward/virtward/api/architectures"
)

// Validator checks virtual machines for one hypervisor and architecture. It is VEP 97's interface, with a
// Subject where the VEP passes a field, a spec and KubeVirt's configuration, and with Findings, which know
// their rule, where it returns causes.
type Validator interface {
	// ValidateVirtualMachineSpec checks a VM around its template, and, with an OldVM, what changed in it.
	ValidateVirtualMachineSpec(s *Subject) []Finding
	// ValidateVirtualMachineInstanceSpec checks an effective spec and, with a VMI, the VMI around it.
	ValidateVirtualMachineInstanceSpec(s *Subject) []Finding
	// ValidateHotplug checks what changed from OldVMI to VMI.
	ValidateHotplug(s *Subject) []Finding
	// Rules lists what it checks, in order.
	Rules() Table
}

// BaseValidator is the implementation of Validator that every hypervisor embeds. What makes one differ from
// another are the tables it is built from. It is immutable and safe for concurrent use.
type BaseValidator struct {
	rules Table
}

// NewBaseValidator builds the validator for an architecture from the shared tables, those of the
// architecture, and those given: the hypervisor's own, and the hypervisor's for this architecture. An unknown
// architecture is checked as the default one. Two rules with one id are an error.
func NewBaseValidator(architecture string, hypervisor ...Table) (*BaseValidator, error) {
	base, err := Base()
	if err != nil {
		return nil, err
	}
	if !architectures.Known(architecture) {
		architecture = architectures.Default
	}
	rules, err := Join(append([]Table{base, ForArchitecture(architecture)}, hypervisor...)...)
	if err != nil {
		return nil, fmt.Errorf("the rules of %s: %w", architecture, err)
	}
	return &BaseValidator{rules: rules}, nil
}

// Rules implements Validator.
func (b *BaseValidator) Rules() Table { return b.rules }

// ValidateVirtualMachineSpec implements Validator.
func (b *BaseValidator) ValidateVirtualMachineSpec(s *Subject) []Finding {
	scopes := OnVM
	if s.OldVM != nil {
		scopes |= OnVMUpdate
	}
	return b.rules.Check(s, scopes)
}

// ValidateVirtualMachineInstanceSpec implements Validator.
func (b *BaseValidator) ValidateVirtualMachineInstanceSpec(s *Subject) []Finding {
	scopes := OnSpec
	if s.VMI != nil {
		scopes |= OnVMI
	}
	return b.rules.Check(s, scopes)
}

// ValidateHotplug implements Validator.
func (b *BaseValidator) ValidateHotplug(s *Subject) []Finding { return b.rules.Check(s, OnVMIUpdate) }
