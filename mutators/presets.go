package mutators

import (
	"slices"
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// PresetLayer names the layer of a VirtualMachineInstancePreset.
func PresetLayer(name string) string { return "preset/" + name }

// ApplyPresets lays VirtualMachineInstancePresets (deprecated in KubeVirt) over a VMI, before anything else
// is completed: KubeVirt applies them whole or not at all, so a field completed earlier would keep them away.
// They are taken in the order of their names; the caller passes those that select the VMI. Like KubeVirt, a
// preset that disagrees with another one is an error, and nothing is applied then.
func ApplyPresets(spec *v1.VirtualMachineInstanceSpec, presets []v1.VirtualMachineInstancePreset, rec *provenance.Recorder) (conflict string) {
	presets = slices.Clone(presets)
	slices.SortFunc(presets, func(a, b v1.VirtualMachineInstancePreset) int { return strings.Compare(a.Name, b.Name) })
	if conflict := conflictingPresets(presets); conflict != "" {
		return conflict
	}
	for i := range presets {
		if presets[i].Spec.Domain == nil {
			continue
		}
		rec.SetLayer(PresetLayer(presets[i].Name))
		applyPreset(&spec.Domain, presets[i].Spec.Domain.DeepCopy(), rec)
	}
	return ""
}

// applyPreset copies the parts that presets are defined for, each where the VMI has none.
func applyPreset(domain, preset *v1.DomainSpec, rec *provenance.Recorder) {
	if len(preset.Resources.Requests) > 0 && domain.Resources.Requests == nil {
		domain.Resources.Requests = k8sv1.ResourceList{}
		for _, name := range sortedNames(preset.Resources.Requests) {
			domain.Resources.Requests[name] = preset.Resources.Requests[name]
			rec.Record(fieldpath.Keyed("domain.resources.requests", string(name)), preset.Resources.Requests[name])
		}
	}
	adopt(rec, "domain.cpu", &domain.CPU, preset.CPU)
	adopt(rec, "domain.firmware", &domain.Firmware, preset.Firmware)
	adopt(rec, "domain.clock", &domain.Clock, preset.Clock)
	if domain.Clock != nil && preset.Clock != nil {
		adopt(rec, "domain.clock.timer", &domain.Clock.Timer, preset.Clock.Timer)
	}
	adopt(rec, "domain.features", &domain.Features, preset.Features)
	adopt(rec, "domain.devices.watchdog", &domain.Devices.Watchdog, preset.Devices.Watchdog)
	adopt(rec, "domain.ioThreadsPolicy", &domain.IOThreadsPolicy, preset.IOThreadsPolicy)
}

func adopt[T any](rec *provenance.Recorder, path string, field **T, preset *T) {
	if preset != nil && *field == nil {
		*field = preset
		rec.Record(path, preset)
	}
}

func sortedNames(list k8sv1.ResourceList) []k8sv1.ResourceName {
	names := make([]k8sv1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// conflictingPresets names the first two presets that want different things of one part.
func conflictingPresets(presets []v1.VirtualMachineInstancePreset) string {
	for i := range presets {
		for j := range i {
			a, b := presets[j].Spec.Domain, presets[i].Spec.Domain
			if a == nil || b == nil {
				continue
			}
			if part := disagreement(a, b); part != "" {
				return "the presets " + presets[j].Name + " and " + presets[i].Name + " want different things of spec.domain." + part
			}
		}
	}
	return ""
}

func disagreement(a, b *v1.DomainSpec) string {
	for _, name := range sortedNames(a.Resources.Requests) {
		if other, both := b.Resources.Requests[name]; both && !other.Equal(a.Resources.Requests[name]) {
			return "resources.requests." + string(name)
		}
	}
	switch {
	case differ(a.CPU, b.CPU):
		return "cpu"
	case differ(a.Firmware, b.Firmware):
		return "firmware"
	case differ(a.Clock, b.Clock):
		return "clock"
	case differ(a.Features, b.Features):
		return "features"
	case differ(a.Devices.Watchdog, b.Devices.Watchdog):
		return "devices.watchdog"
	case differ(a.IOThreadsPolicy, b.IOThreadsPolicy):
		return "ioThreadsPolicy"
	}
	return ""
}

func differ[T any](a, b *T) bool { return a != nil && b != nil && !equality.Semantic.DeepEqual(a, b) }
