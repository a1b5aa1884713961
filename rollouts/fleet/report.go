package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// maxMessage bounds the messages of conditions, in bytes.
const maxMessage = 1024

// recheck is when the next decision is due while something is awaited that the rollout does not control.
const recheck = 30 * time.Second

func timeOf(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }

// report completes the status.
func (p *planner) report() {
	status := &p.decision.Status
	status.ObservedGeneration = p.Rollout.Generation
	status.Counts = p.counts()
	c := &status.Counts
	status.Progress = fmt.Sprintf("%d/%d", c.Done, c.Total)
	status.VirtualMachines, status.Omitted = p.listed()
	changing := c.Updating + c.Migrating + c.Restarting + c.Verifying
	if changing > 0 || c.Waiting > 0 || c.Pending > 0 {
		p.soon(recheck)
	}
	reason, message := p.pause()
	if held := p.partitioned(); reason == "" && held > 0 && changing == 0 && c.Waiting == 0 {
		reason, message = v1alpha1.ReasonPausedByPartition, fmt.Sprintf("%d virtual machines are in the partition", held)
	}
	o := p.outcome(changing, reason, message)
	status.Phase = o.phase
	if o.phase == v1alpha1.PhaseComplete || o.phase == v1alpha1.PhaseFailed {
		status.Finished = timeOf(p.Now)
		p.decision.After = 0
		if ttl := p.spec.TTLSecondsAfterFinished; ttl != nil {
			p.soon(time.Duration(*ttl) * time.Second)
		}
	}
	p.conditions(&o)
}

// result is the state of the rollout.
type result struct {
	phase           v1alpha1.Phase
	reason, message string
	// pausedBy is the reason of the condition Paused; empty if it is not paused.
	pausedBy string
	// degraded is the reason of the condition Degraded; empty if it is not degraded.
	degraded string
}

func (p *planner) outcome(changing int32, reason, message string) result {
	c, held := &p.decision.Status.Counts, p.held()
	o := result{reason: reason, message: message}
	if c.Failed > 0 {
		o.degraded = v1alpha1.ReasonFailed
	}
	switch left := changing + c.Pending + c.Waiting; {
	case reason == v1alpha1.ReasonInvalid:
		o.phase, o.degraded = v1alpha1.PhaseInvalid, reason
	case reason == v1alpha1.ReasonDenied:
		o.phase, o.degraded = v1alpha1.PhaseDenied, reason
	case p.spec.DryRun:
		o.phase, o.reason, o.message = v1alpha1.PhaseDryRun, v1alpha1.ReasonDryRun, p.summary()
	case left == 0 && c.Failed > 0 && reason == "":
		o.phase, o.reason, o.message = v1alpha1.PhaseFailed, v1alpha1.ReasonFailed, fmt.Sprintf("%d virtual machines failed", c.Failed)
	case c.Total == 0:
		o.phase, o.reason, o.message = v1alpha1.PhaseComplete, v1alpha1.ReasonNoMachines, "spec.selector matches no virtual machine of the namespace"
	case left == 0 && c.Failed == 0:
		o.phase, o.reason, o.message = v1alpha1.PhaseComplete, v1alpha1.ReasonComplete, fmt.Sprintf("%d virtual machines are done, %d are skipped", c.Done, c.Skipped)
	case reason == v1alpha1.ReasonNotAuthorized:
		o.phase, o.pausedBy, o.degraded = v1alpha1.PhasePaused, reason, reason
	case reason != "" && reason != v1alpha1.ReasonWaiting:
		o.phase, o.pausedBy = v1alpha1.PhasePaused, reason
	case changing > held || c.Waiting+held == 0:
		o.phase, o.reason, o.message = v1alpha1.PhaseProgressing, v1alpha1.ReasonRollingOut, fmt.Sprintf("%d virtual machines are being changed, %d are left", changing, c.Pending+c.Waiting)
	default:
		o.phase, o.reason, o.message = v1alpha1.PhaseWaiting, v1alpha1.ReasonWaiting, cmp.Or(message, p.firstWaiting())
	}
	return o
}

