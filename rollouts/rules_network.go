package rollouts

import (
	"reflect"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

func ofNetwork(d *difference) bool { return d.list == "interfaces" || d.list == "networks" }

func addsInterface(_ *planner, d *difference) bool { return ofNetwork(d) && d.event == added }

func (p *planner) interfaceAdded(d *difference) decision {
	interfaces := indexed(p.written.Domain.Devices.Interfaces, interfaceName)
	wants := interfaces.find(d.item)
	o := &p.kubevirt.outcomes[stepInterfaces]
	switch {
	case wants != nil && wants.State == v1.InterfaceStateAbsent:
		return decision{takes: Live, reason: "The interface is absent: KubeVirt removes it from the VM."}
	case wants == nil || !plugs(wants):
		return decision{
			takes: Restart, announced: p.announcesRestart(), reason: "Only interfaces with the binding bridge or sriov can be added to a running VM.",
			wayOut: wayOutRestart,
		}
	case !o.ran:
		return p.halted()
	}
	v := p.migration(true)
	if v.takes == Restart && !p.updates(v1.WorkloadUpdateMethodEvict) {
		v.wayOut = "Restart the VM. A dynamic networks controller of Multus adds a bridge interface without a migration."
	}
	return v
}

func changesState(_ *planner, d *difference) bool {
	return d.list == "interfaces" && d.event == changed && strings.HasSuffix(d.path, "].state")
}

func (p *planner) interfaceState(d *difference) decision {
	interfaces := indexed(p.running.Domain.Devices.Interfaces, interfaceName)
	wanted := indexed(p.written.Domain.Devices.Interfaces, interfaceName)
	runs, wants := interfaces.find(d.item), wanted.find(d.item)
	switch {
	case runs == nil || wants == nil:
		return cold("KubeVirt applies this field only when the VM starts.")(p, d)
	case runs.State == v1.InterfaceStateAbsent:
		return decision{
			takes: Blocked, announced: p.announcesRestart(), reason: "The interface is being unplugged, which cannot be reverted. KubeVirt adds it again afterwards.",
			wayOut: "Wait until status.interfaces of the instance does not have it.",
		}
	case wants.State == v1.InterfaceStateAbsent && p.ordinalInterfaces():
		return decision{
			takes: Blocked, announced: p.announcesRestart(), reason: "KubeVirt unplugs the interface once status.interfaces shows its name in the pod. A VM of an old version needs a migration first.",
			wayOut: "Migrate or restart the VM if the interface stays.",
		}
	case wants.State == v1.InterfaceStateAbsent:
		return decision{takes: Live, patched: true, reason: "KubeVirt unplugs the interface from the running VM."}
	}
	return decision{takes: Live, patched: true, reason: "KubeVirt changes the state of the link."}
}

// vanishings are absent interfaces that are already unplugged: KubeVirt removes them from the VM and the instance. They
// replace the differences of their states.
func (p *planner) vanishings() {
	if p.running == nil || !p.kubevirt.outcomes[stepInterfaces].patched {
		return
	}
	patched := p.patchedInterfaces()
	kept, networks := indexed(patched.Domain.Devices.Interfaces, interfaceName), indexed(patched.Networks, networkName)
	gone := func(name string) bool { return kept.find(name) == nil }
	p.found = slices.DeleteFunc(p.found, func(d difference) bool { return changesState(p, &d) && gone(d.item) })
	vanished := func(list, path, name string) {
		at := nodeOf(path).item(name)
		p.add(difference{path: at.relative(), list: list, item: name, name: name, event: vanish, old: reflect.ValueOf(name)})
	}
	for i := range p.running.Domain.Devices.Interfaces {
		if name := p.running.Domain.Devices.Interfaces[i].Name; gone(name) {
			vanished("interfaces", "domain.devices.interfaces", name)
		}
	}
	for i := range p.running.Networks {
		if name := p.running.Networks[i].Name; networks.find(name) == nil {
			vanished("networks", "networks", name)
		}
	}
}

func removesInterface(_ *planner, d *difference) bool {
	return ofNetwork(d) && (d.event == removed || d.event == vanish)
}

func (p *planner) interfaceRemoved(d *difference) decision {
	if d.event == vanish {
		return decision{takes: Live, patched: true, reason: "The interface is unplugged: KubeVirt removes it from the VM and the instance."}
	}
	return decision{
		takes: Restart, announced: p.announcesRestart(), reason: "KubeVirt does not unplug an interface that the VM does not have any more.",
		wayOut: "Keep the interface with the state absent, and remove it later. Or restart the VM.",
	}
}

func changesAttachment(p *planner, d *difference) bool {
	return d.list == "networks" && d.event == changed && strings.HasSuffix(d.path, "].multus.networkName") && p.facts.GateEnabled("LiveUpdateNADRef")
}

func (p *planner) networkAttachment(d *difference) decision {
	wanted, running := indexed(p.written.Networks, networkName), indexed(p.running.Networks, networkName)
	wants, runs := wanted.find(d.item), running.find(d.item)
	switch {
	case wants == nil || runs == nil || !p.switchesAttachment(wants, runs):
		return cold("KubeVirt applies this field only when the VM starts.")(p, d)
	case p.sameAttachment(attachment(wants), attachment(runs)):
		return decision{takes: Live, patched: true, reason: "The NetworkAttachmentDefinition stays the same."}
	}
	return p.migration(!wants.Multus.Default)
}
