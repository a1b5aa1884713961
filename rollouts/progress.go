package rollouts

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// inProgress are the changes that the instance has, and the guest has not. KubeVirt announces them by conditions. They have
// the fields that the plan had before KubeVirt wrote them. A field that differs again is not among them.
func (p *planner) inProgress() []Change {
	if p.running == nil || p.kubevirt.stopped {
		return nil
	}
	changes := slices.Concat(p.socketsInProgress(), p.memoryInProgress(), p.networksInProgress(), p.claimsInProgress())
	if len(changes) == 0 {
		return nil
	}
	differs := make(map[string]bool, len(p.found))
	for i := range p.found {
		if d := &p.found[i]; !d.outside {
			differs[template+d.path] = true
		}
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return differs[c.Field] })
}

func (p *planner) socketsInProgress() []Change {
	if !p.in.is(v1.VirtualMachineInstanceVCPUChange) || p.running.Domain.CPU == nil {
		return nil
	}
	c := p.awaiting("sockets", "domain.cpu.sockets")
	if topology := p.in.Running.Status.CurrentCPUTopology; topology != nil {
		c.Old = itoa(int(topology.Sockets))
	}
	c.New = itoa(int(p.running.Domain.CPU.Sockets))
	return []Change{c}
}

func (p *planner) memoryInProgress() []Change {
	state, message := p.in.condition(v1.VirtualMachineInstanceMemoryChange)
	if state == "" {
		return nil
	}
	c := p.awaiting("guest-memory", "domain.memory.guest")
	if memory := p.in.Running.Status.Memory; memory != nil && memory.GuestCurrent != nil {
		c.Old = memory.GuestCurrent.String()
	}
	if guest := guestOf(p.running); guest != nil {
		c.New = guest.String()
	}
	switch {
	case state == corev1.ConditionFalse:
		c.Takes, c.Reason, c.WayOut = Restart, shortened("KubeVirt could not plug the memory: "+message), wayOutRestart
	case p.exceedsLimit():
		c.Takes, c.Reason, c.WayOut = Restart, reasonOvercommitted, wayOutOvercommitted
	}
	return []Change{c}
}

// networksInProgress are interfaces that are being plugged or unplugged, and NetworkAttachmentDefinitions that differ from
// those of the start: the status does not show whether the guest has them.
func (p *planner) networksInProgress() []Change {
	announced := p.in.networksMigrate()
	if !announced && !p.in.migrating() {
		return nil
	}
	var changes []Change
	started := &v1.VirtualMachineInstanceSpec{}
	if p.started != nil {
		started = p.started
	}
	before, running := indexed(started.Networks, networkName), indexed(p.running.Networks, networkName)
	for i := range p.running.Domain.Devices.Interfaces {
		runs := &p.running.Domain.Devices.Interfaces[i]
		network := running.find(runs.Name)
		if network == nil || network.Multus == nil {
			continue
		}
		changes = append(changes, p.interfaceInProgress(runs, network)...)
	}
	if !announced { // KubeVirt announces them once the migration has ended, which may have begun without them
		for i := range changes {
			v := p.migration(true)
			changes[i].Takes, changes[i].Announced, changes[i].Reason, changes[i].WayOut = v.takes, Silent, v.reason, v.wayOut
		}
		return changes
	}
	for i := range p.running.Networks {
		runs := &p.running.Networks[i]
		from, to := attachment(before.find(runs.Name)), attachment(runs)
		if from != "" && to != "" && !p.sameAttachment(from, to) {
			c := p.awaiting("network-attachment", "networks["+runs.Name+"].multus.networkName")
			c.Old, c.New = show("networkName", text(from)), show("networkName", text(to))
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		changes = append(changes, p.awaiting("interface-added", "networks"))
	}
	return changes
}

func (p *planner) interfaceInProgress(runs *v1.Interface, network *v1.Network) []Change {
	interfaces, networks := nodeOf("domain.devices.interfaces").item(runs.Name), nodeOf("networks").item(runs.Name)
	status := p.interfaceStatus(runs.Name)
	switch {
	case runs.State == v1.InterfaceStateAbsent && status == nil:
		return nil
	case runs.State == v1.InterfaceStateAbsent:
		c := p.awaiting("interface-state", interfaces.relative()+".state")
		c.New = string(runs.State)
		return []Change{c}
	case status != nil && (status.InfoSource == "" || strings.Contains(status.InfoSource, "domain")):
		return nil
	}
	plugs, attaches := p.awaiting("interface-added", interfaces.relative()), p.awaiting("interface-added", networks.relative())
	plugs.New, attaches.New = show(runs.Name, reflect.ValueOf(runs)), show(network.Name, reflect.ValueOf(network))
	return []Change{plugs, attaches}
}

// networksMigrate reports whether interfaces or networks of the instance wait for a migration. KubeVirt first waits a moment
// for a dynamic networks controller.
func (in *Input) networksMigrate() bool {
	return slices.ContainsFunc(in.Running.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceMigrationRequired &&
			(c.Status == corev1.ConditionTrue || c.Reason == v1.VirtualMachineInstanceReasonAutoMigrationPending)
	})
}

// claimsInProgress are the volumes that migrate to other claims.
func (p *planner) claimsInProgress() []Change {
	if !p.in.is(v1.VirtualMachineInstanceVolumesChange) {
		return nil
	}
	var changes []Change
	for _, m := range p.in.Running.Status.MigratedVolumes[:min(len(p.in.Running.Status.MigratedVolumes), MaxChanges)] {
		for _, field := range p.claimFields(m.VolumeName) {
			c := p.awaiting("volume-migration", field)
			c.Old, c.New = show("claimName", text(claimName(m.SourcePVCInfo))), show("claimName", text(claimName(m.DestinationPVCInfo)))
			changes = append(changes, c)
		}
	}
	return changes
}

// claimFields are the fields in which a volume of the instance names its claim.
func (p *planner) claimFields(name string) []string {
	node := nodeOf("volumes").item(name)
	volume, runs := node.relative(), p.runningVolumes.find(name)
	var started *v1.Volume
	if p.started != nil {
		volumes := indexed(p.started.Volumes, volumeName)
		started = volumes.find(name)
	}
	switch {
	case runs == nil:
		return []string{volume}
	case started != nil && started.PersistentVolumeClaim != nil && runs.DataVolume != nil, started != nil && started.DataVolume != nil && runs.PersistentVolumeClaim != nil:
		return []string{volume + ".persistentVolumeClaim", volume + ".dataVolume"}
	case runs.PersistentVolumeClaim != nil:
		return []string{volume + ".persistentVolumeClaim.claimName"}
	case runs.DataVolume != nil:
		return []string{volume + ".dataVolume.name"}
	}
	return []string{volume}
}

func claimName(info *v1.PersistentVolumeClaimInfo) string {
	if info == nil {
		return ""
	}
	return info.ClaimName
}

// awaiting is a change that waits for a migration.
func (p *planner) awaiting(rule, path string) Change {
	v := p.migration(true)
	if p.in.migrating() {
		v = decision{takes: LiveOnMigration, reason: "The VM is migrating, and the guest gets the change with this migration."}
	}
	return Change{
		Field: template + path, Takes: v.takes, InProgress: true, Announced: ByCondition, Rule: rule, Reason: v.reason, WayOut: v.wayOut,
	}
}
