package fleet

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts"
)

// Machine is what is observed of a selected virtual machine.
type Machine struct {
	Name string
	UID  types.UID
	// Generation of its spec.
	Generation int64
	Strategy   v1.VirtualMachineRunStrategy
	// Stopped reports that it does not run, and that nothing is about to start it.
	Stopped bool
	// Marked reports that this rollout has written its change into it.
	Marked bool
	// RestartRequested reports that KubeVirt is about to stop its instance and to start the next one.
	RestartRequested bool
	// VolumesMigrate reports that its volumes are being migrated to other claims.
	VolumesMigrate bool
	Instance       Instance
	Migration      Migration
	// Budgets are the indexes of the PodDisruptionBudgets that select its launcher pod.
	Budgets []int
	// WaitsFor is the name of another rollout that has priority; empty if there is none.
	WaitsFor string
	// Failure says why the last write to it failed; empty if it did not.
	Failure string
	Outcome Outcome

	// owed reports that a migration of the rollout failed and is to be repeated. Nothing else shows that: KubeVirt has written
	// the change to the instance.
	owed bool
}

// Instance is what is observed of the running instance. Its UID is empty if there is none.
type Instance struct {
	UID types.UID
	// Deleting reports that it is being deleted, or has ended.
	Deleting bool
	// Ready and Agent are its conditions Ready and AgentConnected.
	Ready, Agent bool
	// Generation of the virtual machine from which it was started; 0 if that is unknown.
	Generation int64
}

// Migration is what is observed of live migrations of a virtual machine.
type Migration struct {
	// Active reports that one is in progress.
	Active bool
	// Ended is the end of the last one that succeeded.
	Ended time.Time
	// Own is the last one that this rollout created: Name is empty if there is none.
	Name              string
	Succeeded, Failed bool
	// Reason says why it failed.
	Reason string
}

// Outcome is what the change, and what is pending, does to a virtual machine.
type Outcome struct {
	// Unknown says why nothing is known; empty if it is.
	Unknown string
	// Patched reports that the virtual machine has the change: the patch would not change it.
	Patched bool
	Needs   Need
	// Field and Reason are those of the change that decides.
	Field, Reason string
	// Awaits reports that KubeVirt is about to write a live change to the instance.
	Awaits bool
	// OwnMigration reports that KubeVirt does not start the migration that the change needs.
	OwnMigration bool
	// Denied are the findings for which the change, or the start after it, is denied.
	Denied []v1alpha1.Finding
}

// Need is what a change needs so that it reaches the guest, in the order of their effects.
type Need int

// The needs.
const (
	NeedsNothing Need = iota
	NeedsLive
	NeedsMigration
	NeedsRestart
	NeedsOther
)

// permission is what a rollout must allow for a need.
func (n Need) permission() v1alpha1.Permission {
	switch n {
	case NeedsMigration:
		return v1alpha1.AllowMigrate
	case NeedsRestart:
		return v1alpha1.AllowRestart
	}
	return v1alpha1.AllowLive
}

// OutcomeOf condenses the plan of a change. The methods are those by which KubeVirt moves running VMs. A change that KubeVirt
// has written to the instance before the rollout began may wait for a migration that failed: the rollout creates another one.
func OutcomeOf(plan *rollouts.Result, facts *platform.Facts) Outcome {
	o := Outcome{}
	automatic := false
	for i := range plan.Changes {
		change := &plan.Changes[i]
		if change.Takes == rollouts.LiveOnMigration && change.Announced == rollouts.ByCondition && !change.InProgress && len(facts.WorkloadUpdateMethods) > 0 {
			automatic = true
		}
		if change.Takes == rollouts.Live && change.Patched {
			o.Awaits = true
		}
		if need := needOf(change.Takes); need > o.Needs {
			o.Needs, o.Field, o.Reason = need, change.Field, change.Reason
		}
	}
	switch {
	case plan.Failure != "":
		o.fails(plan)
	case plan.Omitted > 0:
		o.Needs, o.Reason = NeedsOther, "The VM has more changes than can be planned."
	}
	o.OwnMigration = o.Needs == NeedsMigration && !automatic
	return o
}

// fails sets the change at which KubeVirt fails.
func (o *Outcome) fails(plan *rollouts.Result) {
	o.Needs, o.Reason = NeedsOther, "KubeVirt fails at a change of the VM: "+plan.Failure
	for i := range plan.Changes {
		if c := &plan.Changes[i]; c.Announced == rollouts.ByFailure {
			o.Field, o.Reason = c.Field, c.Reason
			return
		}
	}
}

func needOf(takes rollouts.Takes) Need {
	switch takes {
	case rollouts.Live:
		return NeedsLive
	case rollouts.LiveOnMigration:
		return NeedsMigration
	case rollouts.Restart:
		return NeedsRestart
	case rollouts.Blocked:
		return NeedsOther
	}
	return NeedsNothing // a stopped VM gets the change when it starts, and the others have no effect
}

// need is what the machine needs, with the migration that the rollout owes it.
func (m *Machine) need() Need {
	if m.Outcome.Needs < NeedsMigration && m.owed {
		return NeedsMigration
	}
	return m.Outcome.Needs
}

// why says what decides about the need.
func (m *Machine) why() string {
	switch {
	case m.Outcome.Needs < NeedsMigration && m.owed:
		return "an earlier migration failed"
	case m.Outcome.Field == "":
		return m.Outcome.Reason
	}
	return m.Outcome.Field + ": " + m.Outcome.Reason
}

// attempted adds to what a rollout does why the last attempt failed.
func (m *Machine) attempted(what string) string {
	if m.Failure == "" {
		return what
	}
	return what + "; the last attempt failed: " + m.Failure
}

// runs reports whether the machine has an instance that keeps running.
func (m *Machine) runs() bool { return m.Instance.UID != "" && !m.Instance.Deleting }

// unavailable reports whether the machine should be ready and is not, or is about to be restarted.
func (m *Machine) unavailable() bool {
	return !m.Stopped && m.Strategy != v1.RunStrategyWaitAsReceiver && (!m.runs() || !m.Instance.Ready || m.RestartRequested)
}

// healthy reports whether the machine is as a rollout requires it after its change.
func (m *Machine) healthy(ready v1alpha1.Readiness) bool {
	return m.runs() && m.Instance.Ready && (m.Instance.Agent || ready != v1alpha1.ReadyByAgent)
}

// Stopped reports whether a virtual machine does not run, and nothing is about to start it.
func Stopped(vm *v1.VirtualMachine, hasInstance bool) bool {
	strategy, err := vm.RunStrategy()
	if err != nil || hasInstance {
		return false
	}
	switch strategy {
	case v1.RunStrategyHalted:
		return true
	case v1.RunStrategyManual, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce:
		for _, request := range vm.Status.StateChangeRequests {
			if request.Action == v1.StartRequest {
				return false
			}
		}
		return cmp.Or(vm.Status.PrintableStatus, v1.VirtualMachineStatusStopped) == v1.VirtualMachineStatusStopped
	}
	return false
}

// RestartRequested reports whether KubeVirt is about to stop an instance of a virtual machine.
func RestartRequested(vm *v1.VirtualMachine, instance types.UID) bool {
	for _, request := range vm.Status.StateChangeRequests {
		if request.Action == v1.StopRequest && request.UID != nil && *request.UID == instance {
			return true
		}
	}
	return false
}
