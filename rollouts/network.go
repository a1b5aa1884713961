package rollouts

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// coldInterfaces reports whether the interfaces or networks differ from the start of the instance in more than KubeVirt
// plugs, unplugs or switches.
func (p *planner) coldInterfaces(running *v1.VirtualMachineInstanceSpec) bool {
	if same(&p.started.Domain.Devices.Interfaces, &p.wanted.Domain.Devices.Interfaces) && same(&p.started.Networks, &p.wanted.Networks) {
		return false
	}
	return p.changesInterfaces(running) || p.changesNetworks(running)
}

func (p *planner) changesInterfaces(running *v1.VirtualMachineInstanceSpec) bool {
	wanted := indexed(p.wanted.Domain.Devices.Interfaces, interfaceName)
	for i := range running.Domain.Devices.Interfaces {
		runs := running.Domain.Devices.Interfaces[i]
		found := wanted.find(runs.Name)
		if found == nil {
			return true
		}
		wants := *found
		runs.State, wants.State = "", ""
		if !same(&runs, &wants) {
			return true
		}
	}
	return false
}

func (p *planner) changesNetworks(running *v1.VirtualMachineInstanceSpec) bool {
	hasPod := func(n v1.Network) bool { return n.Pod != nil }
	if slices.ContainsFunc(p.wanted.Networks, hasPod) && !slices.ContainsFunc(running.Networks, hasPod) {
		return true
	}
	wanted := indexed(p.wanted.Networks, networkName)
	for i := range running.Networks {
		wants := wanted.find(running.Networks[i].Name)
		if wants == nil || !p.equalNetworks(wants, &running.Networks[i]) {
			return true
		}
	}
	return false
}

// equalNetworks compares networks, but not their NetworkAttachmentDefinition if KubeVirt changes it live.
func (p *planner) equalNetworks(wants, runs *v1.Network) bool {
	if p.facts.GateEnabled("LiveUpdateNADRef") && wants.Multus != nil && runs.Multus != nil {
		a, b := *wants.Multus, *runs.Multus
		a.NetworkName, b.NetworkName = "", ""
		x, y := *wants, *runs
		x.Multus, y.Multus = &a, &b
		return same(&x, &y)
	}
	return same(wants, runs)
}

// syncInterfaces plugs interfaces, changes their states, and changes NetworkAttachmentDefinitions.
func (p *planner) syncInterfaces() outcome {
	patched := p.patchedInterfaces()
	return outcome{patched: patched != p.running && !same(&patched.Domain.Devices.Interfaces, &p.running.Domain.Devices.Interfaces) || patched != p.running && !same(&patched.Networks, &p.running.Networks)}
}

// patchedInterfaces is the running spec with the interfaces and networks that KubeVirt writes.
func (p *planner) patchedInterfaces() *v1.VirtualMachineInstanceSpec {
	if p.patched == nil {
		p.patched = p.patchInterfaces()
	}
	return p.patched
}

func (p *planner) patchInterfaces() *v1.VirtualMachineInstanceSpec {
	if same(&p.written.Domain.Devices.Interfaces, &p.running.Domain.Devices.Interfaces) && same(&p.written.Networks, &p.running.Networks) && !p.hasAbsent() {
		return p.running
	}
	result := *p.running
	result.Domain.Devices.Interfaces = slices.Clone(p.running.Domain.Devices.Interfaces)
	result.Networks = slices.Clone(p.running.Networks)
	running, networks := indexed(p.running.Domain.Devices.Interfaces, interfaceName), indexed(p.running.Networks, networkName)
	wanted := indexed(p.written.Networks, networkName)
	for i := range p.written.Domain.Devices.Interfaces {
		wants := &p.written.Domain.Devices.Interfaces[i]
		network := wanted.find(wants.Name)
		if k := networks.position(wants.Name); k >= 0 && network != nil && p.switchesAttachment(network, &p.running.Networks[k]) {
			result.Networks[k] = *network
		}
		k := running.position(wants.Name)
		switch {
		case k < 0 && plugs(wants):
			result.Domain.Devices.Interfaces = append(result.Domain.Devices.Interfaces, *wants)
			if network != nil {
				result.Networks = append(result.Networks, *network)
			}
		case k >= 0 && p.switchesState(wants, &p.running.Domain.Devices.Interfaces[k]):
			result.Domain.Devices.Interfaces[k].State = wants.State
		}
	}
	p.dropDetached(&result)
	return &result
}

func (p *planner) hasAbsent() bool {
	for i := range p.running.Domain.Devices.Interfaces {
		if p.running.Domain.Devices.Interfaces[i].State == v1.InterfaceStateAbsent {
			return true
		}
	}
	return false
}

// plugs reports whether KubeVirt plugs an interface into a running instance.
func plugs(wants *v1.Interface) bool {
	return wants.State != v1.InterfaceStateAbsent && (wants.Bridge != nil || wants.SRIOV != nil)
}

// switchesState reports whether KubeVirt changes the state of an interface. An absent one stays absent.
func (p *planner) switchesState(wants, runs *v1.Interface) bool {
	return wants.State != runs.State && runs.State != v1.InterfaceStateAbsent && !(wants.State == v1.InterfaceStateAbsent && p.ordinalInterfaces())
}

func (p *planner) switchesAttachment(wants, runs *v1.Network) bool {
	return p.facts.GateEnabled("LiveUpdateNADRef") && !same(wants, runs) && p.equalNetworks(wants, runs)
}

// dropDetached removes absent interfaces that the status does not have any more.
func (p *planner) dropDetached(spec *v1.VirtualMachineInstanceSpec) {
	gone := func(i v1.Interface) bool {
		return i.State == v1.InterfaceStateAbsent && p.interfaceStatus(i.Name) == nil
	}
	if !slices.ContainsFunc(spec.Domain.Devices.Interfaces, gone) {
		return
	}
	spec.Domain.Devices.Interfaces = slices.DeleteFunc(spec.Domain.Devices.Interfaces, gone)
	kept := indexed(spec.Domain.Devices.Interfaces, interfaceName)
	spec.Networks = slices.DeleteFunc(spec.Networks, func(n v1.Network) bool { return kept.find(n.Name) == nil })
}

func (p *planner) interfaceStatus(name string) *v1.VirtualMachineInstanceNetworkInterface {
	for i := range p.in.Running.Status.Interfaces {
		if s := &p.in.Running.Status.Interfaces[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// ordinalInterfaces reports whether no secondary interface in the pod has a name that KubeVirt derives from its network:
// the instance is of an old version, or its status does not show the interfaces yet.
func (p *planner) ordinalInterfaces() bool {
	for i := range p.running.Networks {
		name := p.running.Networks[i].Name
		if status := p.interfaceStatus(name); status != nil && status.PodInterfaceName == podInterface(name) {
			return false
		}
	}
	return true
}

// samePath reports whether two names are of one NetworkAttachmentDefinition: without a namespace it is that of the VM.
func (p *planner) sameAttachment(a, b string) bool {
	namespace := p.in.Running.Namespace
	return qualified(namespace, a) == qualified(namespace, b)
}

func qualified(namespace, name string) string {
	for i := range len(name) {
		if name[i] == '/' {
			return name
		}
	}
	return namespace + "/" + name
}
