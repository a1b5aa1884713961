package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/rollouts/fleet"
)

// cluster is a simulated cluster: it applies actions to machines, and time changes them.
type cluster struct {
	t        testing.TB
	rollout  *v1alpha1.VirtualMachineRollout
	machines []fleet.Machine
	now      time.Time
	random   *rand.Rand
	// mortal is the chance that the controller is killed before an action.
	mortal float64
	// broken are the machines that never become ready after their restart.
	broken map[string]bool
	// changes and restarts count the writes by machine.
	changes, restarts map[string]int
	migrations        []fleet.OwnMigration
	worst             int
}

func newCluster(t testing.TB, r *v1alpha1.VirtualMachineRollout, machines []fleet.Machine) *cluster {
	return &cluster{
		t: t, rollout: r, machines: machines, now: noon, random: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // a test repeats itself
		broken: map[string]bool{}, changes: map[string]int{}, restarts: map[string]int{},
	}
}

// step is one pass of the controller, and what happens until the next one.
func (c *cluster) step() {
	d := fleet.Next(&fleet.Input{Rollout: c.rollout, Machines: slices.Clone(c.machines), Migrations: c.migrations, Now: c.now})
	if c.random.Float64() < c.mortal {
		return
	}
	if got := len(d.Status.VirtualMachines); got > v1alpha1.MaxMachines {
		c.t.Fatalf("%d virtual machines are in the status", got)
	}
	c.rollout.Status = d.Status
	for _, a := range d.Actions {
		if c.random.Float64() < c.mortal {
			break
		}
		c.apply(a)
	}
	c.evolve()
}

func (c *cluster) apply(a fleet.Action) {
	i := slices.IndexFunc(c.machines, func(m fleet.Machine) bool { return m.Name == a.Machine && m.UID == a.UID })
	if a.Verb == fleet.RemoveMigration {
		c.migrations = slices.DeleteFunc(c.migrations, func(m fleet.OwnMigration) bool { return m.Name == a.Migration })
		return
	}
	if i < 0 {
		return // it was deleted
	}
	m := &c.machines[i]
	switch a.Verb {
	case fleet.Change:
		c.changes[m.Name]++
		m.Marked, m.Outcome.Patched = true, true
		m.Generation++
	case fleet.Restart:
		c.restarts[m.Name]++
		m.RestartRequested = true
	case fleet.Migrate:
		if !slices.ContainsFunc(c.migrations, func(m fleet.OwnMigration) bool { return m.Name == a.Migration }) {
			c.migrations = append(c.migrations, fleet.OwnMigration{Name: a.Migration, Machine: m.Name})
			m.Migration = fleet.Migration{Name: a.Migration, Active: true}
		}
	}
}

// evolve lets time pass.
func (c *cluster) evolve() {
	c.now = c.now.Add(10 * time.Second)
	down := 0
	for i := range c.machines {
		m := &c.machines[i]
		switch {
		case m.RestartRequested && !m.Instance.Deleting:
			m.Instance.Deleting, m.Instance.Ready = true, false
		case m.Instance.Deleting:
			m.RestartRequested, m.Instance = false, fleet.Instance{UID: m.Instance.UID + "'", Generation: m.Generation}
			m.Outcome.Needs = fleet.NeedsNothing
		case !m.Instance.Ready && !c.broken[m.Name] && c.random.Float64() < 0.5:
			m.Instance.Ready = true
		case m.Migration.Active && c.random.Float64() < 0.5:
			m.Migration.Active, m.Migration.Succeeded = false, true
			m.Outcome.Needs = fleet.NeedsNothing
			for k := range c.migrations {
				c.migrations[k].Final = c.migrations[k].Final || c.migrations[k].Name == m.Migration.Name
			}
		}
		if !m.Instance.Ready || m.Instance.Deleting {
			down++
		}
	}
	c.worst = max(c.worst, down)
}

// until lets the controller work until a phase.
func (c *cluster) until(phase v1alpha1.Phase) {
	c.t.Helper()
	for range 5000 {
		if c.step(); c.rollout.Status.Phase == phase {
			return
		}
	}
	c.t.Fatalf("the phase is %s, want %s: %+v", c.rollout.Status.Phase, phase, c.rollout.Status)
}

// edit changes the spec.
func (c *cluster) edit(change func(*v1alpha1.VirtualMachineRolloutSpec)) {
	change(&c.rollout.Spec)
	c.rollout.Generation++
}

func (c *cluster) reason(condition string) string {
	found := meta.FindStatusCondition(c.rollout.Status.Conditions, condition)
	if found.Status != metav1.ConditionTrue {
		return ""
	}
	return found.Reason
}

