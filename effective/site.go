package effective

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/provenance"
)

// persistSite fills what the site persists in a VM when it is created. What the instancetype and the preference
// determine is their author's choice, and comes first.
func persistSite(in *Input, vm *v1.VirtualMachine, rec *provenance.Recorder) {
	if len(in.Site) == 0 || isStored(in, vm) {
		return
	}
	beside := instancetypes.TemplateOf(vm)
	beside.Spec = beside.Spec.DeepCopy()
	instancetypes.Expand(beside, in.Instancetype, in.Preference, provenance.NewRecorder(""))
	mutators.FillSite(in.Site, mutators.SiteFill{
		Facts: in.Facts, Spec: &vm.Spec.Template.Spec, Beside: beside.Spec, Labels: vm.Spec.Template.ObjectMeta.Labels,
		Leave: func(path string) bool { return determinedInVM(in, vm, path) }, Recorder: rec,
	})
}

// isStored reports whether a VM is beyond the point where something is persisted in it: defaults that it gets later
// would mean a restart or a migration.
func isStored(in *Input, vm *v1.VirtualMachine) bool {
	return in.OldVM != nil || in.PostMutation || vm.ResourceVersion != ""
}

// determinedInVM reports whether a field, relative to the spec, is left to the instancetype or the preference that a VM
// names. KubeVirt rejects a VM that sets what its instancetype determines, and the VM may name another one
// tomorrow. But nodeSelector, which a VMI cannot get without its VM, goes into the VM if the instancetype of today
// has none.
func determinedInVM(in *Input, vm *v1.VirtualMachine, path string) bool {
	if vm.Spec.Instancetype == nil || !instancetypes.InstancetypeDetermines(path) {
		return undetermined(in, vm, path)
	}
	return !mutators.Scheduling(path) || in.Instancetype == nil || in.Instancetype.Spec.NodeSelector != nil
}

// undetermined reports whether a field may be determined by an instancetype or a preference that is named, but was not
// found.
func undetermined(in *Input, vm *v1.VirtualMachine, path string) bool {
	return vm.Spec.Instancetype != nil && in.Instancetype == nil && instancetypes.InstancetypeDetermines(path) ||
		vm.Spec.Preference != nil && in.Preference == nil && instancetypes.PreferenceDetermines(path)
}

// startWithSite fills what the VMI of a VM gets from the site when it is created. Nothing of a VM that is not stored
// yet is left for it, but what the VM cannot have itself.
func startWithSite(in *Input, vm *v1.VirtualMachine, spec *v1.VirtualMachineInstanceSpec, rec *provenance.Recorder) {
	mutators.FillSite(in.Site, mutators.SiteFill{
		Facts: in.Facts, Spec: spec, Labels: vm.Spec.Template.ObjectMeta.Labels,
		Leave:    func(path string) bool { return mutators.Scheduling(path) || undetermined(in, vm, path) },
		Recorder: rec,
	})
}

// completeWithSite fills what a VMI gets from the site when it is created.
func completeWithSite(in *Input, vmi *v1.VirtualMachineInstance, rec *provenance.Recorder) {
	fill := mutators.SiteFill{Facts: in.Facts, Spec: &vmi.Spec, Labels: k8slabels.Set(vmi.Labels), Recorder: rec}
	if len(in.Site) > 0 && ofVM(vmi) {
		fill.Leave = mutators.Scheduling
	}
	mutators.FillSite(in.Site, fill)
}

// ofVM reports whether a VMI runs from a VM, which KubeVirt compares with it.
func ofVM(vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == v1.VirtualMachineGroupVersionKind.Kind && strings.HasPrefix(owner.APIVersion, v1.GroupVersion.Group+"/")
}
