package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/rollouts/fleet"
)

func TestOutcome(t *testing.T) {
	migrates := []kubevirtv1.WorkloadUpdateMethod{kubevirtv1.WorkloadUpdateMethodLiveMigrate}
	change := func(takes rollouts.Takes, change ...func(*rollouts.Change)) rollouts.Change {
		c := rollouts.Change{Field: string(takes), Takes: takes, Reason: "why"}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	announced := func(c *rollouts.Change) { c.Announced = rollouts.ByCondition }
	for name, s := range map[string]struct {
		methods []kubevirtv1.WorkloadUpdateMethod
		plan    rollouts.Result
		want    fleet.Outcome
	}{
		"nothing":                    {migrates, rollouts.Result{}, fleet.Outcome{}},
		"stopped":                    {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.NextStart)}}, fleet.Outcome{}},
		"no effect":                  {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.Never)}}, fleet.Outcome{}},
		"live":                       {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.Live)}}, fleet.Outcome{Needs: fleet.NeedsLive, Field: "Live", Reason: "why"}},
		"written":                    {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.Live, func(c *rollouts.Change) { c.Patched = true })}}, fleet.Outcome{Needs: fleet.NeedsLive, Field: "Live", Reason: "why", Awaits: true}},
		"KubeVirt migrates":          {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.LiveOnMigration, announced), change(rollouts.LiveOnMigration)}}, fleet.Outcome{Needs: fleet.NeedsMigration, Field: "LiveOnMigration", Reason: "why"}},
		"for other fields":           {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.LiveOnMigration)}}, fleet.Outcome{Needs: fleet.NeedsMigration, Field: "LiveOnMigration", Reason: "why", OwnMigration: true}},
		"without a method":           {nil, rollouts.Result{Changes: []rollouts.Change{change(rollouts.LiveOnMigration, announced)}}, fleet.Outcome{Needs: fleet.NeedsMigration, Field: "LiveOnMigration", Reason: "why", OwnMigration: true}},
		"the most counts":            {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.Live), change(rollouts.Restart), change(rollouts.LiveOnMigration)}}, fleet.Outcome{Needs: fleet.NeedsRestart, Field: "Restart", Reason: "why"}},
		"blocked":                    {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.Blocked), change(rollouts.Restart)}}, fleet.Outcome{Needs: fleet.NeedsOther, Field: "Blocked", Reason: "why"}},
		"KubeVirt fails":             {migrates, rollouts.Result{Failure: "volumes"}, fleet.Outcome{Needs: fleet.NeedsOther, Reason: "KubeVirt fails at a change of the VM: volumes"}},
		"KubeVirt fails at a change": {migrates, rollouts.Result{Failure: "instancetype", Changes: []rollouts.Change{change(rollouts.Restart), {Field: "spec.instancetype", Takes: rollouts.Blocked, Announced: rollouts.ByFailure, Reason: "It does not exist."}}}, fleet.Outcome{Needs: fleet.NeedsOther, Field: "spec.instancetype", Reason: "It does not exist."}},
		"in progress":                {migrates, rollouts.Result{Changes: []rollouts.Change{change(rollouts.LiveOnMigration, announced, func(c *rollouts.Change) { c.InProgress = true })}}, fleet.Outcome{Needs: fleet.NeedsMigration, Field: "LiveOnMigration", Reason: "why", OwnMigration: true}},
		"more than is planned":       {migrates, rollouts.Result{Omitted: 1}, fleet.Outcome{Needs: fleet.NeedsOther, Reason: "The VM has more changes than can be planned."}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(s.want, fleet.OutcomeOf(&s.plan, &platform.Facts{WorkloadUpdateMethods: s.methods})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStopped(t *testing.T) {
	start := []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StartRequest}}
	for name, s := range map[string]struct {
		strategy    kubevirtv1.VirtualMachineRunStrategy
		status      kubevirtv1.VirtualMachineStatus
		hasInstance bool
		want        bool
	}{
		"halted":         {strategy: kubevirtv1.RunStrategyHalted, want: true},
		"still running":  {strategy: kubevirtv1.RunStrategyHalted, hasInstance: true},
		"always":         {strategy: kubevirtv1.RunStrategyAlways},
		"manual":         {strategy: kubevirtv1.RunStrategyManual, want: true},
		"manual, starts": {strategy: kubevirtv1.RunStrategyManual, status: kubevirtv1.VirtualMachineStatus{StateChangeRequests: start}},
		"starting":       {strategy: kubevirtv1.RunStrategyManual, status: kubevirtv1.VirtualMachineStatus{PrintableStatus: kubevirtv1.VirtualMachineStatusStarting}},
		"shut down":      {strategy: kubevirtv1.RunStrategyRerunOnFailure, status: kubevirtv1.VirtualMachineStatus{PrintableStatus: kubevirtv1.VirtualMachineStatusStopped}, want: true},
		"crashes":        {strategy: kubevirtv1.RunStrategyRerunOnFailure, status: kubevirtv1.VirtualMachineStatus{PrintableStatus: kubevirtv1.VirtualMachineStatusCrashLoopBackOff}},
	} {
		t.Run(name, func(t *testing.T) {
			vm := &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &s.strategy}, Status: s.status}
			if got := fleet.Stopped(vm, s.hasInstance); got != s.want {
				t.Errorf("stopped is %v", got)
			}
		})
	}
}