// once fails the test unless every virtual machine was changed and restarted exactly once.
func (c *cluster) once() {
	c.t.Helper()
	for i := range c.machines {
		if name := c.machines[i].Name; c.changes[name] != 1 || c.restarts[name] != 1 {
			c.t.Errorf("%s was changed %d times and restarted %d times", name, c.changes[name], c.restarts[name])
		}
	}
}

// Killed at any time, a rollout has the same end, restarts nothing twice, and keeps the others available.
func TestKilledAnywhere(t *testing.T) {
	for _, limit := range []int{1, 5, 50} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			c := newCluster(t, rollout(atOnce(limit)), machines(200, fleet.NeedsRestart))
			c.mortal = 0.1
			c.until(v1alpha1.PhaseComplete)
			c.once()
			if c.worst > limit {
				t.Errorf("%d were unavailable, more than %d", c.worst, limit)
			}
			if counts := c.rollout.Status.Counts; counts.Done != 200 || c.reason("Complete") != v1alpha1.ReasonComplete {
				t.Errorf("%+v", counts)
			}
		})
	}
}

// The migrations of a rollout are created once, and removed.
func TestMigrationsAreRemoved(t *testing.T) {
	all := machines(50, fleet.NeedsMigration)
	for i := range all {
		all[i].Outcome.OwnMigration = true
	}
	c := newCluster(t, rollout(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Strategy.MaxConcurrentMigrations = new(int32(3)) }), all)
	c.mortal = 0.1
	c.until(v1alpha1.PhaseComplete)
	c.step()
	c.mortal = 0
	c.step()
	if len(c.migrations) > 0 || c.worst > 0 || len(c.restarts) > 0 {
		t.Errorf("%d migrations are left, %d were unavailable, %d were restarted", len(c.migrations), c.worst, len(c.restarts))
	}
}

// After a failure the rollout pauses. Resumed, it tries the failed one again, without restarting it again.
func TestFailurePauses(t *testing.T) {
	c := newCluster(t, rollout(atOnce(3)), machines(100, fleet.NeedsRestart))
	c.broken["vm004"] = true
	c.until(v1alpha1.PhasePaused)
	if c.reason("Paused") != v1alpha1.ReasonPausedByFailures || c.reason("Degraded") != v1alpha1.ReasonFailed || c.rollout.Status.Counts.Failed != 1 {
		t.Fatalf("%+v", c.rollout.Status.Conditions)
	}
	done := c.rollout.Status.Counts.Done
	for range 20 {
		c.step()
	}
	if got := c.rollout.Status.Counts; got.Done > done+3 || got.Pending == 0 {
		t.Fatalf("a paused rollout continues: %+v", got)
	}
	c.broken = nil
	c.edit(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume = 1 })
	c.until(v1alpha1.PhaseComplete)
	c.once()
}

// With Continue, the others are changed, and the end is a failure.
func TestFailureContinues(t *testing.T) {
	c := newCluster(t, rollout(atOnce(3), func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.FailurePolicy = v1alpha1.FailureContinue }), machines(20, fleet.NeedsRestart))
	c.broken["vm004"], c.broken["vm011"] = true, true
	c.until(v1alpha1.PhaseFailed)
	if counts := c.rollout.Status.Counts; counts.Done != 18 || counts.Failed != 2 || c.rollout.Status.Finished == nil || c.reason("Complete") != "" {
		t.Errorf("%+v", counts)
	}
}

// maxFailures are tolerated.
func TestMaxFailures(t *testing.T) {
	c := newCluster(t, rollout(atOnce(5), func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.MaxFailures = 1 }), machines(20, fleet.NeedsRestart))
	c.broken["vm002"], c.broken["vm010"] = true, true
	c.until(v1alpha1.PhasePaused)
	if c.rollout.Status.Counts.Failed != 2 {
		t.Errorf("%+v", c.rollout.Status.Counts)
	}
}

// After the canary, a user continues.
func TestCanaryByHand(t *testing.T) {
	c := newCluster(t, rollout(atOnce(5), canary(3, v1alpha1.PauseManual)), machines(20, fleet.NeedsRestart))
	c.until(v1alpha1.PhasePaused)
	for range 50 {
		c.step()
	}
	if counts := c.rollout.Status.Counts; counts.Done != 3 || counts.Pending != 17 || c.reason("Paused") != v1alpha1.ReasonPausedByCanary {
		t.Fatalf("%+v", counts)
	}
	c.edit(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume++ })
	c.until(v1alpha1.PhaseComplete)
	c.once()
}

// After the canary, the rollout continues by itself.
func TestCanaryWithDuration(t *testing.T) {
	c := newCluster(t, rollout(atOnce(5), canary(3, "10m")), machines(20, fleet.NeedsRestart))
	c.until(v1alpha1.PhasePaused)
	paused := c.now
	c.until(v1alpha1.PhaseProgressing)
	if took := c.now.Sub(paused); took < 9*time.Minute || took > 11*time.Minute {
		t.Errorf("it paused for %s", took)
	}
	c.until(v1alpha1.PhaseComplete)
	c.once()
}

