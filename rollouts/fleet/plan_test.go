package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/rollouts/fleet"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // a Saturday

// rollout is one that may do everything, with changes.
func rollout(change ...func(*v1alpha1.VirtualMachineRolloutSpec)) *v1alpha1.VirtualMachineRollout {
	r := &v1alpha1.VirtualMachineRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bigger", UID: "rollout", Generation: 1},
		Spec: v1alpha1.VirtualMachineRolloutSpec{
			Patch: &runtime.RawExtension{Raw: []byte(`{"template": {}}`)},
			Allow: []v1alpha1.Permission{v1alpha1.AllowLive, v1alpha1.AllowMigrate, v1alpha1.AllowRestart},
		},
	}
	for _, c := range change {
		c(&r.Spec)
	}
	return r
}

func number(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) } //nolint:gosec // small numbers

// atOnce are the virtual machines that may be unavailable.
func atOnce(n int) func(*v1alpha1.VirtualMachineRolloutSpec) {
	return func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Strategy.MaxUnavailable = number(n) }
}

// machine runs and needs something.
func machine(name string, need fleet.Need) fleet.Machine {
	return fleet.Machine{
		Name: name, UID: types.UID("vm-" + name), Generation: 2, Strategy: kubevirtv1.RunStrategyAlways,
		Instance: fleet.Instance{UID: types.UID("vmi-" + name), Ready: true, Agent: true, Generation: 1},
		Outcome:  fleet.Outcome{Needs: need, Field: "spec.x", Reason: "why"},
	}
}

func machines(count int, need fleet.Need) []fleet.Machine {
	all := make([]fleet.Machine, count)
	for i := range all {
		all[i] = machine(fmt.Sprintf("vm%03d", i), need)
	}
	return all
}

// stated is what a decision says, in short: NAME STATE, and the actions.
func stated(d *fleet.Decision) (states, actions []string) {
	for _, s := range d.Status.VirtualMachines {
		states = append(states, s.Name+" "+string(s.State))
	}
	slices.Sort(states)
	for _, a := range d.Actions {
		actions = append(actions, strings.TrimSpace(string(a.Verb)+" "+a.Machine))
	}
	return states, actions
}

// reasonOf is the reason of a virtual machine.
func reasonOf(d *fleet.Decision, name string) string {
	for _, s := range d.Status.VirtualMachines {
		if s.Name == name {
			return s.Reason
		}
	}
	return "not listed"
}

