package hypervisor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/platform"
)

// The contract tests of VEP 97, as far as they need no node. A simulator takes the place of the node: it says which devices it has,
// and which resources its kubelet offers.

// each calls a check for each architecture and each form of the hypervisor.
func (s *suite) each(check func(architecture string, form platform.Hypervisor)) {
	for _, architecture := range architectures.Names() {
		for _, form := range s.forms {
			check(architecture, form)
		}
	}
}

// simulatedNode is a node with some devices, of which its kubelet offers some as resources.
func simulatedNode(architecture string, present, offered []corev1.ResourceName) *nodelabels.Facts {
	node := &nodelabels.Facts{Architecture: architecture, Devices: map[string]nodelabels.Device{}, Allocatable: corev1.ResourceList{}}
	for _, name := range present {
		node.Devices[nodelabels.DeviceName(name)] = nodelabels.Device{Present: true}
	}
	for _, name := range offered {
		node.Allocatable[name] = resource.MustParse("1k")
	}
	return node
}

// device: the device is detected and allocatable.
func (s *suite) device(p *problems) {
	s.each(func(architecture string, form platform.Hypervisor) {
		labeller, err := s.registry.Labeller(form, architecture)
		if err != nil {
			p.add(architecture, "%v", err)
			return
		}
		var all []corev1.ResourceName
		for _, request := range labeller.Devices() {
			if slices.Contains(all, request.Resource) || !strings.Contains(string(request.Resource), "/") {
				p.add(architecture, "%s/%s requests the device %q twice, or it is no extended resource", s.Name, architecture, request.Resource)
			}
			all = append(all, request.Resource)
		}
		own := corev1.ResourceName(form.Device)
		if !slices.Contains(all, own) {
			p.add(architecture, "%s/%s does not request its device %s", s.Name, architecture, own)
			return
		}
		others := slices.DeleteFunc(slices.Clone(all), func(name corev1.ResourceName) bool { return name == own })
		for _, c := range []struct {
			node             string
			present, offered []corev1.ResourceName
			want             nodelabels.State
		}{
			{"with all devices and resources", all, all, nodelabels.Ready},
			{"without the device", others, all, nodelabels.NoDevice},
			{"without the resource", all, others, nodelabels.NoResource},
		} {
			if got := labeller.State(simulatedNode(architecture, c.present, c.offered)); got != c.want {
				p.add(c.node, "%s/%s is %s on a node %s, want %s", s.Name, architecture, got, c.node, c.want)
			}
		}
	})
}

// ordinary is an instance with an interface and a disk, as it starts.
func (s *suite) ordinary(architecture string, form platform.Hypervisor) (*v1.VirtualMachineInstance, *platform.Facts, error) {
	facts := platform.Defaults(platform.Settings{}).WithHypervisor(form)
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace = "vm", "default"
	vmi.Spec.Architecture = architecture
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: new(resource.MustParse("1Gi"))}
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "disk"}}}}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root"}}
	verdict, err := s.pipeline.Complete(effective.Input{VMI: vmi, Facts: facts})
	if err != nil {
		return nil, nil, err
	}
	return launcher.Started(verdict.VMI, facts), facts, nil
}

// pod: the pod of a virtual machine is rendered, with the devices and the memory of the hypervisor.
func (s *suite) pod(p *problems) {
	s.each(func(architecture string, form platform.Hypervisor) {
		vmi, facts, err := s.ordinary(architecture, form)
		if err != nil {
			p.add(architecture, "%v", err)
			return
		}
		renderer, err := s.registry.Launcher(s.Name, architecture)
		if err != nil {
			p.add(architecture, "%v", err)
			return
		}
		result, err := launcher.Render(&launcher.Input{VMI: vmi, Facts: facts, Renderer: renderer})
		if err != nil {
			p.add(architecture, "%s/%s has no pod: %v", s.Name, architecture, err)
			return
		}
		compute := &result.Pod.Spec.Containers[0]
		for _, request := range result.Devices {
			if amount := compute.Resources.Limits[request.Resource]; !request.Optional && amount.Value() != 1 {
				p.add(architecture, "%s/%s: the pod does not request the device %s", s.Name, architecture, request.Resource)
			}
		}
		if amount := compute.Resources.Limits[corev1.ResourceName(form.Device)]; amount.Value() != 1 {
			p.add(architecture, "%s/%s: the pod does not request the device of the hypervisor, %s", s.Name, architecture, form.Device)
		}
		want := vmi.Spec.Domain.Memory.Guest.DeepCopy()
		want.Add(result.Overhead.Total)
		if got := compute.Resources.Requests[corev1.ResourceMemory]; got.Cmp(want) != 0 {
			p.add(architecture, "%s/%s: the pod requests %s of memory, not %s", s.Name, architecture, got.String(), want.String())
		}
		sum := resource.Quantity{}
		for i := range result.Overhead.Components {
			if amount := &result.Overhead.Components[i].Amount; amount.Sign() < 0 {
				p.add(architecture, "%s/%s: the overhead of %s is %s", s.Name, architecture, result.Overhead.Components[i].Name, amount.String())
			}
			sum.Add(result.Overhead.Components[i].Amount)
		}
		if sum.Cmp(result.Overhead.Total) != 0 {
			p.add(architecture, "%s/%s: the components of the overhead have %s together, and the total is %s", s.Name, architecture, sum.String(), result.Overhead.Total.String())
		}
		if at := slices.Index(compute.Args, "--hypervisor"); at < 0 || at+1 == len(compute.Args) || compute.Args[at+1] != form.ConfiguredName {
			p.add(architecture, "%s/%s: the arguments of the launcher do not have --hypervisor %s", s.Name, architecture, form.ConfiguredName)
		}
	})
}

// domain: the virtual machine has a libvirt domain of the hypervisor's type.
func (s *suite) domain(p *problems) {
	s.each(func(architecture string, form platform.Hypervisor) {
		vmi, facts, err := s.ordinary(architecture, form)
		if err != nil {
			p.add(architecture, "%v", err)
			return
		}
		instance, host, err := domain.Preview(vmi, &domain.Assumptions{})
		if err != nil {
			p.add(architecture, "%v", err)
			return
		}
		converter, err := s.registry.Converter(s.Name, architecture)
		if err != nil {
			p.add(architecture, "%v", err)
			return
		}
		result, err := converter.Convert(&domain.Input{VMI: instance, Facts: facts, Host: host})
		switch {
		case err != nil:
			p.add(architecture, "%s/%s has no domain: %v", s.Name, architecture, err)
		case result.Domain.Type != form.VirtType:
			p.add(architecture, "%s/%s: the domain has the type %s, not %s", s.Name, architecture, result.Domain.Type, form.VirtType)
		}
		features := converter.GetHypervFeatures()
		if sorted := slices.Compact(slices.Sorted(slices.Values(features))); len(sorted) != len(features) {
			p.add(architecture, "%s/%s has an enlightenment twice: %v", s.Name, architecture, features)
		}
	})
}
