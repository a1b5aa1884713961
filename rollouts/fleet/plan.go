package fleet

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// Input is a rollout and what is observed.
type Input struct {
	Rollout *v1alpha1.VirtualMachineRollout
	// Machines are the selected virtual machines that are not being deleted, sorted by name.
	Machines []Machine
	// Budgets are the PodDisruptionBudgets of the namespace, without those of KubeVirt.
	Budgets []Budget
	// Migrations are those that this rollout created.
	Migrations []OwnMigration
	// Invalid says why the spec cannot be carried out; empty if it can.
	Invalid string
	// NotAuthorized says why the requester may not act; empty if that is permitted.
	NotAuthorized string
	Now           time.Time
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Name string
	// Allowed is the number of pods that may be disrupted.
	Allowed int32
}

// OwnMigration is a migration that the rollout created.
type OwnMigration struct {
	Name, Machine string
	// Final reports that it has ended.
	Final bool
}

// Verb is what an action does.
type Verb string

// The verbs.
const (
	// Change writes the patch and the mark into the virtual machine.
	Change Verb = "change"
	// Restart calls the subresource restart of the virtual machine.
	Restart Verb = "restart"
	// Migrate creates a migration.
	Migrate Verb = "migrate"
	// RemoveMigration deletes a migration of the rollout that has ended.
	RemoveMigration Verb = "remove migration"
	// DeleteRollout deletes the rollout.
	DeleteRollout Verb = "delete"
)

// Action is a write. The caller applies the actions of one machine in their order, and stops at the first that fails.
type Action struct {
	Verb    Verb
	Machine string
	UID     types.UID
	// Migration is its name.
	Migration string
}

// Decision is what comes next.
type Decision struct {
	// Status is written before the actions.
	Status  v1alpha1.VirtualMachineRolloutStatus
	Actions []Action
	// Ended are the virtual machines whose change has just ended, with their state.
	Ended []v1alpha1.MachineStatus
	// After is when the next decision is due without a change; 0 for never.
	After time.Duration
}

// inProgress reports whether a state is one of a virtual machine that is being changed.
func inProgress(state v1alpha1.State) bool {
	switch state {
	case v1alpha1.StateUpdating, v1alpha1.StateMigrating, v1alpha1.StateRestarting, v1alpha1.StateVerifying:
		return true
	}
	return false
}

// planner makes one decision.
type planner struct {
	*Input

	spec     *v1alpha1.VirtualMachineRolloutSpec
	old      *v1alpha1.VirtualMachineRolloutStatus
	limits   limits
	isOpen   bool
	opens    time.Time
	decision Decision
	totals   totals
	// states are those of the machines, by their index.
	states []v1alpha1.MachineStatus
	// candidates are the indexes of the machines that can be changed now, or wait.
	candidates []int
	// lacking is the number of machines whose outcome is unknown.
	lacking int
}

// Next decides what comes next.
func Next(in *Input) Decision {
	p := &planner{Input: in, spec: &in.Rollout.Spec, old: &in.Rollout.Status}
	if d, ended := p.afterwards(); ended {
		return d
	}
	p.limits = limitsOf(p.spec, len(in.Machines))
	p.decision.Status = *p.old.DeepCopy()
	windows, err := windowsOf(p.spec.Windows)
	if err != nil && p.Invalid == "" {
		p.Invalid = err.Error()
	}
	p.isOpen, p.opens = open(windows, in.Now)
	p.states = make([]v1alpha1.MachineStatus, len(in.Machines))
	p.recall()
	p.owe()
	for i := range in.Machines {
		p.decide(i)
	}
	p.validate()
	p.begin()
	p.removeMigrations()
	p.report()
	return p.decision
}

// afterwards decides about a rollout that has ended: it is deleted after its time to live.
func (p *planner) afterwards() (Decision, bool) {
	if p.old.Finished == nil || p.old.ObservedGeneration != p.Rollout.Generation {
		return Decision{}, false
	}
	p.decision = Decision{Status: *p.old}
	p.removeMigrations()
	if ttl := p.spec.TTLSecondsAfterFinished; ttl != nil && p.old.Counts.Failed == 0 {
		left := p.old.Finished.Add(time.Duration(*ttl) * time.Second).Sub(p.Now)
		if left <= 0 {
			p.decision.Actions = append(p.decision.Actions, Action{Verb: DeleteRollout})
			return p.decision, true
		}
		p.decision.After = left
	}
	return p.decision, true
}

