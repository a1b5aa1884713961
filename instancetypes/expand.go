package instancetypes

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// Target is the spec that an instancetype and a preference are applied to, and its path in the object that the user wrote,
// for the fields that errors name.
type Target struct {
	// Spec is expanded in place.
	Spec *v1.VirtualMachineInstanceSpec
	// Annotations that the VMI has from its VM's template. Read-only.
	Annotations map[string]string
	// SpecPath and MetadataPath are the paths of Spec and of the metadata with Annotations:
	// spec.template.spec and spec.template.metadata.
	SpecPath, MetadataPath *field.Path
	// InstancetypePath and PreferencePath are where the user named the two: spec.instancetype, spec.preference.
	InstancetypePath, PreferencePath *field.Path
}

// TemplateOf is the target that a VM's template is. For a VM without one, which the API does not allow, it
// is an empty template that leads nowhere.
func TemplateOf(vm *v1.VirtualMachine) Target {
	content := vm.Spec.Template
	if content == nil {
		content = &v1.VirtualMachineInstanceTemplateSpec{}
	}
	template := field.NewPath("spec", "template")
	return Target{
		Spec:             &content.Spec,
		Annotations:      content.ObjectMeta.Annotations,
		SpecPath:         template.Child("spec"),
		MetadataPath:     template.Child("metadata"),
		InstancetypePath: field.NewPath("spec", "instancetype"),
		PreferencePath:   field.NewPath("spec", "preference"),
	}
}

// Expand applies an instancetype and then a preference to the target. Either may be nil.
//
// It returns the annotations that the two add to the VMI, and the conflicts. With conflicts nothing was
// applied: the spec is as it was, and there are no annotations. They come in the order in which KubeVirt
// finds them, and of memory, like KubeVirt, only the first one is reported.
//
// Expand does not check whether the vCPUs can be spread evenly, as KubeVirt does not; CheckSpread does.
//
// The recorder notes what changed, with paths relative to the spec, under the two layers. A few fields
// whose zero may be set or not are overwritten, as KubeVirt does it: cpu.maxSockets by the instancetype,
// features.acpi and devices.disableHotplug by the preference.
func Expand(target Target, in *Instancetype, pref *Preference, rec *provenance.Recorder) (map[string]string, field.ErrorList) {
	if in == nil && pref == nil {
		return nil, nil
	}
	var errs field.ErrorList
	if in != nil {
		errs = append(errs, conflicts(target, in, pref)...)
	}
	if err := unanchoredCPUFeatures(target, in, pref); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errs
	}

	added := annotations{target: target}
	if in != nil {
		rec.SetLayer(in.Layer())
		applyInstancetype(target.Spec, &in.Spec, topologyOf(pref), rec)
		added.add(in.Spec.Annotations, rec)
	}
	if pref != nil {
		rec.SetLayer(pref.Layer())
		applyPreference(target.Spec, &pref.Spec, rec)
		added.add(pref.Spec.Annotations, rec)
	}
	return added.added, nil
}

// annotations collects those that the target does not have yet.
type annotations struct {
	target Target
	added  map[string]string
}

func (a *annotations) add(offered map[string]string, rec *provenance.Recorder) {
	for _, key := range slices.Sorted(maps.Keys(offered)) {
		if _, taken := a.target.Annotations[key]; taken {
			continue
		}
		if _, taken := a.added[key]; taken {
			continue
		}
		if a.added == nil {
			a.added = map[string]string{}
		}
		a.added[key] = offered[key]
		rec.At(a.target.MetadataPath.String(), func() {
			rec.Record(fieldpath.Keyed("annotations", key), offered[key])
		})
	}
}
