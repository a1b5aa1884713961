package mutators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// Completion is the object that steps work on.
type Completion struct {
	// Facts of the cluster. Read-only.
	Facts *platform.Facts
	// Spec is completed in place.
	Spec *v1.VirtualMachineInstanceSpec
	// Status is completed in place; nil where there is none, as for a VM.
	Status *v1.VirtualMachineInstanceStatus
	// Recorder notes every change. Its paths are relative to the spec.
	Recorder *provenance.Recorder

	rejections field.ErrorList
}

// Reject notes that a field cannot be completed; path is relative to the spec.
func (c *Completion) Reject(path string, value any, why string) {
	c.rejections = append(c.rejections, field.Invalid(c.Recorder.Path(path), value, why))
}

// Step fills one field, or the few fields that only make sense together.
type Step struct {
	// Name identifies the step among the layers, such as "disk-bus".
	Name string
	// Writes are the fields that it may fill: "domain.cpu.model", "domain.devices.disks[*].disk.bus", or
	// "status.memory" for one outside the spec. A field listed covers everything below it.
	Writes []string
	// OnVM marks a step that is also applied to a VM's template when the VM is created, and persisted there.
	OnVM bool
	// BeforeStart marks a step whose result KubeVirt already validates in a VM. The results of all others exist only in the VMI.
	BeforeStart bool
	// Fill does it. Nil: a layer below fills this, but here nothing shall.
	Fill func(*Completion)
}

// Layer is a named table of steps, in the order in which they are evaluated.
type Layer struct {
	// Name is what the provenance says: base, kvm, arm64, kvm/arm64.
	Name string
	// Steps fill what the layer knows by itself.
	Steps []Step
	// Finalize steps derive values from everything else. They replace, by name, finalize steps of the layers
	// below, and run after all layers, under the name "finalize".
	Finalize []Step
}

// FinalizeLayer is the name of the last layer.
const FinalizeLayer = "finalize"

// resolved is a step together with the layer it was taken from.
type resolved struct {
	Step
	layer string
}

// resolve lays the layers over each other, least specific first.
func resolve(layers []Layer) ([]resolved, error) {
	steps, err := overlay(layers, func(l Layer) []Step { return l.Steps })
	if err != nil {
		return nil, err
	}
	final, err := overlay(layers, func(l Layer) []Step { return l.Finalize })
	if err != nil {
		return nil, err
	}
	for i := range final {
		final[i].layer = FinalizeLayer
	}
	return append(steps, final...), nil
}

func overlay(layers []Layer, table func(Layer) []Step) ([]resolved, error) {
	var steps []resolved
	for _, layer := range layers {
		names := map[string]bool{}
		for _, step := range table(layer) {
			if names[step.Name] {
				return nil, fmt.Errorf("layer %s has two steps named %s", layer.Name, step.Name)
			}
			names[step.Name] = true
			steps = slices.DeleteFunc(steps, func(below resolved) bool { return below.Name == step.Name })
			steps = append(steps, resolved{Step: step, layer: layer.Name})
		}
	}
	return slices.DeleteFunc(steps, func(s resolved) bool { return s.Fill == nil }), nil
}
