package lookup

import (
	"context"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
)

// For gathers what the pipeline needs to know of the objects that a VM or a VMI points at; exactly one of
// the two is given. What is missing is named in the warnings, which are for whoever wrote the object. The
// error means that the cluster could not be asked.
func For(ctx context.Context, objects Objects, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (effective.References, []string, error) {
	if vmi != nil {
		presets, warnings, err := Presets(ctx, objects, vmi.ObjectMeta)
		return effective.References{Presets: presets}, warnings, err
	}
	found, err := References(ctx, objects, vm)
	if err != nil {
		return effective.References{}, nil, err
	}
	refs := effective.References{
		InstancetypeMatcher: found.InstancetypeMatcher,
		PreferenceMatcher:   found.PreferenceMatcher,
		Inferred:            found.Inferred,
		ClearMemory:         found.ClearMemory,
		Instancetype:        found.Instancetype,
		Preference:          found.Preference,
		Conflicts:           found.Errors,
	}
	architecture, warnings, err := DataSourceArchitecture(ctx, objects, vm)
	if err != nil {
		return effective.References{}, nil, err
	}
	if architecture != nil {
		refs.Architecture = &effective.DataSourceArchitecture{DataSource: architecture.Name, Architecture: architecture.Architecture}
	}
	return refs, append(found.Warnings, warnings...), nil
}
