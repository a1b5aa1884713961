package instancetypes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// Requirements says which of the preference's requirements the VM does not meet: vCPUs, memory,
// architecture. All are reported, in this order; KubeVirt stops at the first.
//
// What counts are the resources of the instancetype, or, without one, those of the spec, which must be
// complete (with defaults) by then. Either of the instancetype and the preference may be nil. The errors are
// of the type NotFound, as KubeVirt's are.
func Requirements(target Target, in *Instancetype, pref *Preference) field.ErrorList {
	if pref == nil || pref.Spec.Requirements == nil {
		return nil
	}
	required := pref.Spec.Requirements
	var errs field.ErrorList
	if required.CPU != nil {
		errs = append(errs, requiredCPU(target, in, pref, required.CPU.Guest)...)
	}
	if required.Memory != nil {
		errs = append(errs, requiredMemory(target, in, pref, required.Memory.Guest)...)
	}
	if required.Architecture != nil && target.Spec.Architecture != *required.Architecture {
		errs = append(errs, unmet(target.SpecPath.Child("architecture"), target.Spec.Architecture,
			fmt.Sprintf("preference %q requires the architecture %q", pref.Name, *required.Architecture)))
	}
	return errs
}

func unmet(path *field.Path, value any, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeNotFound, Field: path.String(), BadValue: value, Detail: detail}
}

func requiredCPU(target Target, in *Instancetype, pref *Preference, required uint32) field.ErrorList {
	if in != nil {
		if in.Spec.CPU.Guest >= required {
			return nil
		}
		return field.ErrorList{unmet(target.InstancetypePath, in.Name,
			fmt.Sprintf("preference %q requires %d vCPUs, the instancetype provides %d", pref.Name, required, in.Spec.CPU.Guest))}
	}
	path := target.SpecPath.Child("domain", "cpu")
	cpu := target.Spec.Domain.CPU
	if cpu == nil {
		return field.ErrorList{unmet(path, 0, fmt.Sprintf("preference %q requires %d vCPUs, the VM names none", pref.Name, required))}
	}
	counts := map[string]uint32{"sockets": cpu.Sockets, "cores": cpu.Cores, "threads": cpu.Threads}
	counted := countedFor(topologyOf(pref))
	if len(counted) == 0 {
		return nil
	}
	provided := uint64(1)
	for _, name := range counted {
		provided = saturatingProduct(provided, uint64(counts[name]))
	}
	if provided >= uint64(required) {
		return nil
	}
	var errs field.ErrorList
	for _, name := range counted {
		errs = append(errs, unmet(path.Child(name), counts[name],
			fmt.Sprintf("preference %q requires %d vCPUs as %s, the VM provides %d", pref.Name, required, listed(counted), provided)))
	}
	return errs
}

// saturatingProduct multiplies counts of 32 bits; three of them may exceed 64 bits.
func saturatingProduct(a, b uint64) uint64 {
	if b != 0 && a > ^uint64(0)/b {
		return ^uint64(0)
	}
	return a * b
}

func listed(names []string) string {
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	return names[0] + ", " + names[1] + " and " + names[2]
}

// countedFor are the parts of the VM's own topology whose product has to meet a requirement. A topology that
// is not known requires nothing.
func countedFor(t topology) []string {
	switch t.preferred {
	case instancetypev1beta1.Sockets:
		return []string{"sockets"}
	case instancetypev1beta1.Cores:
		return []string{"cores"}
	case instancetypev1beta1.Threads:
		return []string{"threads"}
	case instancetypev1beta1.Any:
		return []string{"cores", "sockets", "threads"}
	case instancetypev1beta1.Spread:
		switch t.across {
		case instancetypev1beta1.SpreadAcrossSocketsCores:
			return []string{"sockets", "cores"}
		case instancetypev1beta1.SpreadAcrossCoresThreads:
			return []string{"cores", "threads"}
		case instancetypev1beta1.SpreadAcrossSocketsCoresThreads:
			return []string{"sockets", "cores", "threads"}
		}
	}
	return nil
}

func requiredMemory(target Target, in *Instancetype, pref *Preference, required resource.Quantity) field.ErrorList {
	if in != nil {
		if in.Spec.Memory.Guest.Cmp(required) >= 0 {
			return nil
		}
		return field.ErrorList{unmet(target.InstancetypePath, in.Name,
			fmt.Sprintf("preference %q requires %s of memory, the instancetype provides %s", pref.Name, required.String(), in.Spec.Memory.Guest.String()))}
	}
	provided := resource.Quantity{}
	if memory := target.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		provided = *memory.Guest
	}
	if provided.Cmp(required) >= 0 {
		return nil
	}
	return field.ErrorList{unmet(target.SpecPath.Child("domain", "memory"), provided.String(),
		fmt.Sprintf("preference %q requires %s of memory", pref.Name, required.String()))}
}
