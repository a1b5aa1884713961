package rollouts

import (
	"github.com/virtward/virtward/texts"
)

// maxReason bounds a reason with a message of KubeVirt.
const maxReason = 240

func shortened(text string) string { return texts.Shorten(texts.OneLine(text), maxReason) }

func (p *planner) sockets(d *difference) decision {
	if v, waits := p.waiting(stepSockets); waits {
		return v
	}
	o := &p.kubevirt.outcomes[stepSockets]
	v := decision{takes: Restart, announced: p.announcesRestart(), wayOut: wayOutRestart}
	switch {
	case o.failure != "":
		return p.inFlight(o, p.wanted.Domain.CPU.Sockets < p.running.Domain.CPU.Sockets)
	case o.restart == ReasonSocketsBeyond && p.wanted.Domain.CPU.Sockets < p.running.Domain.CPU.Sockets, o.restart == ReasonSocketsReduced:
		v.reason = "CPU sockets can only be added to a running VM, not removed."
	case o.restart == ReasonSocketsBeyond && p.running.Domain.CPU.MaxSockets == 0:
		v.reason = "The VM was started without a maximum of sockets, so that none can be added."
	case o.restart == ReasonSocketsBeyond:
		v.reason = "The VM was started with a maximum of " + itoa(int(p.running.Domain.CPU.MaxSockets)) + " sockets."
	case o.restart == ReasonNoCPUHotplug:
		v.reason = "On arm64, CPUs cannot be added to a running VM."
	case o.patched:
		return p.plugged(p.migration(true))
	default:
		return cold("The instance runs without a number of sockets.")(p, d)
	}
	return v
}

// plugged says before a plug begins that KubeVirt cannot revert it.
func (p *planner) plugged(v decision) decision {
	if v.takes == LiveOnMigration && v.wayOut == "" {
		v.wayOut = "Check the value first: KubeVirt cannot revert it until the migration has ended."
	}
	return v
}

const (
	reasonOvercommitted = "KubeVirt raises the memory request above the memory limit, so that the VM cannot be migrated."
	wayOutOvercommitted = "Raise resources.limits.memory, or remove it, and restart the VM."
)

// inFlight decides about a step that waits for an earlier one.
func (p *planner) inFlight(o *outcome, restarts bool) decision {
	v := decision{takes: Blocked, announced: ByFailure}
	switch o.failure {
	case failMigrating:
		v.reason, v.wayOut = "KubeVirt applies the change after the migration that is in progress.", "Wait for the migration to end."
	case failPlugging:
		v.reason, v.wayOut = "An earlier change of this kind is in progress. KubeVirt cannot change or revert it until its migration has ended.", "Wait for it, or restart the VM."
	default:
		v.reason, v.wayOut = shortened("KubeVirt fails at this change: "+o.failure+"."), "Correct the field."
	}
	if restarts {
		v.takes = Restart
		v.reason, v.wayOut = "The change needs a restart. KubeVirt announces it when the change or migration in progress has ended.", wayOutRestart
	}
	return v
}

func (p *planner) guestMemory(d *difference) decision {
	if d.event == removed {
		return cold("KubeVirt applies this field only when the VM starts.")(p, d)
	}
	if v, waits := p.waiting(stepMemory); waits {
		return v
	}
	o := &p.kubevirt.outcomes[stepMemory]
	wants, runs := guestOf(p.wanted), guestOf(p.running)
	v := decision{takes: Restart, announced: p.announcesRestart(), wayOut: wayOutRestart}
	switch {
	case o.failure != "":
		boot := p.in.Running.Status.Memory.GuestAtBoot
		return p.inFlight(o, boot != nil && wants.Cmp(*boot) < 0 || wants.Cmp(*p.running.Domain.Memory.MaxGuest) > 0)
	case o.restart != "":
		v.reason = p.whyMemoryRestarts(o.restart)
	case o.patched && p.overcommitted():
		v.patched, v.announced = true, ByCondition
		v.reason, v.wayOut = reasonOvercommitted, wayOutOvercommitted
	case o.patched:
		return p.plugged(p.migration(true))
	case runs == nil:
		v.reason = "The instance runs without domain.memory.guest, so that no memory can be plugged."
	default:
		return decision{takes: Blocked, reason: "KubeVirt does not know the memory of the guest yet. It applies the change once status.memory has it.", wayOut: "Restart the VM if the status stays empty."}
	}
	return v
}

func (p *planner) whyMemoryRestarts(reason RestartReason) string {
	memory := p.in.Running.Status.Memory
	switch reason {
	case ReasonMemoryFailed:
		return "An earlier change of memory has failed. KubeVirt does not try another one."
	case ReasonMemoryMigration:
		return p.whyNotMigratable()
	case ReasonMemoryUnavailable:
		return "The VM was started without a maximum of memory, so that none can be added."
	case ReasonMemoryBelowBoot:
		return "The VM was started with " + memory.GuestAtBoot.String() + ". Less is only possible after a restart."
	}
	return shortened(upper(p.memoryUnsupported(guestOf(p.wanted), p.running.Domain.Memory.MaxGuest)) + ".")
}

func upper(text string) string {
	if text == "" {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}

// placement decides about a field that only the scheduler reads.
func placement(step int) func(*planner, *difference) decision {
	return func(p *planner, _ *difference) decision {
		if v, waits := p.waiting(step); waits {
			return v
		}
		if o := &p.kubevirt.outcomes[step]; o.failure != "" {
			return p.inFlight(o, false)
		}
		return p.migration(false)
	}
}