// conditions sets the conditions of the status.
func (p *planner) conditions(o *result) {
	set := func(kind string, is bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: texts.Shorten(message, maxMessage)}
		if is {
			c.Status = metav1.ConditionTrue
		}
		conditions.Set(&p.decision.Status.Conditions, c, p.Rollout.Generation, metav1.NewTime(p.Now))
	}
	set(v1alpha1.ConditionProgressing, o.phase == v1alpha1.PhaseProgressing || o.phase == v1alpha1.PhaseWaiting, o.reason, o.message)
	set(v1alpha1.ConditionComplete, o.phase == v1alpha1.PhaseComplete, o.reason, o.message)
	set(v1alpha1.ConditionDegraded, o.degraded != "", cmp.Or(o.degraded, v1alpha1.ReasonHealthy), p.whyDegraded(o))
	message := ""
	if o.pausedBy != "" {
		message = o.message
	}
	set(v1alpha1.ConditionPaused, o.pausedBy != "", cmp.Or(o.pausedBy, v1alpha1.ReasonNotPaused), message)
}

// whyDegraded names the first virtual machine that failed, or repeats why nothing can be done.
func (p *planner) whyDegraded(o *result) string {
	for i := range p.states {
		if s := &p.states[i]; o.degraded == v1alpha1.ReasonFailed && s.State == v1alpha1.StateFailed {
			return s.Name + ": " + s.Reason
		}
	}
	switch o.degraded {
	case "":
		return ""
	case v1alpha1.ReasonDenied:
		if found := p.decision.Status.Validation.Findings; len(found) > 0 {
			return fmt.Sprintf("%s; the first one: %s: %s", o.message, found[0].VirtualMachine, found[0].Message)
		}
	}
	return o.message
}

// held counts the virtual machines whose change has begun, and whose next step has to wait.
func (p *planner) held() int32 {
	count := int32(0)
	for i := range p.states {
		if isHeld(&p.states[i]) {
			count++
		}
	}
	return count
}

func (p *planner) firstWaiting() string {
	for i := range p.states {
		if s := &p.states[i]; s.State == v1alpha1.StateWaiting || isHeld(s) {
			return s.Name + ": " + s.Reason
		}
	}
	return ""
}

// summary says what a rollout would do.
func (p *planner) summary() string {
	counts := map[Need]int{}
	stopped := 0
	for _, i := range p.candidates {
		if p.Machines[i].Stopped {
			stopped++
			continue
		}
		counts[max(NeedsLive, p.Machines[i].need())]++
	}
	c := &p.decision.Status.Counts
	return fmt.Sprintf("would change %d live, %d by a migration, %d by a restart and %d that are stopped; %d wait, %d are skipped, %d need no change",
		counts[NeedsLive], counts[NeedsMigration], counts[NeedsRestart], stopped, c.Waiting, c.Skipped, c.Done)
}

// partitioned counts the candidates in the partition.
func (p *planner) partitioned() int {
	count := 0
	for _, i := range p.candidates {
		if i >= len(p.Machines)-p.limits.partition && !inProgress(p.states[i].State) {
			count++
		}
	}
	return count
}

func (p *planner) counts() v1alpha1.Counts {
	c := v1alpha1.Counts{Total: int32(len(p.Machines))} //nolint:gosec // a list of the API server
	of := map[v1alpha1.State]*int32{
		v1alpha1.StatePending: &c.Pending, v1alpha1.StateWaiting: &c.Waiting, v1alpha1.StateUpdating: &c.Updating,
		v1alpha1.StateMigrating: &c.Migrating, v1alpha1.StateRestarting: &c.Restarting, v1alpha1.StateVerifying: &c.Verifying,
		v1alpha1.StateDone: &c.Done, v1alpha1.StateSkipped: &c.Skipped, v1alpha1.StateFailed: &c.Failed,
	}
	for i := range p.states {
		if count := of[p.states[i].State]; count != nil {
			*count++
		}
		if p.Machines[i].unavailable() {
			c.Unavailable++
		}
	}
	return c
}

// listed are the virtual machines in the status. Those that the next decision needs are first, and always there.
func (p *planner) listed() (list []v1alpha1.MachineStatus, omitted int32) {
	order := func(s *v1alpha1.MachineStatus) int {
		switch {
		case inProgress(s.State):
			return 0
		case s.State == v1alpha1.StateFailed:
			return 1
		case s.Attempt > 0:
			return 2
		case s.State == v1alpha1.StateWaiting:
			return 3
		case s.State == v1alpha1.StateSkipped:
			return 4
		}
		return 5
	}
	for i := range p.states {
		if order(&p.states[i]) < 5 || len(p.states) <= v1alpha1.MaxMachines {
			list = append(list, p.states[i])
		}
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.MachineStatus) int { return order(&a) - order(&b) })
	list = list[:min(len(list), v1alpha1.MaxMachines)]
	return list, int32(len(p.states) - len(list)) //nolint:gosec // a list of the API server
}