// TestClasses: one virtual machine, and what becomes of it.
func TestClasses(t *testing.T) {
	for name, s := range map[string]struct {
		machine fleet.Machine
		change  func(*fleet.Machine)
		spec    func(*v1alpha1.VirtualMachineRolloutSpec)
		state   v1alpha1.State
		reason  string
		actions []string
	}{
		"live":                  {machine: machine("a", fleet.NeedsLive), state: v1alpha1.StateUpdating, actions: []string{"change a"}},
		"restart":               {machine: machine("a", fleet.NeedsRestart), state: v1alpha1.StateRestarting, actions: []string{"change a", "restart a"}},
		"migrated by KubeVirt":  {machine: machine("a", fleet.NeedsMigration), state: v1alpha1.StateMigrating, actions: []string{"change a"}},
		"no effect":             {machine: machine("a", fleet.NeedsNothing), state: v1alpha1.StateUpdating, actions: []string{"change a"}},
		"conforms":              {machine: machine("a", fleet.NeedsNothing), change: func(m *fleet.Machine) { m.Outcome.Patched = true }, state: v1alpha1.StateDone},
		"conforms by default":   {machine: machine("a", fleet.NeedsLive), change: func(m *fleet.Machine) { m.Outcome.Patched = true }, state: v1alpha1.StateDone},
		"pending restart":       {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.Outcome.Patched = true }, state: v1alpha1.StateRestarting, actions: []string{"change a", "restart a"}},
		"not allowed":           {machine: machine("a", fleet.NeedsRestart), spec: func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Allow = nil }, state: v1alpha1.StateSkipped, reason: "the rollout does not allow Restart: spec.x: why"},
		"migration not allowed": {machine: machine("a", fleet.NeedsMigration), spec: func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Allow = spec.Allow[:1] }, state: v1alpha1.StateSkipped, reason: "the rollout does not allow Migrate: spec.x: why"},
		"live not allowed":      {machine: machine("a", fleet.NeedsLive), spec: func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Allow = spec.Allow[2:] }, state: v1alpha1.StateSkipped, reason: "the rollout does not allow Live: spec.x: why"},
		"blocked":               {machine: machine("a", fleet.NeedsOther), state: v1alpha1.StateWaiting, reason: "spec.x: why"},
		"unknown":               {machine: machine("a", fleet.NeedsLive), change: func(m *fleet.Machine) { m.Outcome = fleet.Outcome{Unknown: "no answer"} }, state: v1alpha1.StateWaiting, reason: "no answer"},
		"halted":                {machine: machine("a", fleet.NeedsNothing), change: stopped(kubevirtv1.RunStrategyHalted), state: v1alpha1.StateUpdating, actions: []string{"change a"}},
		"halted and changed": {
			machine: machine("a", fleet.NeedsNothing), change: func(m *fleet.Machine) {
				stopped(kubevirtv1.RunStrategyHalted)(m)
				m.Marked, m.Outcome.Patched = true, true
			}, state: v1alpha1.StateSkipped, reason: "it is stopped: the change takes effect when it starts",
		},
		"halted without a patch": {
			machine: machine("a", fleet.NeedsNothing), change: func(m *fleet.Machine) {
				stopped(kubevirtv1.RunStrategyHalted)(m)
				m.Outcome.Patched = true
			}, state: v1alpha1.StateSkipped, reason: "it is stopped",
		},
		"receiver": {
			machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.Strategy = kubevirtv1.RunStrategyWaitAsReceiver },
			state: v1alpha1.StateSkipped, reason: "its run strategy is WaitAsReceiver: it waits for a migration from another cluster",
		},
		"once":            {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.Strategy = kubevirtv1.RunStrategyOnce }, state: v1alpha1.StateSkipped, reason: "KubeVirt does not restart a VM with the run strategy Once: spec.x: why"},
		"another rollout": {machine: machine("a", fleet.NeedsLive), change: func(m *fleet.Machine) { m.WaitsFor = "older" }, state: v1alpha1.StateWaiting, reason: "waits for the VirtualMachineRollout older, which selects it too"},
		"volumes migrate": {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.VolumesMigrate = true }, state: v1alpha1.StateWaiting, reason: "waits until its volumes are migrated"},
		"volumes migrate, and only live changes are allowed": {machine: machine("a", fleet.NeedsMigration), change: func(m *fleet.Machine) { m.VolumesMigrate = true }, spec: func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Allow = spec.Allow[:1] }, state: v1alpha1.StateWaiting, reason: "waits until its volumes are migrated"},
		"stopped by another user":                            {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.RestartRequested = true }, state: v1alpha1.StateWaiting, reason: "waits until its instance has ended, which another user has requested"},
		"ends":                                               {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.Instance.Deleting = true }, state: v1alpha1.StateWaiting},
		"migrates":                                           {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.Migration.Active = true }, state: v1alpha1.StateWaiting, reason: "waits for the end of a migration"},
		"done before":                                        {machine: machine("a", fleet.NeedsRestart), change: func(m *fleet.Machine) { m.Marked = true }, state: v1alpha1.StateDone},
	} {
		t.Run(name, func(t *testing.T) {
			if s.change != nil {
				s.change(&s.machine)
			}
			r := rollout()
			if s.spec != nil {
				s.spec(&r.Spec)
			}
			d := fleet.Next(&fleet.Input{Rollout: r, Machines: []fleet.Machine{s.machine}, Now: noon})
			states, actions := stated(&d)
			if diff := cmp.Diff([]string{"a " + string(s.state)}, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(s.actions, actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if got := reasonOf(&d, "a"); s.reason != "" && got != s.reason {
				t.Errorf("reason %q, want %q", got, s.reason)
			}
		})
	}
}

func stopped(strategy kubevirtv1.VirtualMachineRunStrategy) func(*fleet.Machine) {
	return func(m *fleet.Machine) { m.Strategy, m.Stopped, m.Instance = strategy, true, fleet.Instance{} }
}

// begun is a rollout that has begun with a virtual machine.
func begun(state v1alpha1.State, change ...func(*v1alpha1.MachineStatus)) *v1alpha1.VirtualMachineRollout {
	r := rollout()
	s := v1alpha1.MachineStatus{Name: "a", UID: "vm-a", State: state, Since: &metav1.Time{Time: noon.Add(-time.Minute)}}
	if state == v1alpha1.StateRestarting {
		s.Instance = "vmi-a"
	}
	for _, c := range change {
		c(&s)
	}
	r.Status = v1alpha1.VirtualMachineRolloutStatus{
		ObservedGeneration: 1, Change: fleet.Digest(&r.Spec), Validation: &v1alpha1.Validation{Generation: 1, Passed: true},
		VirtualMachines: []v1alpha1.MachineStatus{s},
	}
	return r
}

// TestAdvance: a virtual machine that is being changed, and what comes next.
func TestAdvance(t *testing.T) {
	next := fleet.Instance{UID: "vmi-next", Ready: true, Generation: 2}
	long := func(s *v1alpha1.MachineStatus) { s.Since.Time = noon.Add(-time.Hour) }
	own := func(s *v1alpha1.MachineStatus) { s.Migration = "m" }
	for name, s := range map[string]struct {
		rollout *v1alpha1.VirtualMachineRollout
		need    fleet.Need
		change  func(*fleet.Machine)
		input   func(*fleet.Input)
		state   v1alpha1.State
		reason  string
		actions []string
	}{
		"killed before the change":         {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Marked, m.Outcome.Patched = false, false }, state: v1alpha1.StateRestarting, actions: []string{"change a", "restart a"}},
		"killed before the restart":        {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, state: v1alpha1.StateRestarting, actions: []string{"restart a"}},
		"restart requested":                {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.RestartRequested = true }, state: v1alpha1.StateRestarting},
		"instance ends":                    {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Instance.Deleting = true }, state: v1alpha1.StateRestarting},
		"no instance":                      {rollout: begun(v1alpha1.StateRestarting), change: func(m *fleet.Machine) { m.Instance = fleet.Instance{} }, state: v1alpha1.StateRestarting},
		"no instance of a manual one":      {rollout: begun(v1alpha1.StateRestarting), change: stopped(kubevirtv1.RunStrategyManual), state: v1alpha1.StateRestarting},
		"halted by its owner":              {rollout: begun(v1alpha1.StateRestarting), change: stopped(kubevirtv1.RunStrategyHalted), state: v1alpha1.StateSkipped},
		"restarted":                        {rollout: begun(v1alpha1.StateRestarting), change: func(m *fleet.Machine) { m.Instance = next }, state: v1alpha1.StateDone},
		"restarted, not ready":             {rollout: begun(v1alpha1.StateRestarting), change: func(m *fleet.Machine) { m.Instance = fleet.Instance{UID: "vmi-next"} }, state: v1alpha1.StateVerifying, reason: "waits for the condition Ready"},
		"restarted by another user":        {rollout: begun(v1alpha1.StateVerifying), change: func(m *fleet.Machine) { m.Instance = next }, state: v1alpha1.StateDone},
		"window closed":                    {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, input: at("0 22 * * *"), state: v1alpha1.StateRestarting, reason: "waits for the window that opens at 2026-11-21T22:00:00Z"},
		"window closed after restart":      {rollout: begun(v1alpha1.StateRestarting), change: func(m *fleet.Machine) { m.Instance = next }, input: at("0 22 * * *"), state: v1alpha1.StateDone},
		"not authorized":                   {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, input: func(in *fleet.Input) { in.NotAuthorized = "alice may not" }, state: v1alpha1.StateRestarting, reason: "alice may not"},
		"restart takes long":               {rollout: begun(v1alpha1.StateRestarting, long), change: func(m *fleet.Machine) { m.Instance = fleet.Instance{} }, state: v1alpha1.StateFailed, reason: "Restarting longer than 10m0s: it waits for its next instance"},
		"never ready":                      {rollout: begun(v1alpha1.StateVerifying, long), change: func(m *fleet.Machine) { m.Instance.Ready = false }, state: v1alpha1.StateFailed, reason: "Verifying longer than 10m0s: it waits for the condition Ready"},
		"agent":                            {rollout: begun(v1alpha1.StateVerifying), change: func(m *fleet.Machine) { m.Instance.Agent = false }, input: func(in *fleet.Input) { in.Rollout.Spec.Health.Ready = v1alpha1.ReadyByAgent }, state: v1alpha1.StateVerifying, reason: "waits for the condition AgentConnected"},
		"pending after restart":            {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Instance = next }, state: v1alpha1.StateFailed, reason: "the change is still pending after the restart: spec.x: why"},
		"edited after restart":             {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Instance, m.Generation = next, 3 }, state: v1alpha1.StateDone},
		"reverted before the restart":      {rollout: begun(v1alpha1.StateRestarting), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Outcome.Patched = false }, state: v1alpha1.StateDone},
		"live change is written":           {rollout: begun(v1alpha1.StateUpdating), need: fleet.NeedsLive, change: func(m *fleet.Machine) { m.Outcome.Awaits = true }, state: v1alpha1.StateUpdating},
		"live change":                      {rollout: begun(v1alpha1.StateUpdating), state: v1alpha1.StateDone},
		"live change makes it unready":     {rollout: begun(v1alpha1.StateUpdating), change: func(m *fleet.Machine) { m.Instance.Ready = false }, state: v1alpha1.StateVerifying},
		"halted and changed":               {rollout: begun(v1alpha1.StateUpdating), change: stopped(kubevirtv1.RunStrategyHalted), state: v1alpha1.StateSkipped, reason: "it is stopped: the change takes effect when it starts"},
		"live change needs a restart":      {rollout: begun(v1alpha1.StateUpdating), need: fleet.NeedsRestart, state: v1alpha1.StateRestarting, actions: []string{"restart a"}},
		"needs what is not allowed":        {rollout: begun(v1alpha1.StateUpdating), need: fleet.NeedsRestart, input: func(in *fleet.Input) { in.Rollout.Spec.Allow = in.Rollout.Spec.Allow[:1] }, state: v1alpha1.StateFailed, reason: "it turned out that the change takes Restart: spec.x: why"},
		"KubeVirt migrates":                {rollout: begun(v1alpha1.StateMigrating), need: fleet.NeedsMigration, state: v1alpha1.StateMigrating},
		"KubeVirt has migrated":            {rollout: begun(v1alpha1.StateMigrating), state: v1alpha1.StateDone},
		"KubeVirt does not migrate":        {rollout: begun(v1alpha1.StateMigrating, long), need: fleet.NeedsMigration, state: v1alpha1.StateFailed, reason: "Migrating longer than 10m0s: it is being migrated"},
		"own migration is missing":         {rollout: begun(v1alpha1.StateMigrating, own), state: v1alpha1.StateMigrating, actions: []string{"migrate a"}},
		"own migration waits for a window": {rollout: begun(v1alpha1.StateMigrating, own), input: at("0 22 * * *"), state: v1alpha1.StateMigrating, reason: "waits for the window that opens at 2026-11-21T22:00:00Z"},
		"own migration waits for another":  {rollout: begun(v1alpha1.StateMigrating, own), change: func(m *fleet.Machine) { m.Migration.Active = true }, state: v1alpha1.StateMigrating},
		"another has migrated it":          {rollout: begun(v1alpha1.StateMigrating, own), change: func(m *fleet.Machine) { m.Migration.Ended = noon }, state: v1alpha1.StateDone},
		"own migration runs":               {rollout: begun(v1alpha1.StateMigrating, own), change: func(m *fleet.Machine) { m.Migration = fleet.Migration{Name: "m", Active: true} }, input: migration(false), state: v1alpha1.StateMigrating},
		"own migration succeeded":          {rollout: begun(v1alpha1.StateMigrating, own), change: func(m *fleet.Machine) { m.Migration = fleet.Migration{Name: "m", Succeeded: true} }, input: migration(true), state: v1alpha1.StateDone, actions: []string{"remove migration a"}},
		"own migration failed": {
			rollout: begun(v1alpha1.StateMigrating, own), change: func(m *fleet.Machine) { m.Migration = fleet.Migration{Name: "m", Failed: true, Reason: "no node"} },
			input: migration(true), state: v1alpha1.StateFailed, reason: "the migration failed: no node", actions: []string{"remove migration a"},
		},
		"own migration is repeated": {
			rollout: begun(v1alpha1.StateFailed, own), input: func(in *fleet.Input) { in.Rollout.Spec.Resume = 1 },
			state: v1alpha1.StateMigrating, reason: "is being migrated",
		},
		"own migration fails again": {
			rollout: begun(v1alpha1.StateFailed, own), input: migration(true), state: v1alpha1.StateFailed, actions: []string{"remove migration a"},
		},
		"own migration is not created": {
			rollout: begun(v1alpha1.StateMigrating, own), change: func(m *fleet.Machine) { m.Failure = "no quota" },
			state: v1alpha1.StateMigrating, reason: "is being migrated; the last attempt failed: no quota", actions: []string{"migrate a"},
		},
		"restart is not accepted": {
			rollout: begun(v1alpha1.StateRestarting, long), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Failure = "no answer" },
			state: v1alpha1.StateFailed, reason: "Restarting longer than 10m0s: it is being restarted; the last attempt failed: no answer",
		},
		"recreated": {rollout: begun(v1alpha1.StateRestarting, func(s *v1alpha1.MachineStatus) { s.UID = "vm-before" }), need: fleet.NeedsRestart, change: func(m *fleet.Machine) { m.Marked, m.Outcome.Patched = false, false }, state: v1alpha1.StateRestarting, actions: []string{"change a", "restart a"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine("a", s.need)
			m.Marked, m.Outcome.Patched = true, true
			if s.change != nil {
				s.change(&m)
			}
			in := &fleet.Input{Rollout: s.rollout, Machines: []fleet.Machine{m}, Now: noon}
			if s.input != nil {
				s.input(in)
			}
			d := fleet.Next(in)
			states, actions := stated(&d)
			if diff := cmp.Diff([]string{"a " + string(s.state)}, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(s.actions, actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if got := reasonOf(&d, "a"); s.reason != "" && got != s.reason {
				t.Errorf("reason %q, want %q", got, s.reason)
			}
		})
	}
}

