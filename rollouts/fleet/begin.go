package fleet

import (
	"fmt"
	"time"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// begin begins the change of as many candidates as may be changed at the same time.
func (p *planner) begin() {
	p.count()
	why := p.paused()
	for _, i := range p.candidates {
		reason, waits := why, false
		if reason == "" {
			reason, waits = p.gate(i)
		}
		if reason == "" && !p.spec.DryRun {
			p.start(i)
			continue
		}
		if p.spec.DryRun {
			reason = p.wouldBe(i)
		}
		state := v1alpha1.StatePending
		if waits {
			state = v1alpha1.StateWaiting
		}
		p.rest(i, state, reason)
	}
}

// paused says why no virtual machine may be begun; empty if some may.
func (p *planner) paused() string {
	_, message := p.pause()
	return message
}

// start begins the change of a virtual machine.
func (p *planner) start(i int) {
	s, m := &p.states[i], &p.Machines[i]
	*s = v1alpha1.MachineStatus{Name: m.Name, UID: m.UID, Attempt: s.Attempt}
	need := m.need()
	switch {
	case m.Stopped, need < NeedsMigration:
		p.set(s, v1alpha1.StateUpdating, m.attempted("the change is being written"))
	case need == NeedsMigration:
		if m.Outcome.OwnMigration || m.Outcome.Needs != NeedsMigration {
			s.Migration = MigrationName(p.Rollout.UID, m.UID, s.Attempt)
		}
		p.set(s, v1alpha1.StateMigrating, m.attempted("is being migrated"))
	default:
		s.Instance = m.Instance.UID
		p.set(s, v1alpha1.StateRestarting, m.attempted("is being restarted"))
	}
	if !m.Marked {
		p.act(i, Change)
	}
	p.totals.touched++
	p.totals.add(p, i)
	if s.State == v1alpha1.StateRestarting {
		p.act(i, Restart) // at once: with the method Evict, KubeVirt would shut the guest down and not start some VMs again
	}
	p.soon(p.limits.timeout)
}

// wouldBe says what a rollout would do with a candidate.
func (p *planner) wouldBe(i int) string {
	m := &p.Machines[i]
	switch need := m.need(); {
	case m.Stopped:
		return "would be changed; " + whyStopped
	case need == NeedsNothing:
		return "would be changed"
	default:
		return fmt.Sprintf("would be changed, which takes %s: %s", need.permission(), m.why())
	}
}

// gate says why a candidate cannot be begun now; empty if it can. A candidate that waits does so for something that the
// rollout does not control.
func (p *planner) gate(i int) (reason string, waits bool) {
	m := &p.Machines[i]
	if i >= len(p.Machines)-p.limits.partition {
		return "is in the partition that is not changed", false
	}
	switch canary := p.spec.Strategy.Canary; {
	case p.totals.changing >= v1alpha1.MaxInProgress:
		return fmt.Sprintf("its turn has not come: %d virtual machines are being changed, which is the maximum", p.totals.changing), false
	case canary != nil && !p.decision.Status.CanaryPassed && p.totals.touched >= int(canary.Count):
		return "waits for the canary", false
	case m.Stopped:
		return "", false
	}
	need := m.need()
	if need >= NeedsMigration && !p.isOpen {
		if !p.opens.IsZero() {
			p.soon(p.opens.Sub(p.Now))
		}
		return p.whyClosed(), true
	}
	if need == NeedsMigration {
		if p.totals.migrating >= p.limits.migrations {
			return fmt.Sprintf("its turn has not come: strategy.maxConcurrentMigrations is %d, and %d virtual machines are being migrated", p.limits.migrations, p.totals.migrating), false
		}
		return "", false
	}
	if need == NeedsRestart {
		if name := p.disrupted(m); name != "" {
			return "waits for the PodDisruptionBudget " + name, true
		}
	}
	down := p.totals.down
	if !m.unavailable() {
		down++
	}
	if down > p.limits.unavailable {
		return fmt.Sprintf("its turn has not come: strategy.maxUnavailable is %d, and %d virtual machines are unavailable or being changed", p.limits.unavailable, p.totals.down), false
	}
	return "", false
}

// totals count virtual machines while some are begun.
type totals struct {
	// changing are being changed, touched were begun by the rollout, down are unavailable or may be because they are being
	// changed, and migrating have a migration.
	changing, touched, down, migrating int
	// disrupting are those that are being changed, by the index of a PodDisruptionBudget.
	disrupting []int32
}

// count counts the virtual machines before some are begun.
func (p *planner) count() {
	p.totals = totals{disrupting: make([]int32, len(p.Budgets))}
	for i := range p.Machines {
		m, s := &p.Machines[i], &p.states[i]
		if inProgress(s.State) || s.State == v1alpha1.StateFailed || m.Marked && s.Attempt == 0 {
			p.totals.touched++
		}
		if m.unavailable() {
			p.totals.down++
		}
		if m.Migration.Active {
			p.totals.migrating++
		}
		if inProgress(s.State) {
			p.totals.add(p, i)
		}
	}
}

// add counts a virtual machine that is being changed.
func (t *totals) add(p *planner, i int) {
	m := &p.Machines[i]
	t.changing++
	if p.states[i].State == v1alpha1.StateMigrating {
		if !m.Migration.Active {
			t.migrating++
		}
		return
	}
	if !m.Stopped && !m.unavailable() {
		t.down++
	}
	for _, b := range m.Budgets {
		t.disrupting[b]++
	}
}

// disrupted is the name of a PodDisruptionBudget that does not permit a restart. The virtual machines that are being
// changed count, whether or not the budget has noticed them.
func (p *planner) disrupted(m *Machine) string {
	for _, b := range m.Budgets {
		if p.Budgets[b].Allowed <= p.totals.disrupting[b] {
			return p.Budgets[b].Name
		}
	}
	return ""
}

// pause is the reason and the message for which no further virtual machine is begun; empty if there is none.
func (p *planner) pause() (reason, message string) {
	failed := p.failed()
	status := &p.decision.Status
	switch canary := p.spec.Strategy.Canary; {
	case p.Invalid != "":
		return v1alpha1.ReasonInvalid, p.Invalid
	case !status.Validation.Passed && status.Validation.Denied > 0:
		return v1alpha1.ReasonDenied, fmt.Sprintf("the change is denied for %d virtual machines; none is changed", status.Validation.Denied)
	case !status.Validation.Passed:
		return v1alpha1.ReasonWaiting, fmt.Sprintf("what the change does to %d virtual machines is not known yet", p.lacking)
	case p.spec.DryRun:
		return "", ""
	case p.NotAuthorized != "":
		return v1alpha1.ReasonNotAuthorized, p.NotAuthorized
	case p.spec.Paused:
		return v1alpha1.ReasonPausedByUser, "spec.paused is true"
	case failed >= v1alpha1.MaxFailed, p.spec.FailurePolicy != v1alpha1.FailureContinue && failed > int(p.spec.MaxFailures):
		return v1alpha1.ReasonPausedByFailures, fmt.Sprintf("%d virtual machines failed; increase spec.resume to continue", failed)
	case canary != nil && !status.CanaryPassed:
		return p.canary(canary)
	}
	return "", ""
}

// canary ends the canary once all its virtual machines are changed, and its pause once that has passed.
func (p *planner) canary(canary *v1alpha1.Canary) (reason, message string) {
	status := &p.decision.Status
	if status.CanaryEnded == nil && p.totals.changing == 0 && p.totals.touched >= int(canary.Count) {
		status.CanaryEnded = timeOf(p.Now)
	}
	if status.CanaryEnded == nil {
		return "", ""
	}
	pause, err := time.ParseDuration(canary.Pause)
	if canary.Pause == v1alpha1.PauseManual || err != nil {
		return v1alpha1.ReasonPausedByCanary, "the canary is changed; increase spec.resume to continue"
	}
	left := status.CanaryEnded.Add(pause).Sub(p.Now)
	if left <= 0 {
		status.CanaryPassed = true
		return "", ""
	}
	p.soon(left)
	return v1alpha1.ReasonPausedByCanary, "the canary is changed; the rollout continues at " + status.CanaryEnded.Add(pause).UTC().Format(time.RFC3339)
}

func (p *planner) failed() int {
	count := 0
	for i := range p.states {
		if p.states[i].State == v1alpha1.StateFailed {
			count++
		}
	}
	return count
}
