package fleet

import (
	"fmt"
	"slices"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// Reasons of states.
const (
	whyStopped      = "it is stopped: the change takes effect when it starts"
	whyChangedAgain = "it was changed again after the rollout changed it"
)

// class is a rule about virtual machines that are not being changed.
type class struct {
	applies func(p *planner, m *Machine, retried bool) bool
	state   v1alpha1.State
	reason  func(p *planner, m *Machine) string
}

func text(reason string) func(*planner, *Machine) string {
	return func(*planner, *Machine) string { return reason }
}

func why(_ *planner, m *Machine) string { return m.why() }

// classes in their order: the first one that applies decides. Without one, the virtual machine is a candidate.
var classes = []class{
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.Strategy == v1.RunStrategyWaitAsReceiver },
		v1alpha1.StateSkipped, text("its run strategy is WaitAsReceiver: it waits for a migration from another cluster"),
	},
	{
		func(_ *planner, m *Machine, retried bool) bool { return m.Marked && !retried && m.Stopped },
		v1alpha1.StateSkipped, text(whyStopped),
	},
	{
		func(_ *planner, m *Machine, retried bool) bool { return m.Marked && !retried },
		v1alpha1.StateDone, text(""),
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.WaitsFor != "" },
		v1alpha1.StateWaiting, func(_ *planner, m *Machine) string {
			return fmt.Sprintf("waits for the VirtualMachineRollout %s, which selects it too", m.WaitsFor)
		},
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.Outcome.Unknown != "" },
		v1alpha1.StateWaiting, func(_ *planner, m *Machine) string { return m.Outcome.Unknown },
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.Marked && !m.Outcome.Patched },
		v1alpha1.StateDone, text(whyChangedAgain),
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.Outcome.Patched && m.Stopped },
		v1alpha1.StateSkipped, text("it is stopped"),
	},
	{
		func(_ *planner, m *Machine, retried bool) bool { return !retried && m.conforms() },
		v1alpha1.StateDone, text(""),
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.need() == NeedsOther },
		v1alpha1.StateWaiting, why,
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.VolumesMigrate },
		v1alpha1.StateWaiting, text("waits until its volumes are migrated"),
	},
	{
		func(p *planner, m *Machine, _ bool) bool {
			return !m.Stopped && !m.conforms() && !p.allows(m.need().permission())
		},
		v1alpha1.StateSkipped, func(_ *planner, m *Machine) string {
			return fmt.Sprintf("the rollout does not allow %s: %s", m.need().permission(), m.why())
		},
	},
	{
		func(_ *planner, m *Machine, _ bool) bool {
			return !m.Stopped && m.need() == NeedsRestart && !m.restarts()
		},
		v1alpha1.StateSkipped, func(_ *planner, m *Machine) string {
			return fmt.Sprintf("KubeVirt does not restart a VM with the run strategy %s: %s", m.Strategy, m.why())
		},
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.RestartRequested || m.Instance.Deleting },
		v1alpha1.StateWaiting, text("waits until its instance has ended, which another user has requested"),
	},
	{
		func(_ *planner, m *Machine, _ bool) bool { return m.Migration.Active && m.need() >= NeedsMigration },
		v1alpha1.StateWaiting, text("waits for the end of a migration"),
	},
}

// restarts reports whether KubeVirt restarts the machine on request.
func (m *Machine) restarts() bool {
	return m.Strategy == v1.RunStrategyAlways || m.Strategy == v1.RunStrategyManual || m.Strategy == v1.RunStrategyRerunOnFailure
}

// conforms reports whether the machine has the change, and nothing is pending that a rollout could take to its guest.
func (m *Machine) conforms() bool {
	return m.Outcome.Patched && (m.need() == NeedsNothing || m.need() == NeedsLive && !m.Outcome.Awaits)
}

// classify decides about a virtual machine that is not being changed: it is done, is skipped, waits, or is a candidate.
func (p *planner) classify(i int) {
	s, m := &p.states[i], &p.Machines[i]
	state, reason := v1alpha1.StatePending, ""
	for k := range classes {
		if classes[k].applies(p, m, s.Attempt > 0) {
			state, reason = classes[k].state, classes[k].reason(p, m)
			break
		}
	}
	p.rest(i, state, reason)
	if state == v1alpha1.StatePending {
		p.candidates = append(p.candidates, i)
	}
	if m.Outcome.Unknown != "" && state == v1alpha1.StateWaiting {
		p.lacking++
	}
}

// rest sets the state of a virtual machine that is not being changed.
func (p *planner) rest(i int, state v1alpha1.State, reason string) {
	s := &p.states[i]
	p.set(s, state, reason)
	s.Since = nil
}

// validate decides whether the change is permitted for every virtual machine. Until then, none is changed.
func (p *planner) validate() {
	v := p.decision.Status.Validation
	if v == nil || v.Generation != p.Rollout.Generation {
		v = &v1alpha1.Validation{Generation: p.Rollout.Generation}
		p.decision.Status.Validation = v
	}
	first := !v.Passed
	*v = v1alpha1.Validation{Generation: v.Generation, Passed: v.Passed}
	for i := range p.states {
		denied := p.Machines[i].Outcome.Denied
		if len(denied) == 0 || p.states[i].State != v1alpha1.StatePending && p.states[i].State != v1alpha1.StateWaiting {
			continue
		}
		v.Denied++
		space := min(len(denied), v1alpha1.MaxFindings-len(v.Findings))
		v.Findings = append(v.Findings, denied[:space]...)
		v.Omitted += int32(len(denied) - space) //nolint:gosec // findings are bounded
		reason := "the change is denied: " + denied[0].Message
		switch {
		case p.spec.SkipDenied:
			p.rest(i, v1alpha1.StateSkipped, reason)
		case first, p.spec.DryRun:
			p.rest(i, v1alpha1.StatePending, reason)
		case p.states[i].State == v1alpha1.StatePending:
			p.end(i, v1alpha1.StateFailed, reason)
		}
	}
	p.candidates = slices.DeleteFunc(p.candidates, func(i int) bool { return len(p.Machines[i].Outcome.Denied) > 0 })
	if first {
		v.Passed = p.lacking == 0 && (v.Denied == 0 || p.spec.SkipDenied)
	}
}