// TestNoMachines: a rollout that selects nothing is complete, and says why.
func TestNoMachines(t *testing.T) {
	d := fleet.Next(&fleet.Input{Rollout: rollout(), Now: noon})
	complete := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionComplete)
	if d.Status.Phase != v1alpha1.PhaseComplete || complete.Status != metav1.ConditionTrue || complete.Reason != v1alpha1.ReasonNoMachines || complete.Message != "spec.selector matches no virtual machine of the namespace" {
		t.Errorf("%+v", d.Status)
	}
}

// TestHeld: the window closed between the change and the restart of one virtual machine. The rollout waits until every
// virtual machine that it has begun waits, even for a day.
func TestHeld(t *testing.T) {
	const waits = "waits for the window that opens at 2026-11-21T22:00:00Z"
	for name, s := range map[string]struct {
		other   fleet.Machine
		phase   v1alpha1.Phase
		message string
	}{
		"another waits":          {machine("b", fleet.NeedsRestart), v1alpha1.PhaseWaiting, "a: " + waits},
		"another is done":        {machine("b", fleet.NeedsNothing), v1alpha1.PhaseWaiting, "a: " + waits},
		"another can be changed": {machine("b", fleet.NeedsLive), v1alpha1.PhaseProgressing, "2 virtual machines are being changed, 0 are left"},
	} {
		t.Run(name, func(t *testing.T) {
			held := machine("a", fleet.NeedsRestart)
			held.Marked, held.Outcome.Patched = true, true
			s.other.Marked = s.other.Outcome.Needs == fleet.NeedsNothing
			in := &fleet.Input{Rollout: begun(v1alpha1.StateRestarting), Machines: []fleet.Machine{held, s.other}, Now: noon}
			at("0 22 * * *")(in)
			atOnce(2)(&in.Rollout.Spec)
			in.Rollout.Status.Change = fleet.Digest(&in.Rollout.Spec)
			d := fleet.Next(in)
			progressing := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionProgressing)
			if d.Status.Phase != s.phase || progressing.Status != metav1.ConditionTrue || progressing.Message != s.message {
				t.Errorf("%s: %+v", d.Status.Phase, progressing)
			}
			if reason := reasonOf(&d, "a"); d.Status.Counts.Restarting != 1 || reason != waits {
				t.Errorf("%+v: %s", d.Status.Counts, reason)
			}
		})
	}
}