// recall restores what the status records of virtual machines, and takes a new patch and a resumption into account.
func (p *planner) recall() {
	status := &p.decision.Status
	digest := Digest(p.spec)
	if status.Change != digest {
		status.Change, status.CanaryEnded, status.CanaryPassed = digest, nil, false
	}
	status.Finished = nil
	recorded := make(map[string]*v1alpha1.MachineStatus, len(p.old.VirtualMachines))
	for i := range p.old.VirtualMachines {
		recorded[p.old.VirtualMachines[i].Name] = &p.old.VirtualMachines[i]
	}
	resumed := p.spec.Resume > status.Resumed
	status.Resumed = p.spec.Resume
	failed := 0
	for i := range p.Machines {
		m := &p.Machines[i]
		p.states[i] = v1alpha1.MachineStatus{Name: m.Name, UID: m.UID}
		was := recorded[m.Name]
		if was == nil || was.UID != m.UID {
			continue
		}
		if was.State == v1alpha1.StateFailed {
			failed++
		}
		if inProgress(was.State) || was.State == v1alpha1.StateFailed || was.Attempt > 0 {
			p.states[i] = *was.DeepCopy()
		}
	}
	if !resumed {
		return
	}
	if failed == 0 && status.CanaryEnded != nil {
		status.CanaryPassed = true
	}
	for i := range p.states {
		if p.states[i].State == v1alpha1.StateFailed {
			p.again(&p.states[i])
		}
	}
}

// owe finds the virtual machines that wait for another migration after one that failed.
func (p *planner) owe() {
	for i := range p.states {
		s := &p.states[i]
		p.Machines[i].owed = s.Migration != "" && (s.State == v1alpha1.StatePending || s.State == v1alpha1.StateWaiting)
	}
}

// again records that a virtual machine is tried again.
func (p *planner) again(s *v1alpha1.MachineStatus) {
	next := v1alpha1.MachineStatus{Name: s.Name, UID: s.UID, State: v1alpha1.StatePending, Attempt: s.Attempt + 1}
	if s.Migration != "" {
		next.Migration = MigrationName(p.Rollout.UID, s.UID, next.Attempt)
	}
	*s = next
}

// decide decides about a virtual machine that is being changed, or finds out whether it is to be changed.
func (p *planner) decide(i int) {
	s, m := &p.states[i], &p.Machines[i]
	if inProgress(s.State) && !m.Marked { // nothing is written yet: it is a candidate
		*s = v1alpha1.MachineStatus{Name: m.Name, UID: m.UID, Attempt: s.Attempt}
	}
	if inProgress(s.State) {
		p.advance(i)
	}
	if !inProgress(s.State) && s.State != v1alpha1.StateFailed {
		p.classify(i)
	}
}

// set changes a state, with the time at which it began.
func (p *planner) set(s *v1alpha1.MachineStatus, state v1alpha1.State, reason string) {
	if s.State != state || s.Since == nil {
		s.Since = &metav1.Time{Time: p.Now}
	}
	s.State, s.Reason = state, texts.Shorten(reason, v1alpha1.MaxReason)
}

// end ends the change of a virtual machine.
func (p *planner) end(i int, state v1alpha1.State, reason string) {
	s := &p.states[i]
	p.set(s, state, reason)
	if s.Instance = ""; state != v1alpha1.StateFailed {
		s.Migration = "" // that of one that failed is repeated
	}
	p.decision.Ended = append(p.decision.Ended, *s)
	if state != v1alpha1.StateFailed {
		*s = v1alpha1.MachineStatus{Name: s.Name, UID: s.UID} // the mark says that it is done
	}
}

func (p *planner) act(i int, verb Verb) {
	if p.spec.DryRun || p.NotAuthorized != "" {
		return
	}
	m := &p.Machines[i]
	p.decision.Actions = append(p.decision.Actions, Action{Verb: verb, Machine: m.Name, UID: m.UID, Migration: p.states[i].Migration})
}

// soon bounds the time until the next decision.
func (p *planner) soon(after time.Duration) {
	after = max(after, time.Second)
	if p.decision.After == 0 || after < p.decision.After {
		p.decision.After = after
	}
}

// removeMigrations removes the migrations that have ended and that no virtual machine waits for.
func (p *planner) removeMigrations() {
	awaited := map[string]bool{}
	for i := range p.states {
		if p.states[i].State == v1alpha1.StateMigrating {
			awaited[p.states[i].Migration] = true
		}
	}
	for _, m := range p.Migrations {
		if m.Final && !awaited[m.Name] {
			p.decision.Actions = append(p.decision.Actions, Action{Verb: RemoveMigration, Machine: m.Machine, Migration: m.Name})
		}
	}
}

func (p *planner) allows(permission v1alpha1.Permission) bool {
	if len(p.spec.Allow) == 0 {
		return permission == v1alpha1.AllowLive
	}
	return slices.Contains(p.spec.Allow, permission)
}
