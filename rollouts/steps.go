package rollouts

import (
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// prediction is what virt-controller does with the VM and its instance.
type prediction struct {
	// stopped is set if no instance keeps running.
	stopped bool
	// cold reports whether the template differs in a field that KubeVirt never updates live. Then the live steps do not run.
	cold bool
	// waits is set if the live steps do not run.
	waits bool
	// unready is a DataVolume of the VM that is not filled. KubeVirt runs no step until it is.
	unready  string
	restart  RestartReason
	failure  string
	outcomes [countSteps]outcome
}

// outcome is the result of one step.
type outcome struct {
	// ran is false if an earlier step failed, or if a restart is required first.
	ran bool
	// patched reports whether the step changes the running instance.
	patched bool
	// restart is the reason for which the step requires a restart.
	restart RestartReason
	// failure says why the step fails: KubeVirt then repeats it without end, and does not run the later steps.
	failure string
	// condition is set if the step announces its result by a condition of the instance.
	condition bool
}

// The steps in the order in which virt-controller runs them.
const (
	stepInterfaces = iota
	stepHotplug
	stepMetadata
	stepSockets
	stepAffinity
	stepTolerations
	stepMemory
	stepClaims
	countSteps
)

// failureInstancetype is the failure before the first step.
const failureInstancetype = "instancetype"

// step is a step of virt-controller.
type step struct {
	id string
	// field is the path in the VM of what the step writes.
	field string
	// live steps only run under the strategy LiveUpdate, and only if no restart is required.
	live bool
	run  func(*planner) outcome
}

// steps are what virt-controller does with a running instance.
var steps = [countSteps]step{
	stepInterfaces:  {"interfaces", template + "domain.devices.interfaces", false, (*planner).syncInterfaces},
	stepHotplug:     {"hotplug-volumes", template + "volumes", false, (*planner).hotplugVolumes},
	stepMetadata:    {"labels-and-annotations", "spec.template.metadata", false, (*planner).syncMetadata},
	stepSockets:     {"sockets", template + "domain.cpu.sockets", true, (*planner).plugSockets},
	stepAffinity:    {"affinity", template + "affinity", true, (*planner).syncAffinity},
	stepTolerations: {"tolerations", template + "tolerations", true, (*planner).syncTolerations},
	stepMemory:      {"memory", template + "domain.memory.guest", true, (*planner).plugMemory},
	stepClaims:      {"volume-migration", template + "volumes", true, (*planner).migrateClaims},
}

// predict runs the steps.
func (p *planner) predict() {
	k := &p.kubevirt
	existing, has := p.in.announcedRestart()
	switch {
	case p.in.DesiredKinds.missing():
		k.failure, k.stopped = failureInstancetype, p.in.Running == nil
		if has {
			k.restart = ReasonOf(existing)
		}
		return
	case p.in.Running == nil:
		k.stopped = true
		if has && !p.starts() {
			k.restart = ReasonOf(existing)
		}
		return
	case !p.in.instance() || p.in.stopping():
		k.stopped = true
		if p.isCold(p.running) {
			k.restart = ReasonTemplate
		}
		return
	}
	if k.unready = p.unreadyDataVolume(); k.unready != "" {
		if has {
			k.restart = ReasonOf(existing)
		}
		return
	}
	k.cold = p.isCold(p.running)
	k.waits = !p.facts.LiveUpdate || k.cold || p.lost && has
	live := p.runSteps()
	k.restart = p.restartReason(live, existing, has)
}

// runSteps runs the steps until one fails, and returns the first reason for which a live step requires a restart.
func (p *planner) runSteps() (live RestartReason) {
	k := &p.kubevirt
	for i := range steps {
		if steps[i].live && k.waits {
			continue
		}
		k.outcomes[i] = steps[i].run(p)
		k.outcomes[i].ran = true
		if live == "" {
			live = k.outcomes[i].restart
		}
		if k.outcomes[i].failure != "" {
			k.failure = steps[i].id
			return "" // KubeVirt loses what the steps required
		}
	}
	return live
}

// restartReason is the reason that the condition RestartRequired has in the end. KubeVirt does not change the message of a
// condition that exists.
func (p *planner) restartReason(live RestartReason, existing string, has bool) RestartReason {
	switch {
	case p.lost && has:
		return ReasonOf(existing)
	case p.isCold(p.patchedInterfaces()):
		if has {
			return ReasonOf(existing)
		}
		return ReasonTemplate
	}
	return live
}

// starts reports whether KubeVirt starts the VM, which has no instance.
func (p *planner) starts() bool {
	strategy, err := p.in.Desired.RunStrategy()
	if err != nil {
		return false
	}
	for i := range p.in.Desired.Status.StateChangeRequests {
		if p.in.Desired.Status.StateChangeRequests[i].Action == v1.StartRequest {
			return true
		}
	}
	switch strategy {
	case v1.RunStrategyAlways, v1.RunStrategyOnce, v1.RunStrategyWaitAsReceiver:
		return true
	case v1.RunStrategyRerunOnFailure:
		return p.in.Desired.Status.RunStrategy != strategy
	}
	return false
}

// isCold reports whether the template differs from the start of the instance in what KubeVirt does not update live. The
// interfaces are compared with those of the given spec.
func (p *planner) isCold(running *v1.VirtualMachineInstanceSpec) bool {
	if p.started == nil || p.lost || len(p.conflicts) > 0 {
		return false
	}
	if p.coldOtherwise == nil {
		p.coldOtherwise = ptr.To(p.coldFields > 0 || p.coldVolumes() || p.coldDisks() || p.coldUUID() || p.coldPlacement())
	}
	return *p.coldOtherwise || p.coldInterfaces(running)
}

func (p *planner) coldUUID() bool {
	return uuidOf(p.started) != p.wantedUUID && (p.running == nil || uuidOf(p.running) != p.wantedUUID)
}

// coldPlacement compares what is only live under the strategy LiveUpdate.
func (p *planner) coldPlacement() bool {
	before, wants := guestOf(p.started), guestOf(p.wanted)
	if p.facts.LiveUpdate {
		return wants == nil && before != nil && p.wanted.Domain.Memory != nil
	}
	return p.wanted.Domain.CPU != nil && p.started.Domain.CPU != nil && p.startedSockets() != p.wanted.Domain.CPU.Sockets ||
		!equalQuantities(before, wants) ||
		!same(&p.started.NodeSelector, &p.wanted.NodeSelector) ||
		!same(&p.started.Affinity, &p.wanted.Affinity) ||
		!same(&p.started.Tolerations, &p.wanted.Tolerations)
}

// coldVolumes reports whether a volume differs that is neither hotplugged nor migrated.
func (p *planner) coldVolumes() bool {
	if same(&p.started.Volumes, &p.wanted.Volumes) {
		return false
	}
	started := indexed(p.started.Volumes, volumeName)
	migrates := migratesVolumes(&p.in.Desired.Spec)
	for i := range p.wanted.Volumes {
		wants := &p.wanted.Volumes[i]
		before := started.find(wants.Name)
		switch {
		case hotplugged(wants):
		case before == nil:
			return true
		case migrates && (wants.PersistentVolumeClaim != nil || wants.DataVolume != nil):
		case !same(before, wants):
			return true
		}
	}
	for i := range p.started.Volumes {
		if gone := &p.started.Volumes[i]; !hotplugged(gone) && p.wantedVolumes.find(gone.Name) == nil {
			return true
		}
	}
	return false
}

// coldDisks reports whether a disk differs whose volume is not hotplugged, or a CD-ROM drive is gone.
func (p *planner) coldDisks() bool {
	if same(&p.started.Domain.Devices.Disks, &p.wanted.Domain.Devices.Disks) {
		return false
	}
	volumes, started := indexed(p.started.Volumes, volumeName), indexed(p.started.Domain.Devices.Disks, diskName)
	for i := range p.wanted.Domain.Devices.Disks {
		wants := &p.wanted.Domain.Devices.Disks[i]
		before := started.find(wants.Name)
		if !hotplugged(p.wantedVolumes.find(wants.Name)) && (before == nil || !same(before, wants)) {
			return true
		}
	}
	wanted := indexed(p.wanted.Domain.Devices.Disks, diskName)
	for i := range p.started.Domain.Devices.Disks {
		gone := &p.started.Domain.Devices.Disks[i]
		if wanted.find(gone.Name) != nil {
			continue
		}
		if volume := volumes.find(gone.Name); volume != nil && !hotplugged(volume) || gone.CDRom != nil {
			return true
		}
	}
	return false
}