// at is a window of an hour.
func at(schedule string) func(*fleet.Input) {
	return func(in *fleet.Input) {
		in.Rollout.Spec.Windows = []v1alpha1.Window{{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}}}
	}
}

func migration(final bool) func(*fleet.Input) {
	return func(in *fleet.Input) { in.Migrations = []fleet.OwnMigration{{Name: "m", Machine: "a", Final: final}} }
}

// TestGates: which of several virtual machines are begun.
func TestGates(t *testing.T) {
	down := func(indexes ...int) func(*fleet.Input) {
		return func(in *fleet.Input) {
			for _, i := range indexes {
				in.Machines[i].Instance = fleet.Instance{}
			}
		}
	}
	budget := func(allowed int32) func(*fleet.Input) {
		return func(in *fleet.Input) {
			in.Budgets = []fleet.Budget{{Name: "quorum", Allowed: allowed}}
			for i := range in.Machines {
				in.Machines[i].Budgets = []int{0}
			}
		}
	}
	spec := func(change func(*v1alpha1.VirtualMachineRolloutSpec)) func(*fleet.Input) {
		return func(in *fleet.Input) { change(&in.Rollout.Spec) }
	}
	turn := func(limit, down int) string {
		return fmt.Sprintf("its turn has not come: strategy.maxUnavailable is %d, and %d virtual machines are unavailable or being changed", limit, down)
	}
	percent := func(text string) *intstr.IntOrString { return new(intstr.FromString(text)) }
	for name, s := range map[string]struct {
		count  int
		need   fleet.Need
		change []func(*fleet.Input)
		begun  int
		phase  v1alpha1.Phase
		// reason is that of the last virtual machine.
		reason string
	}{
		"one by default":               {10, fleet.NeedsRestart, nil, 1, v1alpha1.PhaseProgressing, turn(1, 1)},
		"live, one by default":         {10, fleet.NeedsLive, nil, 1, v1alpha1.PhaseProgressing, turn(1, 1)},
		"five":                         {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(5))}, 5, v1alpha1.PhaseProgressing, turn(5, 5)},
		"percent":                      {10, fleet.NeedsRestart, []func(*fleet.Input){spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Strategy.MaxUnavailable = percent("39%") })}, 3, v1alpha1.PhaseProgressing, ""},
		"percent of few":               {3, fleet.NeedsRestart, []func(*fleet.Input){spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Strategy.MaxUnavailable = percent("1%") })}, 1, v1alpha1.PhaseProgressing, ""},
		"one is down":                  {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(5)), down(9)}, 5, v1alpha1.PhaseProgressing, ""},
		"those down are begun":         {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(5)), down(0, 1)}, 5, v1alpha1.PhaseProgressing, ""},
		"too many are down":            {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(2)), down(6, 7, 8)}, 0, v1alpha1.PhaseProgressing, turn(2, 3)},
		"a restart is requested":       {10, fleet.NeedsRestart, []func(*fleet.Input){func(in *fleet.Input) { in.Machines[9].RestartRequested = true }}, 0, v1alpha1.PhaseWaiting, ""},
		"a hundred at most":            {300, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(300))}, 100, v1alpha1.PhaseProgressing, "its turn has not come: 100 virtual machines are being changed, which is the maximum"},
		"two migrations by default":    {10, fleet.NeedsMigration, nil, 2, v1alpha1.PhaseProgressing, "its turn has not come: strategy.maxConcurrentMigrations is 2, and 2 virtual machines are being migrated"},
		"another migration":            {10, fleet.NeedsMigration, []func(*fleet.Input){func(in *fleet.Input) { in.Machines[9].Migration.Active = true }}, 1, v1alpha1.PhaseProgressing, "waits for the end of a migration"},
		"migrations do not count":      {10, fleet.NeedsMigration, []func(*fleet.Input){spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Strategy.MaxConcurrentMigrations = new(int32(4)) })}, 4, v1alpha1.PhaseProgressing, ""},
		"paused":                       {10, fleet.NeedsRestart, []func(*fleet.Input){spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Paused = true })}, 0, v1alpha1.PhasePaused, "spec.paused is true"},
		"not authorized":               {10, fleet.NeedsRestart, []func(*fleet.Input){func(in *fleet.Input) { in.NotAuthorized = "alice may not" }}, 0, v1alpha1.PhasePaused, "alice may not"},
		"invalid":                      {10, fleet.NeedsRestart, []func(*fleet.Input){func(in *fleet.Input) { in.Invalid = "the selector" }}, 0, v1alpha1.PhaseInvalid, "the selector"},
		"invalid window":               {10, fleet.NeedsRestart, []func(*fleet.Input){at("often")}, 0, v1alpha1.PhaseInvalid, ""},
		"dry run":                      {10, fleet.NeedsRestart, []func(*fleet.Input){spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.DryRun = true })}, 0, v1alpha1.PhaseDryRun, "would be changed, which takes Restart: spec.x: why"},
		"partition":                    {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(9)), spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Strategy.Partition = number(8) })}, 2, v1alpha1.PhaseProgressing, "is in the partition that is not changed"},
		"partition in percent":         {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(9)), spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Strategy.Partition = percent("75%") })}, 2, v1alpha1.PhaseProgressing, ""},
		"only the partition is left":   {3, fleet.NeedsRestart, []func(*fleet.Input){spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Strategy.Partition = number(3) })}, 0, v1alpha1.PhasePaused, ""},
		"canary":                       {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(5)), spec(canary(2, ""))}, 2, v1alpha1.PhaseProgressing, "waits for the canary"},
		"window is closed":             {10, fleet.NeedsRestart, []func(*fleet.Input){at("0 22 * * *")}, 0, v1alpha1.PhaseWaiting, "waits for the window that opens at 2026-11-21T22:00:00Z"},
		"window is closed, migrations": {10, fleet.NeedsMigration, []func(*fleet.Input){at("0 22 * * *")}, 0, v1alpha1.PhaseWaiting, ""},
		"window does not matter":       {10, fleet.NeedsLive, []func(*fleet.Input){at("0 22 * * *")}, 1, v1alpha1.PhaseProgressing, ""},
		"window is open":               {10, fleet.NeedsRestart, []func(*fleet.Input){at("30 11 * * 6")}, 1, v1alpha1.PhaseProgressing, ""},
		"window opens now":             {10, fleet.NeedsRestart, []func(*fleet.Input){at("0 12 * * *")}, 1, v1alpha1.PhaseProgressing, ""},
		"window closes now":            {10, fleet.NeedsRestart, []func(*fleet.Input){at("0 11 * * *")}, 0, v1alpha1.PhaseWaiting, ""},
		"window in another zone":       {10, fleet.NeedsRestart, []func(*fleet.Input){at("0 13 * * *"), spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.Windows[0].TimeZone = "Europe/Zurich" })}, 1, v1alpha1.PhaseProgressing, ""},
		"no budget":                    {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(5)), budget(0)}, 0, v1alpha1.PhaseWaiting, "waits for the PodDisruptionBudget quorum"},
		"budget of two":                {10, fleet.NeedsRestart, []func(*fleet.Input){spec(atOnce(5)), budget(2)}, 2, v1alpha1.PhaseProgressing, "waits for the PodDisruptionBudget quorum"},
		"live needs no budget":         {10, fleet.NeedsLive, []func(*fleet.Input){spec(atOnce(5)), budget(0)}, 5, v1alpha1.PhaseProgressing, ""},
		"denied":                       {10, fleet.NeedsLive, []func(*fleet.Input){spec(atOnce(5)), denied(3)}, 0, v1alpha1.PhaseDenied, "the change is denied for 1 virtual machines; none is changed"},
		"denied are skipped":           {10, fleet.NeedsLive, []func(*fleet.Input){spec(atOnce(9)), denied(3), spec(func(s *v1alpha1.VirtualMachineRolloutSpec) { s.SkipDenied = true })}, 9, v1alpha1.PhaseProgressing, ""},
		"not known yet":                {10, fleet.NeedsLive, []func(*fleet.Input){func(in *fleet.Input) { in.Machines[4].Outcome = fleet.Outcome{Unknown: "no answer"} }}, 0, v1alpha1.PhaseWaiting, "what the change does to 1 virtual machines is not known yet"},
		"nothing is selected":          {0, fleet.NeedsLive, nil, 0, v1alpha1.PhaseComplete, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := &fleet.Input{Rollout: rollout(), Machines: machines(s.count, s.need), Now: noon}
			for _, change := range s.change {
				change(in)
			}
			d := fleet.Next(in)
			c := d.Status.Counts
			if got := int(c.Updating + c.Migrating + c.Restarting); got != s.begun || d.Status.Phase != s.phase {
				t.Errorf("%d are begun and the phase is %s, want %d and %s: %+v", got, d.Status.Phase, s.begun, s.phase, d.Status.Conditions)
			}
			changes := 0
			for _, a := range d.Actions {
				if a.Verb == fleet.Change {
					changes++
				}
			}
			if changes != s.begun {
				t.Errorf("%d changes for %d that are begun", changes, s.begun)
			}
			if last := fmt.Sprintf("vm%03d", s.count-1); s.reason != "" && reasonOf(&d, last) != s.reason {
				t.Errorf("the reason of %s is %q, want %q", last, reasonOf(&d, last), s.reason)
			}
			isTrue(t, &d, map[v1alpha1.Phase][]string{
				v1alpha1.PhaseProgressing: {"Progressing"}, v1alpha1.PhaseWaiting: {"Progressing"}, v1alpha1.PhaseComplete: {"Complete"},
				v1alpha1.PhaseInvalid: {"Degraded"}, v1alpha1.PhaseDenied: {"Degraded"}, v1alpha1.PhasePaused: {"Paused"},
			}[s.phase])
		})
	}
}

