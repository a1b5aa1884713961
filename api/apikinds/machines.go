package apikinds

import (
	"reflect"
	"slices"

	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	templatev1beta1 "github.com/virtward/virtward/api/template/v1beta1"
)

//go:generate go run ./gen ../../charts/virtward/templates/_kinds.tpl

// Machine is a kind of objects that are virtual machines or instances, or from whose template KubeVirt or Virtward makes
// them. They are namespaced.
type Machine struct {
	Resource

	// Versions are those that are evaluated, the one that Virtward reads first. All have the same Go type.
	Versions []string
	// Older is the version that is read from a supported cluster which does not serve the first one; empty if all serve it.
	Older string
	// Type is the Go type of the objects.
	Type reflect.Type
	// Makes is VirtualMachine or VirtualMachineInstance: what the template describes. It is empty for an instance.
	Makes string
	// Template is the path of the metadata and the spec of what the kind makes; empty for an instance.
	Template string
	// Policies reports whether a VirtualMachinePolicy can select the kind. Instances of the other kinds are evaluated when
	// they are created.
	Policies bool
	// Parameters reports whether the template has parameters, so that its fields have no fixed types. Native policies cannot
	// match such a kind, and deletions of its objects are not evaluated.
	Parameters bool
	// Scale reports whether the kind has the subresource scale.
	Scale bool
	// ShortNames are the short names of the resource in commands. The first one is documented.
	ShortNames []string
	// Status reports whether the status is a subresource.
	Status bool
	// Schema is the name of the kind's schema in the operator of KubeVirt; empty for a kind that KubeVirt does not define.
	Schema string
}

// Set reports whether the objects are sets: they contain a template, and KubeVirt makes what it describes.
func (m *Machine) Set() bool { return m.Makes != "" && m.Kind != VirtualMachine && !m.Parameters }

// Machines returns the kinds that are virtual machines or carry one, virtual machines first. Everything that lists these kinds
// reads this table.
func Machines() []Machine {
	return []Machine{
		{
			Resource: VirtualMachines, Versions: []string{"v1", "v1alpha3"}, Type: reflect.TypeFor[v1.VirtualMachine](),
			Makes: VirtualMachineInstance, Template: "spec.template", Policies: true, Status: true, ShortNames: []string{"vm", "vms"}, Schema: "virtualmachine",
		},
		{
			Resource: VirtualMachineInstances, Versions: []string{"v1", "v1alpha3"}, Type: reflect.TypeFor[v1.VirtualMachineInstance](),
			Policies: true, ShortNames: []string{"vmi", "vmis"}, Schema: "virtualmachineinstance",
		},
		{
			Resource: ReplicaSets, Versions: []string{"v1", "v1alpha3"}, Type: reflect.TypeFor[v1.VirtualMachineInstanceReplicaSet](),
			Makes: VirtualMachineInstance, Template: "spec.template", Scale: true, Status: true, ShortNames: []string{"vmirs", "vmirss"},
			Schema: "virtualmachineinstancereplicaset",
		},
		{
			Resource: Pools, Versions: []string{"v1beta1", "v1alpha1"}, Older: "v1alpha1", Type: reflect.TypeFor[poolv1beta1.VirtualMachinePool](),
			Makes: VirtualMachine, Template: "spec.virtualMachineTemplate", Policies: true, Scale: true, Status: true,
			ShortNames: []string{"vmpool", "vmpools"}, Schema: "virtualmachinepool",
		},
		{
			Resource: Templates, Versions: []string{"v1beta1", "v1alpha1"}, Type: reflect.TypeFor[templatev1beta1.VirtualMachineTemplate](),
			Makes: VirtualMachine, Template: "spec.virtualMachine", Policies: true, Parameters: true, Status: true, ShortNames: []string{"vmt", "vmts"},
		},
	}
}

// MachineKinds returns the kinds that a condition selects, in the order of the table.
func MachineKinds(selected func(*Machine) bool) []Machine {
	return slices.DeleteFunc(Machines(), func(m Machine) bool { return !selected(&m) })
}

// Native reports whether native policies of Kubernetes can match the kind as a VirtualMachinePolicy does, and whether its
// deletions are evaluated.
func (m *Machine) Native() bool { return m.Policies && !m.Parameters }

// EffectiveVM returns the path of the metadata and the spec of the effective VM in an object; empty for an instance.
func (m *Machine) EffectiveVM() string {
	if m.Makes == VirtualMachine {
		return m.Template + ".spec.template"
	}
	return m.Template
}

// Spec returns the Go type of the spec.
func (m *Machine) Spec() reflect.Type {
	spec, _ := m.Type.FieldByName("Spec")
	return spec.Type
}

// Names returns the names of kinds.
func Names(kinds []Machine) []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].Kind
	}
	return names
}
