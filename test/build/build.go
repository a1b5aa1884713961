// Package build makes virtual machines for tests. A builder starts with an object that KubeVirt accepts and
// changes one thing at a time: build.VMI("db").Cores(4).Disk("root", v1.DiskBusVirtio).Obj().
package build

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// VMIBuilder builds a VirtualMachineInstance.
type VMIBuilder struct{ vmi *v1.VirtualMachineInstance }

// VMI returns a builder of a VMI with 1Gi of memory in the namespace default.
func VMI(name string) *VMIBuilder {
	guest := resource.MustParse("1Gi")
	return &VMIBuilder{&v1.VirtualMachineInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Memory: &v1.Memory{Guest: &guest}}},
	}}
}

// Obj is the object built.
func (b *VMIBuilder) Obj() *v1.VirtualMachineInstance { return b.vmi.DeepCopy() }

// With changes the spec. Use it for changes without a method.
func (b *VMIBuilder) With(change func(*v1.VirtualMachineInstanceSpec)) *VMIBuilder {
	change(&b.vmi.Spec)
	return b
}

// Namespace moves it.
func (b *VMIBuilder) Namespace(name string) *VMIBuilder { b.vmi.Namespace = name; return b }

// Label adds a label.
func (b *VMIBuilder) Label(key, value string) *VMIBuilder {
	if b.vmi.Labels == nil {
		b.vmi.Labels = map[string]string{}
	}
	b.vmi.Labels[key] = value
	return b
}

// Architecture names it.
func (b *VMIBuilder) Architecture(name string) *VMIBuilder { b.vmi.Spec.Architecture = name; return b }

// Memory sets the guest's memory, such as 4Gi.
func (b *VMIBuilder) Memory(guest string) *VMIBuilder {
	q := resource.MustParse(guest)
	b.vmi.Spec.Domain.Memory = &v1.Memory{Guest: &q}
	return b
}

// Topology sets sockets, cores and threads.
func (b *VMIBuilder) Topology(sockets, cores, threads uint32) *VMIBuilder {
	b.vmi.Spec.Domain.CPU = &v1.CPU{Sockets: sockets, Cores: cores, Threads: threads}
	return b
}

// Limit sets a resource limit.
func (b *VMIBuilder) Limit(name corev1.ResourceName, quantity string) *VMIBuilder {
	if b.vmi.Spec.Domain.Resources.Limits == nil {
		b.vmi.Spec.Domain.Resources.Limits = corev1.ResourceList{}
	}
	b.vmi.Spec.Domain.Resources.Limits[name] = resource.MustParse(quantity)
	return b
}

// Disk adds a disk on a bus, which may be empty, with a volume from a container image.
func (b *VMIBuilder) Disk(name string, bus v1.DiskBus) *VMIBuilder {
	b.vmi.Spec.Domain.Devices.Disks = append(b.vmi.Spec.Domain.Devices.Disks,
		v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}})
	return b.Volume(name, "quay.io/containerdisks/fedora:41")
}

// Volume adds a volume from a container image, and no disk.
func (b *VMIBuilder) Volume(name, image string) *VMIBuilder {
	b.vmi.Spec.Volumes = append(b.vmi.Spec.Volumes,
		v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: image}}})
	return b
}

// Interface connects to the pod network by masquerade, or to a Multus network by a bridge if one is named.
func (b *VMIBuilder) Interface(name, multus string) *VMIBuilder {
	nic, network := v1.Interface{Name: name}, v1.Network{Name: name}
	if multus == "" {
		nic.Masquerade = &v1.InterfaceMasquerade{}
		network.Pod = &v1.PodNetwork{}
	} else {
		nic.Bridge = &v1.InterfaceBridge{}
		network.Multus = &v1.MultusNetwork{NetworkName: multus}
	}
	b.vmi.Spec.Domain.Devices.Interfaces = append(b.vmi.Spec.Domain.Devices.Interfaces, nic)
	b.vmi.Spec.Networks = append(b.vmi.Spec.Networks, network)
	return b
}

// Typical returns a typical VMI: three disks, two interfaces, four cores, 4Gi of memory.
func Typical(name string) *VMIBuilder {
	return VMI(name).Memory("4Gi").Topology(0, 4, 0).
		Disk("root", v1.DiskBusVirtio).Disk("data", "").Disk("cloudinit", "").
		Interface("default", "").Interface("storage", "storage-net").
		Label("app", "db")
}

// VMBuilder builds a VirtualMachine.
type VMBuilder struct{ vm *v1.VirtualMachine }

// VM returns a builder of a halted VM with the template of VMI.
func VM(name string) *VMBuilder { return VMOf(VMI(name)) }

// VMOf returns a builder of a halted VM with a VMI as its template.
func VMOf(template *VMIBuilder) *VMBuilder {
	halted := v1.RunStrategyHalted
	return &VMBuilder{&v1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "VirtualMachine"},
		ObjectMeta: metav1.ObjectMeta{Name: template.vmi.Name, Namespace: template.vmi.Namespace},
		Spec: v1.VirtualMachineSpec{
			RunStrategy: &halted,
			Template: &v1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: template.vmi.Labels},
				Spec:       *template.vmi.Spec.DeepCopy(),
			},
		},
	}}
}

// Obj is the object built.
func (b *VMBuilder) Obj() *v1.VirtualMachine { return b.vm.DeepCopy() }

// RunStrategy sets it.
func (b *VMBuilder) RunStrategy(s v1.VirtualMachineRunStrategy) *VMBuilder {
	b.vm.Spec.RunStrategy = &s
	return b
}

// Instancetype names a cluster-wide instancetype, and leaves the size to it.
func (b *VMBuilder) Instancetype(name string) *VMBuilder {
	b.vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: name}
	b.vm.Spec.Template.Spec.Domain.Memory = nil
	b.vm.Spec.Template.Spec.Domain.CPU = nil
	return b
}

// Preference names a cluster-wide preference.
func (b *VMBuilder) Preference(name string) *VMBuilder {
	b.vm.Spec.Preference = &v1.PreferenceMatcher{Name: name}
	return b
}