// isTrue fails the test unless exactly these conditions are true. Degraded may be true of a paused rollout.
func isTrue(t *testing.T, d *fleet.Decision, want []string) {
	t.Helper()
	var got []string
	for _, kind := range []string{"Progressing", "Complete", "Degraded", "Paused"} {
		c := meta.FindStatusCondition(d.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != 1 || c.Reason == "" {
			t.Fatalf("the condition %s is %+v", kind, c)
		}
		if c.Status == metav1.ConditionTrue && (kind != "Degraded" || d.Status.Phase != v1alpha1.PhasePaused) {
			got = append(got, kind)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("true conditions (-want +got):\n%s", diff)
	}
}

func canary(count int32, pause string) func(*v1alpha1.VirtualMachineRolloutSpec) {
	return func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Strategy.Canary = &v1alpha1.Canary{Count: count, Pause: pause}
	}
}

func denied(indexes ...int) func(*fleet.Input) {
	return func(in *fleet.Input) {
		for _, i := range indexes {
			m := &in.Machines[i]
			m.Outcome.Denied = []v1alpha1.Finding{{VirtualMachine: m.Name, Field: "spec.x", Message: "too big", Rule: "size"}}
		}
	}
}

// A patch that is denied later, after some were changed, fails the virtual machine.
func TestDeniedLater(t *testing.T) {
	r := begun(v1alpha1.StateVerifying)
	m := machine("a", fleet.NeedsRestart)
	in := &fleet.Input{Rollout: r, Machines: []fleet.Machine{m}, Now: noon}
	denied(0)(in)
	d := fleet.Next(in)
	if got, _ := stated(&d); !slices.Equal(got, []string{"a Failed"}) || d.Status.Validation.Denied != 1 || len(d.Actions) > 0 {
		t.Errorf("%q, %+v, %+v", got, d.Status.Validation, d.Actions)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	in := &fleet.Input{Rollout: rollout(), Machines: machines(200, fleet.NeedsLive), Now: noon}
	for i := range in.Machines {
		denied(i)(in)
	}
	if v := fleet.Next(in).Status.Validation; len(v.Findings) != v1alpha1.MaxFindings || v.Omitted != 150 || v.Denied != 200 {
		t.Errorf("%d findings, %d omitted, %d denied", len(v.Findings), v.Omitted, v.Denied)
	}
}

func TestTimeToLive(t *testing.T) {
	r := rollout(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.TTLSecondsAfterFinished = new(int32(60)) })
	in := &fleet.Input{Rollout: r, Now: noon}
	d := fleet.Next(in)
	if d.Status.Finished == nil || d.After != time.Minute {
		t.Fatalf("%+v, after %s", d.Status, d.After)
	}
	r.Status, in.Now = d.Status, noon.Add(59*time.Second)
	if d = fleet.Next(in); d.After != time.Second || len(d.Actions) > 0 {
		t.Errorf("%+v, after %s", d.Actions, d.After)
	}
	in.Now = noon.Add(time.Minute)
	if d = fleet.Next(in); len(d.Actions) != 1 || d.Actions[0].Verb != fleet.DeleteRollout {
		t.Errorf("%+v", d.Actions)
	}
	r.Status.Counts.Failed = 1
	if d = fleet.Next(in); len(d.Actions) > 0 {
		t.Errorf("a rollout with failures: %+v", d.Actions)
	}
	r.Generation, r.Status.Counts.Failed = 2, 0
	if d = fleet.Next(in); len(d.Actions) > 0 || d.Status.ObservedGeneration != 2 {
		t.Errorf("a rollout with a new spec: %+v", d.Actions)
	}
}
