package references

import (
	"context"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
)

// For gathers what the pipeline needs to know of the objects that a VM or a VMI points at; exactly one of
// the two is given. What is missing is named in the warnings, which are for the author of the object. If there is an
// error, do not complete the object.
func For(ctx context.Context, objects Objects, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (effective.References, []string, error) {
	if vmi != nil {
		presets, err := Presets(ctx, objects, vmi.ObjectMeta)
		return effective.References{Presets: presets}, nil, err
	}
	found, warnings, err := References(ctx, objects, vm)
	if err != nil {
		return effective.References{}, nil, err
	}
	architecture, more, err := DataSourceArchitecture(ctx, objects, vm)
	if err != nil {
		return effective.References{}, nil, err
	}
	found.Architecture = architecture
	return found, append(warnings, more...), nil
}
