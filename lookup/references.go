package lookup

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/instancetypes"
)

// Referenced is what a VM refers to.
type Referenced struct {
	// InstancetypeMatcher and PreferenceMatcher are the VM's spec.instancetype and spec.preference as KubeVirt
	// persists them: with what was inferred from a volume, and nil where nothing could be and that was to be
	// ignored. A kind that the user left out stays out.
	InstancetypeMatcher *v1.InstancetypeMatcher
	PreferenceMatcher   *v1.PreferenceMatcher
	// Inferred tells that one of the two differs from what the user wrote.
	Inferred bool
	// ClearMemory tells that KubeVirt removes domain.memory from the VM's template. It does so when an
	// instancetype was inferred under the policy Ignore: the memory was there for the other case.
	ClearMemory bool
	// Instancetype and Preference are the objects; nil if the VM names none, or if they are missing.
	Instancetype *instancetypes.Instancetype
	Preference   *instancetypes.Preference
	// Warnings name what is missing or cannot be read. KubeVirt accepts such a VM, and so must we: the object
	// may be created later.
	Warnings []string
	// Errors are those for which KubeVirt refuses the VM: matchers that contradict themselves, and volumes
	// from which nothing can be inferred.
	Errors field.ErrorList
}

// ApplyTo makes of a VM the one that KubeVirt persists, as far as matchers go.
func (r *Referenced) ApplyTo(vm *v1.VirtualMachine) {
	vm.Spec.Instancetype, vm.Spec.Preference = r.InstancetypeMatcher.DeepCopy(), r.PreferenceMatcher.DeepCopy()
	if r.ClearMemory && vm.Spec.Template != nil {
		vm.Spec.Template.Spec.Domain.Memory = nil
	}
}

// References finds the instancetype and the preference of a VM, inferring them from volumes where it says so.
// With Errors, nothing was looked up beyond them. The Go error means that the cluster could not be asked.
func References(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (*Referenced, error) {
	found := &Referenced{
		InstancetypeMatcher: vm.Spec.Instancetype.DeepCopy(),
		PreferenceMatcher:   vm.Spec.Preference.DeepCopy(),
		Errors:              instancetypes.CheckMatchers(vm),
	}
	if len(found.Errors) > 0 {
		return found, nil
	}
	if err := found.infer(ctx, objects, vm); err != nil || len(found.Errors) > 0 {
		return found, err
	}
	named := *vm // only the matchers differ
	named.Spec.Instancetype, named.Spec.Preference = found.InstancetypeMatcher, found.PreferenceMatcher
	if err := found.instancetype(ctx, objects, &named); err != nil {
		return found, err
	}
	err := found.preference(ctx, objects, &named)
	return found, err
}

func (r *Referenced) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

func (r *Referenced) instancetype(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	ref, unknown := instancetypes.InstancetypeReference(vm)
	obj, err := r.resolve(ctx, objects, vm.Namespace, "spec.instancetype", ref, unknown)
	if obj == nil || err != nil {
		return err
	}
	in, err := instancetypes.InstancetypeFrom(obj)
	if err != nil {
		r.warn("spec.instancetype: %v; the VM is judged without it", err)
		return nil
	}
	r.Instancetype = in
	return nil
}

func (r *Referenced) preference(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	ref, unknown := instancetypes.PreferenceReference(vm)
	obj, err := r.resolve(ctx, objects, vm.Namespace, "spec.preference", ref, unknown)
	if obj == nil || err != nil {
		return err
	}
	pref, err := instancetypes.PreferenceFrom(obj)
	if err != nil {
		r.warn("spec.preference: %v; the VM is judged without it", err)
		return nil
	}
	r.Preference = pref
	return nil
}
