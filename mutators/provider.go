package mutators

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// DefaultsProvider completes virtual machines for one hypervisor and architecture. It is VEP 97's interface,
// with the platform's Facts where the VEP passes KubeVirt's configuration and a client, and a Recorder for
// the provenance. All three only set fields that are zero, and applying them twice changes nothing.
//
// The errors name fields that could not be completed because the cluster does not permit the default, in
// the object as its author wrote it; everything else is complete nevertheless.
type DefaultsProvider interface {
	// SetVirtualMachineDefaults fills what KubeVirt persists in a VM when it is created.
	SetVirtualMachineDefaults(vm *v1.VirtualMachine, facts *platform.Facts, rec *provenance.Recorder) field.ErrorList
	// SetDefaultTemplateSpec fills what KubeVirt fills in the copy of a VM's template that it validates. A VMI gets the rest
	// when the VM starts. Nothing is recorded or reported.
	SetDefaultTemplateSpec(facts *platform.Facts, spec *v1.VirtualMachineInstanceSpec)
	// SetDefaultVirtualMachineInstance completes a VMI: its spec and what its status says from the start.
	SetDefaultVirtualMachineInstance(facts *platform.Facts, vmi *v1.VirtualMachineInstance, rec *provenance.Recorder) field.ErrorList
	// SetDefaultVirtualMachineInstanceSpec completes a spec; the recorder's root is its path.
	SetDefaultVirtualMachineInstanceSpec(facts *platform.Facts, spec *v1.VirtualMachineInstanceSpec, rec *provenance.Recorder) field.ErrorList
}

// BaseDefaults is the implementation of DefaultsProvider that every hypervisor embeds. What makes one
// differ from another are the layers it is built from.
type BaseDefaults struct {
	steps []resolved
}

// NewBaseDefaults builds the provider for an architecture from the base layer and those given: the
// hypervisor's, and the hypervisor's for this architecture. An unknown architecture is completed as the default one.
// Two steps of one name in one layer are an error.
func NewBaseDefaults(architecture string, hypervisor, combined Layer) (*BaseDefaults, error) {
	steps, err := resolve([]Layer{Base(), hypervisor, ForArchitecture(architecture), combined})
	if err != nil {
		return nil, err
	}
	return &BaseDefaults{steps: steps}, nil
}

// Writers lists which layer writes which fields, in the order of evaluation.
func (b *BaseDefaults) Writers() []Writer {
	writers := make([]Writer, 0, len(b.steps))
	for _, s := range b.steps {
		writers = append(writers, Writer{Step: s.Name, Layer: s.layer, Fields: slices.Clone(s.Writes)})
	}
	return writers
}

// Writer tells which fields a step of a layer fills.
type Writer struct {
	Step, Layer string
	Fields      []string
}

// SetVirtualMachineDefaults implements DefaultsProvider.
func (b *BaseDefaults) SetVirtualMachineDefaults(vm *v1.VirtualMachine, facts *platform.Facts, rec *provenance.Recorder) field.ErrorList {
	if vm.Spec.Template == nil {
		return nil
	}
	c := &Completion{Facts: facts, Spec: &vm.Spec.Template.Spec, Recorder: rec}
	b.run(c, func(s resolved) bool { return s.OnVM })
	return c.rejections
}

// SetDefaultTemplateSpec implements DefaultsProvider.
func (b *BaseDefaults) SetDefaultTemplateSpec(facts *platform.Facts, spec *v1.VirtualMachineInstanceSpec) {
	b.run(&Completion{Facts: facts, Spec: spec, Recorder: provenance.NewRecorder("")}, func(s resolved) bool { return s.BeforeStart })
}

// SetDefaultVirtualMachineInstance implements DefaultsProvider.
func (b *BaseDefaults) SetDefaultVirtualMachineInstance(facts *platform.Facts, vmi *v1.VirtualMachineInstance, rec *provenance.Recorder) field.ErrorList {
	c := &Completion{Facts: facts, Spec: &vmi.Spec, Status: &vmi.Status, Recorder: rec}
	b.run(c, everyStep)
	return c.rejections
}

// SetDefaultVirtualMachineInstanceSpec implements DefaultsProvider.
func (b *BaseDefaults) SetDefaultVirtualMachineInstanceSpec(facts *platform.Facts, spec *v1.VirtualMachineInstanceSpec, rec *provenance.Recorder) field.ErrorList {
	c := &Completion{Facts: facts, Spec: spec, Recorder: rec}
	b.run(c, everyStep)
	return c.rejections
}

func everyStep(resolved) bool { return true }

func (b *BaseDefaults) run(c *Completion, wanted func(resolved) bool) {
	for i := range b.steps {
		if s := &b.steps[i]; wanted(*s) {
			c.Recorder.SetLayer(s.layer)
			s.Fill(c)
		}
	}
}
