package lookup

import (
	"context"
	"fmt"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
)

// References finds the instancetype and the preference of a VM, inferring them from volumes where it says so.
// Of a VM with conflicts, no more was looked up. The warnings name what is missing or cannot be read: KubeVirt
// accepts such a VM, and so must we, as the object may be created later. The error means that the cluster could
// not be asked.
func References(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (effective.References, []string, error) {
	r := &references{inferred: map[string]bool{}, References: effective.References{
		InstancetypeMatcher: vm.Spec.Instancetype.DeepCopy(),
		PreferenceMatcher:   vm.Spec.Preference.DeepCopy(),
		Conflicts:           instancetypes.CheckMatchers(vm),
	}}
	err := r.find(ctx, objects, vm)
	return r.References, r.warnings, err
}

// references are those that are being looked for.
type references struct {
	effective.References
	warnings []string
	// inferred are the fields, spec.instancetype or spec.preference, whose object was inferred from a volume. Its name
	// is the label of an object that the requester may not be allowed to read, so no text contains it.
	inferred map[string]bool
}

func (r *references) find(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	if len(r.Conflicts) > 0 {
		return nil
	}
	if err := r.infer(ctx, objects, vm); err != nil || len(r.Conflicts) > 0 {
		return err
	}
	named := *vm // only the matchers differ
	named.Spec.Instancetype, named.Spec.Preference = r.InstancetypeMatcher, r.PreferenceMatcher
	if err := r.instancetype(ctx, objects, &named); err != nil {
		return err
	}
	return r.preference(ctx, objects, &named)
}

func (r *references) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// unreadable warns of an object that cannot be decoded.
func (r *references) unreadable(path string, err error) {
	if r.inferred[path] {
		r.warn("%s: the inferred object cannot be read; the VM is judged without it", path)
		return
	}
	r.warn("%s: %v; the VM is judged without it", path, err)
}

func (r *references) instancetype(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	ref, unknown := instancetypes.InstancetypeReference(vm)
	obj, err := r.resolve(ctx, objects, vm.Namespace, "spec.instancetype", ref, unknown)
	if obj == nil || err != nil {
		return err
	}
	in, err := instancetypes.InstancetypeFrom(obj)
	if err != nil {
		r.unreadable("spec.instancetype", err)
		return nil
	}
	in.Inferred = r.inferred["spec.instancetype"]
	r.Instancetype = in
	return nil
}

func (r *references) preference(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	ref, unknown := instancetypes.PreferenceReference(vm)
	obj, err := r.resolve(ctx, objects, vm.Namespace, "spec.preference", ref, unknown)
	if obj == nil || err != nil {
		return err
	}
	pref, err := instancetypes.PreferenceFrom(obj)
	if err != nil {
		r.unreadable("spec.preference", err)
		return nil
	}
	pref.Inferred = r.inferred["spec.preference"]
	r.Preference = pref
	return nil
}