// A canary that fails does not end by the resumption: the failed one is tried first.
func TestCanaryFails(t *testing.T) {
	c := newCluster(t, rollout(atOnce(5), canary(3, "")), machines(20, fleet.NeedsRestart))
	c.broken["vm001"] = true
	c.until(v1alpha1.PhasePaused)
	if c.reason("Paused") != v1alpha1.ReasonPausedByFailures {
		t.Fatalf("%+v", c.rollout.Status.Conditions)
	}
	c.broken = nil
	c.edit(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume++ })
	c.step()
	c.until(v1alpha1.PhasePaused)
	if c.reason("Paused") != v1alpha1.ReasonPausedByCanary || c.rollout.Status.Counts.Done != 3 {
		t.Fatalf("%+v", c.rollout.Status)
	}
}

// The partition is changed once it is removed.
func TestPartition(t *testing.T) {
	c := newCluster(t, rollout(atOnce(5), func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Strategy.Partition = number(15) }), machines(20, fleet.NeedsRestart))
	c.until(v1alpha1.PhasePaused)
	if counts := c.rollout.Status.Counts; counts.Done != 5 || c.reason("Paused") != v1alpha1.ReasonPausedByPartition {
		t.Fatalf("%+v, %+v", counts, c.rollout.Status.Conditions)
	}
	c.edit(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Strategy.Partition = nil })
	c.until(v1alpha1.PhaseComplete)
	c.once()
}

// A window that closes midway: what has begun ends, and nothing else begins until the next one.
func TestWindowCloses(t *testing.T) {
	c := newCluster(t, rollout(atOnce(2), func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Windows = []v1alpha1.Window{{Schedule: "0 12 * * *", Duration: metav1.Duration{Duration: 2 * time.Minute}}}
	}), machines(40, fleet.NeedsRestart))
	c.until(v1alpha1.PhaseWaiting)
	began := len(c.changes)
	if counts := c.rollout.Status.Counts; began == 0 || began == 40 || int(counts.Done) != began {
		t.Fatalf("%d have begun: %+v", began, counts)
	}
	for range 100 {
		c.step()
	}
	if len(c.changes) != began {
		t.Errorf("%d have begun, %d of them outside the window", len(c.changes), len(c.changes)-began)
	}
	c.now = noon.Add(24 * time.Hour)
	c.step()
	if len(c.changes) != began+2 {
		t.Errorf("%d have begun in the next window", len(c.changes)-began)
	}
}

// Virtual machines that are deleted, recreated or relabelled midway do not block a rollout.
func TestMachinesVanish(t *testing.T) {
	c := newCluster(t, rollout(atOnce(4)), machines(30, fleet.NeedsRestart))
	for range 3 {
		c.step()
	}
	for _, name := range []string{"vm001", "vm020"} {
		c.machines = slices.DeleteFunc(c.machines, func(m fleet.Machine) bool { return m.Name == name })
	}
	for i := range c.machines {
		if c.machines[i].Name == "vm002" {
			c.machines[i] = machine("vm002", fleet.NeedsRestart)
			c.machines[i].UID = types.UID("recreated")
			c.changes["vm002"], c.restarts["vm002"] = 0, 0
		}
	}
	c.until(v1alpha1.PhaseComplete)
	c.once()
	if c.rollout.Status.Counts.Total != 28 {
		t.Errorf("%+v", c.rollout.Status.Counts)
	}
}

// A new patch takes a rollout through all virtual machines again.
func TestNewPatch(t *testing.T) {
	c := newCluster(t, rollout(atOnce(5), canary(2, "")), machines(10, fleet.NeedsRestart))
	c.until(v1alpha1.PhasePaused)
	c.edit(func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Patch.Raw = []byte(`{"template": {"spec": {}}}`) })
	for i := range c.machines {
		c.machines[i].Marked, c.machines[i].Outcome = false, fleet.Outcome{Needs: fleet.NeedsRestart}
	}
	c.step()
	if s := c.rollout.Status; s.CanaryEnded != nil || s.Counts.Done != 0 || s.Counts.Restarting != 2 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkNext(b *testing.B) {
	all := machines(5000, fleet.NeedsRestart)
	in := &fleet.Input{Rollout: rollout(atOnce(50)), Machines: all, Budgets: []fleet.Budget{{Name: "quorum", Allowed: 100}}, Now: noon}
	for i := range all {
		all[i].Budgets = []int{0}
	}
	for b.Loop() {
		fleet.Next(in)
	}
}
