package instancetypes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"

	"github.com/virtward/virtward/api/apikinds"
)

// Reference says which object a VM takes its instancetype or its preference from.
type Reference struct {
	// Kind and Name of the object itself. The Kind is one of the constants of this package.
	Kind string
	Name string
	// Namespace is the VM's for a namespaced kind, empty for a cluster-wide one.
	Namespace string
	// Revision is the ControllerRevision, in the VM's namespace, to be read in the object's stead; empty for none.
	Revision string
	// RevisionFromStatus marks a Revision that KubeVirt noted in the VM's status. It counts only while it was
	// made of the object that the VM names now: RevisionCounts tells.
	RevisionFromStatus bool
}

// RevisionCounts tells, by the labels of the ControllerRevision, whether it is to be read in the object's stead.
func (r *Reference) RevisionCounts(labels map[string]string) bool {
	if !r.RevisionFromStatus {
		return true
	}
	name, ok := labels[instancetypeapi.ControllerRevisionObjectNameLabel]
	return ok && name == r.Name
}

// InstancetypeReference says where a VM's instancetype is. It is nil if the VM names none, also where it is
// still to be inferred from a volume. The error is about a kind that does not exist; it is no obstacle where
// the VM names a revision.
func InstancetypeReference(vm *v1.VirtualMachine) (*Reference, *field.Error) {
	matcher := vm.Spec.Instancetype
	if matcher == nil || matcher.InferFromVolume != "" {
		return nil, nil
	}
	return reference(vm.Namespace, matcher, vm.Status.InstancetypeRef, field.NewPath("spec", "instancetype"), kindNames{
		namespaced: apikinds.VirtualMachineInstancetype, cluster: apikinds.VirtualMachineClusterInstancetype,
	})
}

// PreferenceReference says where a VM's preference is, as InstancetypeReference does for the instancetype.
func PreferenceReference(vm *v1.VirtualMachine) (*Reference, *field.Error) {
	matcher := vm.Spec.Preference
	if matcher == nil || matcher.InferFromVolume != "" {
		return nil, nil
	}
	return reference(vm.Namespace, matcher, vm.Status.PreferenceRef, field.NewPath("spec", "preference"), kindNames{
		namespaced: apikinds.VirtualMachinePreference, cluster: apikinds.VirtualMachineClusterPreference,
	})
}

// kindNames are the two kinds that a matcher may name: in any case, and as a plural too.
type kindNames struct{ namespaced, cluster string }

func (k kindNames) canonical(kind string) (string, bool) {
	namespaced, cluster := strings.ToLower(k.namespaced), strings.ToLower(k.cluster)
	switch strings.ToLower(kind) {
	case namespaced, namespaced + "s":
		return k.namespaced, true
	case "", cluster, cluster + "s":
		return k.cluster, true
	}
	return "", false
}

func reference(namespace string, matcher v1.Matcher, status *v1.InstancetypeStatusRef, path *field.Path, kinds kindNames) (*Reference, *field.Error) {
	ref := &Reference{Name: matcher.GetName(), Revision: matcher.GetRevisionName()}
	if ref.Revision == "" && status != nil && status.ControllerRevisionRef != nil && status.ControllerRevisionRef.Name != "" {
		ref.Revision, ref.RevisionFromStatus = status.ControllerRevisionRef.Name, true
	}
	kind, ok := kinds.canonical(matcher.GetKind())
	if !ok {
		if ref.Revision != "" { // what it holds decides
			return ref, nil
		}
		return nil, field.NotSupported(path.Child("kind"), matcher.GetKind(), []string{kinds.cluster, kinds.namespaced})
	}
	ref.Kind = kind
	if kind == kinds.namespaced {
		ref.Namespace = namespace
	}
	return ref, nil
}

// CheckMatchers says what is wrong with a VM's spec.instancetype and spec.preference by themselves: neither a
// name nor a volume to infer it from, or both. Like KubeVirt, it looks at the preference only when the
// instancetype is valid.
func CheckMatchers(vm *v1.VirtualMachine) field.ErrorList {
	if vm.Spec.Instancetype != nil {
		if errs := checkMatcher(vm.Spec.Instancetype, field.NewPath("spec", "instancetype")); len(errs) > 0 {
			return errs
		}
	}
	if vm.Spec.Preference != nil {
		return checkMatcher(vm.Spec.Preference, field.NewPath("spec", "preference"))
	}
	return nil
}

func checkMatcher(matcher v1.Matcher, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if matcher.GetName() == "" && matcher.GetInferFromVolume() == "" {
		e := field.NotFound(path, "")
		e.Detail = "either name or inferFromVolume is needed"
		errs = append(errs, e)
	}
	if matcher.GetInferFromVolume() != "" {
		if name := matcher.GetName(); name != "" {
			errs = append(errs, inferredAlready(path.Child("name"), name))
		}
		if kind := matcher.GetKind(); kind != "" {
			errs = append(errs, inferredAlready(path.Child("kind"), kind))
		}
	}
	if policy := matcher.GetInferFromVolumeFailurePolicy(); policy != nil {
		switch *policy {
		case v1.IgnoreInferFromVolumeFailure, v1.RejectInferFromVolumeFailure:
		default:
			errs = append(errs, field.Invalid(path.Child("inferFromVolumeFailurePolicy"), string(*policy),
				fmt.Sprintf("must be %s or %s", v1.IgnoreInferFromVolumeFailure, v1.RejectInferFromVolumeFailure)))
		}
	}
	return errs
}

func inferredAlready(path *field.Path, value string) *field.Error {
	return &field.Error{
		Type: field.ErrorTypeNotSupported, Field: path.String(), BadValue: value,
		Detail: "must not be set together with inferFromVolume, which determines it",
	}
}

// CheckMatcherUpdate says what is wrong with the change of a VM's matchers: another name with the revision
// of the old one would have no effect.
func CheckMatcherUpdate(vm, old *v1.VirtualMachine) field.ErrorList {
	if now, before := vm.Spec.Instancetype, old.Spec.Instancetype; now != nil && before != nil {
		if errs := checkMatcherUpdate(now, before, field.NewPath("spec", "instancetype")); len(errs) > 0 {
			return errs
		}
	}
	if now, before := vm.Spec.Preference, old.Spec.Preference; now != nil && before != nil {
		return checkMatcherUpdate(now, before, field.NewPath("spec", "preference"))
	}
	return nil
}

func checkMatcherUpdate(now, before v1.Matcher, path *field.Path) field.ErrorList {
	revision := now.GetRevisionName()
	if revision == "" || revision != before.GetRevisionName() || now.GetName() == before.GetName() {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("revisionName"), revision,
		fmt.Sprintf("is a revision of %q, but the name is %q now: clear revisionName, or name a revision of the new one", before.GetName(), now.GetName()))}
}

// NameAnnotations are the annotations with which KubeVirt notes on a VMI what its VM's instancetype and
// preference are called.
func NameAnnotations(in *Instancetype, pref *Preference) map[string]string {
	annotations := map[string]string{}
	if in != nil && in.Name != "" {
		annotations[either(in.Kind == apikinds.VirtualMachineInstancetype, v1.InstancetypeAnnotation, v1.ClusterInstancetypeAnnotation)] = in.Name
	}
	if pref != nil && pref.Name != "" {
		annotations[either(pref.Kind == apikinds.VirtualMachinePreference, v1.PreferenceAnnotation, v1.ClusterPreferenceAnnotation)] = pref.Name
	}
	return annotations
}

func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