func TestRestartRequested(t *testing.T) {
	uid, other := types.UID("1"), types.UID("2")
	vm := &kubevirtv1.VirtualMachine{}
	vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StopRequest, UID: &uid}, {Action: kubevirtv1.StartRequest}}
	if !fleet.RestartRequested(vm, uid) || fleet.RestartRequested(vm, other) {
		t.Error("the request is not that of the instance")
	}
}

func TestSchedules(t *testing.T) {
	for _, text := range []string{"", "* * * *", "TZ=Europe/Zurich * * * * *", "@daily", "@every 1s", "61 * * * *", "* * * * * *", "0 22 * * 8"} {
		if _, err := fleet.ParseSchedule(text); err == nil {
			t.Errorf("%q is a schedule", text)
		}
	}
	// In the night in which the clock is turned back, a window of two hours is open for two hours.
	schedule, err := fleet.ParseSchedule("30 1 * * *")
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	if got := schedule.Next(time.Date(2026, 10, 25, 0, 0, 0, 0, zone)).UTC(); !got.Equal(time.Date(2026, 10, 24, 23, 30, 0, 0, time.UTC)) {
		t.Errorf("it opens at %s", got)
	}
	// A date that never comes ends the search.
	if never, err := fleet.ParseSchedule("0 0 30 2 *"); err != nil || !never.Next(noon).IsZero() {
		t.Errorf("the 30th of February: error %v", err)
	}
}

func TestNames(t *testing.T) {
	spec := func(patch string) *v1alpha1.VirtualMachineRolloutSpec {
		return &v1alpha1.VirtualMachineRolloutSpec{Patch: &runtime.RawExtension{Raw: []byte(patch)}}
	}
	same := fleet.Digest(spec(`{"a": 1, "b": 2}`))
	if same == "" || same != fleet.Digest(spec(`{"b":2,"a":1}`)) || same == fleet.Digest(spec(`{"a": 1}`)) || fleet.Digest(&v1alpha1.VirtualMachineRolloutSpec{}) != "" {
		t.Errorf("digest %q", same)
	}
	names := []string{fleet.MigrationName("r", "v", 0), fleet.MigrationName("r", "v", 1), fleet.MigrationName("r", "w", 0), fleet.MigrationName("s", "v", 0)}
	slices.Sort(names)
	if len(slices.Compact(names)) != 4 || len(names[0]) > 63 {
		t.Errorf("%q", names)
	}
}
