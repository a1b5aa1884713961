package fleet

import (
	"fmt"
	"time"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// maxAttempts bounds how often a virtual machine is begun again because it turns out to need something else.
const maxAttempts = 100

// advance continues the change of a virtual machine that has begun.
func (p *planner) advance(i int) {
	s, m := &p.states[i], &p.Machines[i]
	switch {
	case m.Strategy == v1.RunStrategyHalted && m.Stopped, m.Stopped && s.State != v1alpha1.StateRestarting:
		p.end(i, v1alpha1.StateSkipped, whyStopped)
	case m.Outcome.Unknown != "":
		p.await(i, s.State, m.Outcome.Unknown)
	case s.State == v1alpha1.StateRestarting:
		p.restarting(i)
	case s.Migration != "" && s.State == v1alpha1.StateMigrating:
		p.migrating(i)
	default:
		p.applied(i)
	}
}

// restarting continues a restart. The restart has happened if the instance is not the one from before.
func (p *planner) restarting(i int) {
	s, m := &p.states[i], &p.Machines[i]
	switch {
	case m.Instance.UID == "":
		p.await(i, s.State, "waits for its next instance")
	case m.Instance.UID != s.Instance:
		p.restarted(i)
	case m.Instance.Deleting, m.RestartRequested:
		p.await(i, s.State, "waits until its instance has ended")
	case m.need() != NeedsRestart, !m.Outcome.Patched:
		p.applied(i)
	case p.NotAuthorized != "":
		p.hold(i, p.NotAuthorized)
	case !p.isOpen:
		p.hold(i, p.whyClosed())
	case m.Migration.Active:
		p.hold(i, "waits for the end of a migration")
	default:
		if p.await(i, s.State, m.attempted("is being restarted")); s.State == v1alpha1.StateRestarting {
			p.act(i, Restart)
		}
	}
}

// restarted continues with the instance after a restart.
func (p *planner) restarted(i int) {
	m := &p.Machines[i]
	switch {
	case m.need() != NeedsRestart, !m.Outcome.Patched:
		p.verify(i)
	case m.Instance.Generation != 0 && m.Instance.Generation < m.Generation:
		p.end(i, v1alpha1.StateDone, "it was changed again after its restart: "+m.why())
	case !m.Instance.Ready: // the status of the new instance is not complete
		p.verify(i)
	default:
		p.end(i, v1alpha1.StateFailed, "the change is still pending after the restart: "+m.why())
	}
}

// migrating continues a migration that the rollout creates.
func (p *planner) migrating(i int) {
	s, m := &p.states[i], &p.Machines[i]
	own := m.Migration.Name == s.Migration
	switch {
	case own && m.Migration.Failed:
		p.end(i, v1alpha1.StateFailed, "the migration failed: "+m.Migration.Reason)
	case own && m.Migration.Succeeded, s.Since != nil && m.Migration.Ended.After(s.Since.Time):
		s.Migration = ""
		p.verify(i)
	case own, m.Migration.Active:
		p.await(i, s.State, "is being migrated")
	case m.need() == NeedsRestart, m.need() == NeedsOther:
		s.Migration = ""
		p.applied(i)
	case p.NotAuthorized != "":
		p.hold(i, p.NotAuthorized)
	case !p.isOpen:
		p.hold(i, p.whyClosed())
	default:
		if p.await(i, s.State, m.attempted("is being migrated")); s.State == v1alpha1.StateMigrating {
			p.act(i, Migrate)
		}
	}
}

// applied continues after the change is written, if the rollout waits for KubeVirt.
func (p *planner) applied(i int) {
	s, m := &p.states[i], &p.Machines[i]
	switch need := m.need(); {
	case !m.Outcome.Patched:
		p.end(i, v1alpha1.StateDone, whyChangedAgain)
	case need == NeedsMigration && (s.State == v1alpha1.StateMigrating || m.Migration.Active):
		p.await(i, v1alpha1.StateMigrating, "is being migrated")
	case need == NeedsMigration, need == NeedsRestart:
		if s.Attempt >= maxAttempts || !p.allows(need.permission()) {
			p.end(i, v1alpha1.StateFailed, fmt.Sprintf("it turned out that the change takes %s: %s", need.permission(), m.why()))
			return
		}
		p.again(s)
	case need == NeedsOther:
		p.await(i, v1alpha1.StateUpdating, m.why())
	case m.Outcome.Awaits:
		p.await(i, v1alpha1.StateUpdating, "waits until KubeVirt has written the change to its instance")
	default:
		p.verify(i)
	}
}

// verify ends the change of a healthy virtual machine.
func (p *planner) verify(i int) {
	m := &p.Machines[i]
	if m.healthy(p.spec.Health.Ready) {
		p.end(i, v1alpha1.StateDone, "")
		return
	}
	condition := "Ready"
	if m.Instance.Ready {
		condition = "AgentConnected"
	}
	p.await(i, v1alpha1.StateVerifying, "waits for the condition "+condition)
}

// await waits in a state. The virtual machine fails after the timeout.
func (p *planner) await(i int, state v1alpha1.State, reason string) {
	s := &p.states[i]
	p.set(s, state, reason)
	left := s.Since.Add(p.limits.timeout).Sub(p.Now)
	if left <= 0 {
		p.end(i, v1alpha1.StateFailed, fmt.Sprintf("%s longer than %s: it %s", state, p.limits.timeout, reason))
		return
	}
	p.soon(left)
}

// hold waits without a timeout: the rollout itself is the reason.
func (p *planner) hold(i int, reason string) {
	s := &p.states[i]
	p.set(s, s.State, reason)
	s.Since = nil
	if !p.opens.IsZero() {
		p.soon(p.opens.Sub(p.Now))
	}
}

// isHeld reports whether hold has set the state.
func isHeld(s *v1alpha1.MachineStatus) bool { return inProgress(s.State) && s.Since == nil }

func (p *planner) whyClosed() string {
	if p.opens.IsZero() {
		return "no window of the rollout opens"
	}
	return "waits for the window that opens at " + p.opens.UTC().Format(time.RFC3339)
}
