package references

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
)

// References finds the instancetype and the preference of a VM, inferring them from volumes where it says so.
// Of a VM with conflicts, no more was looked up. The warnings name what is missing or cannot be read: KubeVirt
// accepts such a VM, and so does Virtward, as the object may be created later. The error means that the cluster could
// not be read.
func References(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (effective.References, []string, error) {
	r := &references{inferred: map[string]bool{}, noRevision: map[string]string{}, References: effective.References{
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
	// noRevision are the ControllerRevisions that do not exist, by the field of their reference.
	noRevision map[string]string
	// unknown are the fields whose object is not in the files, while no cluster is read; nil without one.
	unknown map[string]bool
}

// notGiven notes a field whose object is not in the files.
func (r *references) notGiven(path string) {
	if r.unknown == nil {
		r.unknown = map[string]bool{}
	}
	r.unknown[path] = true
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
		r.warn("%s: the inferred object cannot be read; the VM is evaluated without it", path)
		return
	}
	r.warn("%s: %v; the VM is evaluated without it", path, err)
}

func (r *references) instancetype(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	if r.unknown["spec.instancetype"] {
		return nil
	}
	ref, unknown := instancetypes.InstancetypeReference(vm)
	found, err := fetch(ctx, r, objects, vm.Namespace, "spec.instancetype", ref, unknown, instancetypes.InstancetypeFrom)
	if found != nil {
		found.Inferred, r.Instancetype = r.inferred["spec.instancetype"], found
	}
	return err
}

func (r *references) preference(ctx context.Context, objects Objects, vm *v1.VirtualMachine) error {
	if r.unknown["spec.preference"] {
		return nil
	}
	ref, unknown := instancetypes.PreferenceReference(vm)
	found, err := fetch(ctx, r, objects, vm.Namespace, "spec.preference", ref, unknown, instancetypes.PreferenceFrom)
	if found != nil {
		found.Inferred, r.Preference = r.inferred["spec.preference"], found
	}
	return err
}

// fetch resolves a reference and decodes its object. It returns nil if there is no readable object.
func fetch[T any](
	ctx context.Context, r *references, objects Objects, namespace, path string,
	ref *instancetypes.Reference, unknown *field.Error, decode func(*unstructured.Unstructured) (*T, error),
) (*T, error) {
	warned, conflicts := len(r.warnings), len(r.Conflicts)
	object, err := r.resolve(ctx, objects, namespace, path, ref, unknown)
	if object == nil || err != nil {
		r.unresolved(path, ref, len(r.Conflicts) > conflicts || unknown != nil || r.unknown[path], len(r.warnings) > warned)
		return nil, err
	}
	decoded, err := decode(object)
	if err != nil {
		r.unreadable(path, err)
		r.resolved(path, ref, effective.Unknown)
		return nil, nil
	}
	r.resolved(path, ref, effective.Found)
	return decoded, nil
}

// resolved notes what became of a reference.
func (r *references) resolved(path string, ref *instancetypes.Reference, state effective.ReferenceState) {
	noted := effective.Reference{Field: path, State: state}
	if state != effective.Found && !r.unknown[path] {
		noted.MissingRevision = r.noRevision[path]
	}
	if ref != nil && !r.inferred[path] {
		noted.Kind, noted.Name = ref.Kind, ref.Name
	}
	r.Resolved = append(r.Resolved, noted)
}

// unresolved notes a reference without an object, if there is one.
func (r *references) unresolved(path string, ref *instancetypes.Reference, unknown, missing bool) {
	switch {
	case unknown, missing && ref != nil && ref.Kind == "":
		r.resolved(path, ref, effective.Unknown)
	case missing:
		r.resolved(path, ref, effective.Missing)
	}
}
