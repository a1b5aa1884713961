package rollouts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// TestRollouts carries rollouts out on a real API server, whatever happens meanwhile.
func TestRollouts(t *testing.T) {
	t.Parallel()
	inParallel(t, []scenario{
		{"killed at each write", func(f *fixture, t *testing.T) { f.killed(t, "killed", 2, 1) }},
		{"killed at each of parallel writes", func(f *fixture, t *testing.T) { f.killed(t, "parallel", 3, 3) }},
		{"restart", (*fixture).restarts},
		{"own migrations", (*fixture).ownMigrations},
		{"failing machine", (*fixture).failing},
		{"canary", (*fixture).canary},
		{"window", (*fixture).window},
		{"owners", (*fixture).owners},
		{"two rollouts", (*fixture).two},
		{"denied", (*fixture).denied},
		{"dry run", (*fixture).dryRun},
		{"budget", (*fixture).budget},
		{"run strategies", (*fixture).strategies},
		{"what is pending", (*fixture).pending},
		{"rights", (*fixture).rights},
		{"unguarded", (*fixture).unguarded},
		{"invalid", (*fixture).invalid},
		{"time to live", (*fixture).timeToLive},
	})
}

// TestKubeVirtMigrates carries rollouts out while KubeVirt itself migrates running VMs: a setting of the cluster, so no other test
// runs beside these cases.
func TestKubeVirtMigrates(t *testing.T) {
	f := newFixture(t)
	f.methods(t, kubevirtv1.WorkloadUpdateMethodLiveMigrate)
	defer f.methods(t)
	t.Run("cases", func(t *testing.T) {
		inParallel(t, []scenario{
			{"a change that migrates", (*fixture).migratedByKubeVirt},
			{"a policy about restarts", (*fixture).underPolicyAboutRestarts},
		})
	})
}

// exactly fails the test unless each of the virtual machines was restarted a number of times.
func exactly(t *testing.T, w *witness, times int) {
	t.Helper()
	for name, count := range w.restarts() {
		if count != times {
			t.Errorf("%s was restarted %d times, want %d", name, count, times)
		}
	}
}

func (f *fixture) restarts(t *testing.T) {
	f.namespace(t, "restarts", 6)
	w := f.watch(t, "restarts")
	r := f.rollout(t, "restarts", "grace", patch(needsRestart, 40), atOnce(2))
	c := &kills.Connection{Left: -1}
	f.until(t, f.controller(t, c), r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
	if worst := w.worst(6); worst > 2 || worst == 0 {
		t.Errorf("%d were unavailable", worst)
	}
	if r.Status.Counts.Done != 6 || r.Status.Progress != "6/6" || accepted(c) > 3*6 {
		t.Errorf("%+v after %d writes", r.Status, accepted(c))
	}
	vms := &kubevirtv1.VirtualMachineList{}
	must(t, f.Client().List(t.Context(), vms, client.InNamespace("restarts")))
	for i := range vms.Items {
		if vm := &vms.Items[i]; *vm.Spec.Template.Spec.TerminationGracePeriodSeconds != 40 {
			t.Errorf("%s has %+v", vm.Name, vm.Spec.Template.Spec)
		}
	}
}

// killed kills the controller before and after each write: in a soak, and otherwise at every third turn. The next one ends the
// rollout, and restarts nothing twice.
func (f *fixture) killed(t *testing.T, namespace string, machines int, limit int32) {
	f.namespace(t, namespace, machines)
	uninterrupted := &kills.Connection{Left: -1}
	f.until(t, f.controller(t, uninterrupted), f.rollout(t, namespace, "count", patch(needsRestart, 100), atOnce(limit)), v1alpha1.PhaseComplete)
	writes := len(uninterrupted.Accepted())
	if accepted(uninterrupted) != 2*machines {
		t.Fatalf("writes: %q", uninterrupted.Writes())
	}
	t.Logf("a rollout over %d virtual machines has %d writes, %d of them to the virtual machines", machines, writes, accepted(uninterrupted))
	turn := 0
	for at := range writes {
		for _, lost := range []bool{false, true} {
			if turn++; lost && at == 0 || turn%3 != 0 && !soak.On() {
				continue
			}
			w := f.watch(t, namespace)
			r := f.rollout(t, namespace, fmt.Sprintf("kill-%d-%v", at, lost), patch(needsRestart, 200+2*at+map[bool]int{true: 1}[lost]), atOnce(limit))
			c := &kills.Connection{Left: at, Lost: lost}
			f.drive(t, f.controller(t, c), r, func() bool {
				return c.Dead() || r.Status.Phase == v1alpha1.PhaseComplete
			})
			f.until(t, f.controller(t, &kills.Connection{Left: -1}), r, v1alpha1.PhaseComplete)
			if worst := w.worst(machines); worst > int(limit) {
				t.Errorf("at %d, lost %v: %d were unavailable", at, lost, worst)
			}
			exactly(t, w, 1)
		}
	}
}

func (f *fixture) migratedByKubeVirt(t *testing.T) {
	f.namespace(t, "sockets", 6)
	w := f.watch(t, "sockets")
	r := f.rollout(t, "sockets", "sockets", patch(needsMigration, 2))
	c := &kills.Connection{Left: -1}
	most := 0
	f.drive(t, f.controller(t, c), r, func() bool {
		most = max(most, int(r.Status.Counts.Migrating))
		return r.Status.Phase == v1alpha1.PhaseComplete
	})
	exactly(t, w, 0)
	if most != 2 || accepted(c) != 6 || w.worst(6) != 0 {
		t.Errorf("%d migrated at once, %d writes, %d were unavailable", most, accepted(c), w.worst(6))
	}
	migrations := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	must(t, f.Client().List(t.Context(), migrations, client.InNamespace("sockets")))
	if len(migrations.Items) != 6 {
		t.Errorf("%d migrations", len(migrations.Items))
	}
	vmis := &kubevirtv1.VirtualMachineInstanceList{}
	must(t, f.Client().List(t.Context(), vmis, client.InNamespace("sockets")))
	for i := range vmis.Items {
		if got := vmis.Items[i].Status.CurrentCPUTopology; got == nil || got.Sockets != 2 {
			t.Errorf("%s runs with %+v", vmis.Items[i].Name, got)
		}
	}
}

func (f *fixture) ownMigrations(t *testing.T) {
	f.namespace(t, "nodes", 4)
	w := f.watch(t, "nodes")
	r := f.rollout(t, "nodes", "nodes", patch(needsNodes, 1))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	f.drive(t, controller, r, func() bool {
		migrations := &kubevirtv1.VirtualMachineInstanceMigrationList{}
		must(t, f.Client().List(t.Context(), migrations, client.InNamespace("nodes")))
		return len(migrations.Items) == 0
	})
	exactly(t, w, 0)
	vmis := &kubevirtv1.VirtualMachineInstanceList{}
	must(t, f.Client().List(t.Context(), vmis, client.InNamespace("nodes")))
	for i := range vmis.Items {
		if state := vmis.Items[i].Status.MigrationState; state == nil || !state.Completed || state.Failed {
			t.Errorf("%s was not migrated: %+v", vmis.Items[i].Name, state)
		}
	}
	if accepted(c) > 3*4 {
		t.Errorf("%d writes", accepted(c))
	}
}

// failing: the rollout pauses. After the cause has gone, it is resumed.
func (f *fixture) failing(t *testing.T) {
	f.namespace(t, "failing", 4)
	f.annotate(t, "failing", "vm001", simulators.NeverReady, "the disk is on fire")
	r := f.rollout(t, "failing", "grace", patch(needsRestart, 50), func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Health.Timeout = &metav1.Duration{Duration: time.Hour}
	})
	w := f.watch(t, "failing")
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.drive(t, controller, r, func() bool {
		state, _ := of(r, "vm001")
		return state == v1alpha1.StateVerifying
	})
	f.clock.add(2 * time.Hour)
	f.until(t, controller, r, v1alpha1.PhasePaused)
	reason, message := condition(r, v1alpha1.ConditionDegraded)
	if paused, _ := condition(r, v1alpha1.ConditionPaused); paused != v1alpha1.ReasonPausedByFailures || reason != v1alpha1.ReasonFailed || !strings.HasPrefix(message, "vm001: Verifying longer than 1h0m0s") {
		t.Fatalf("%+v", r.Status.Conditions)
	}
	if r.Status.Counts.Done != 0 || r.Status.Counts.Pending != 3 { // it is down already, so that it is the first one
		t.Errorf("%+v", r.Status.Counts)
	}
	f.mu.Lock()
	if !slices.ContainsFunc(f.events, func(e string) bool { return strings.HasPrefix(e, "grace VirtualMachineFailed: VirtualMachine vm001: ") }) {
		t.Errorf("events: %q", f.events)
	}
	f.mu.Unlock()
	f.annotate(t, "failing", "vm001", simulators.NeverReady, "")
	f.ready(t, "failing", 4)
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume = 1 })
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
}

// annotate sets or removes an annotation of a virtual machine.
func (f *fixture) annotate(t *testing.T, namespace, name, key, value string) {
	t.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	f.merge(t, namespace, name, fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, key, text))
}

func (f *fixture) merge(t *testing.T, namespace, name, patch string) {
	t.Helper()
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	must(t, f.Client().Patch(t.Context(), vm, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (f *fixture) canary(t *testing.T) {
	f.namespace(t, "canary", 4)
	w := f.watch(t, "canary")
	r := f.rollout(t, "canary", "grace", patch(needsRestart, 60), atOnce(4), func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Strategy.Canary = &v1alpha1.Canary{Count: 1}
	})
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.until(t, controller, r, v1alpha1.PhasePaused)
	if restarts := w.restarts(); restarts["vm000"] != 1 || restarts["vm001"] != 0 || r.Status.Counts.Done != 1 {
		t.Errorf("restarts %v, %+v", restarts, r.Status.Counts)
	}
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume = 1 })
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
}

// window: it closes midway. What has begun is completed, and the others wait for the next one.
func (f *fixture) window(t *testing.T) {
	f.namespace(t, "window", 3)
	f.annotate(t, "window", "vm000", simulators.NeverReady, "the disk is slow")
	w := f.watch(t, "window")
	now := f.clock.Now().UTC()
	r := f.rollout(t, "window", "grace", patch(needsRestart, 70), func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Windows = []v1alpha1.Window{{Schedule: fmt.Sprintf("%d %d * * *", now.Minute(), now.Hour()), Duration: metav1.Duration{Duration: 2 * time.Hour}}}
	})
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.drive(t, controller, r, func() bool { return r.Status.Counts.Verifying == 1 })
	f.clock.add(3 * time.Hour) // a step that takes longer than its timeout fails
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Health.Timeout = &metav1.Duration{Duration: 10 * time.Hour}
	})
	f.annotate(t, "window", "vm000", simulators.NeverReady, "")
	f.until(t, controller, r, v1alpha1.PhaseWaiting)
	if state, reason := of(r, "vm002"); state != v1alpha1.StateWaiting || !strings.HasPrefix(reason, "waits for the window that opens at ") || r.Status.Counts.Done != 1 {
		t.Errorf("%s: %s, %+v", state, reason, r.Status.Counts)
	}
	f.clock.add(21*time.Hour + 30*time.Minute)
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
}

// owners delete, relabel and edit their virtual machines midway.
func (f *fixture) owners(t *testing.T) {
	f.namespace(t, "owners", 6)
	w := f.watch(t, "owners")
	r := f.rollout(t, "owners", "grace", patch(needsRestart, 80), atOnce(3))
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.drive(t, controller, r, func() bool { return r.Status.Counts.Restarting == 3 })
	must(t, f.Client().Delete(t.Context(), &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "owners", Name: "vm000"}}))
	f.merge(t, "owners", "vm001", `{"metadata": {"labels": {"app": "web"}}}`)
	f.merge(t, "owners", "vm002", `{"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 81}}}}`)
	f.merge(t, "owners", "vm003", `{"metadata": {"labels": {"app": "web"}}}`)
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	if r.Status.Counts.Total != 3 || r.Status.Counts.Done != 3 {
		t.Errorf("%+v", r.Status)
	}
	for name, want := range map[string]int64{"vm001": 80, "vm002": 81, "vm004": 80, "vm005": 80} {
		vm := &kubevirtv1.VirtualMachine{}
		must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: "owners", Name: name}, vm))
		if got := vm.Spec.Template.Spec.TerminationGracePeriodSeconds; *got != want {
			t.Errorf("%s has %d, want %d", name, *got, want)
		}
	}
	if restarts := w.restarts(); restarts["vm002"] > 1 || restarts["vm003"] != 0 || restarts["vm004"] != 1 {
		t.Errorf("restarts %v", restarts)
	}
}

// two rollouts over the same virtual machines: the younger one waits, and names the older one.
func (f *fixture) two(t *testing.T) {
	f.namespace(t, "two", 3)
	w := f.watch(t, "two")
	older := f.rollout(t, "two", "older", patch(needsRestart, 90))
	<-time.After(1100 * time.Millisecond) // creations are compared in seconds
	younger := f.rollout(t, "two", "younger", patch(needsRestart, 91))
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.until(t, controller, younger, v1alpha1.PhaseWaiting)
	if state, reason := of(younger, "vm000"); state != v1alpha1.StateWaiting || reason != "waits for the VirtualMachineRollout older, which selects it too" {
		t.Errorf("%s: %s", state, reason)
	}
	f.drive(t, controller, older, func() bool {
		must(t, f.step(t, controller, younger))
		return older.Status.Phase == v1alpha1.PhaseComplete
	})
	exactly(t, w, 1)
	f.until(t, controller, younger, v1alpha1.PhaseComplete)
	exactly(t, w, 2)
	if worst := w.worst(3); worst > 1 {
		t.Errorf("%d were unavailable", worst)
	}
}

// denied: the patch is invalid for one virtual machine, so none is changed; unless those are skipped.
func (f *fixture) denied(t *testing.T) {
	f.namespace(t, "denied", 2)
	f.machine(t, "denied", "small", func(vm *kubevirtv1.VirtualMachine) {
		vm.Spec.Template.Spec.Domain.CPU.MaxSockets = 2
	})
	f.ready(t, "denied", 3)
	w := f.watch(t, "denied")
	r := f.rollout(t, "denied", "sockets", patch(needsMigration, 4), atOnce(3))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.until(t, controller, r, v1alpha1.PhaseDenied)
	v := r.Status.Validation
	if v.Denied != 1 || len(v.Findings) == 0 || v.Findings[0].VirtualMachine != "small" || v.Findings[0].Field == "" || v.Findings[0].Rule == "" || count(c) != 0 {
		t.Errorf("%+v after %d writes", v, count(c))
	}
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.SkipDenied = true })
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	if state, reason := of(r, "small"); state != v1alpha1.StateSkipped || !strings.HasPrefix(reason, "the change is denied: ") || r.Status.Counts.Done != 2 {
		t.Errorf("%s: %s, %+v", state, reason, r.Status.Counts)
	}
	exactly(t, w, 0)
}

func (f *fixture) dryRun(t *testing.T) {
	f.namespace(t, "dry", 2)
	r := f.rollout(t, "dry", "grace", patch(needsRestart, 95), func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.DryRun = true })
	c := &kills.Connection{Left: -1}
	f.until(t, f.controller(t, c), r, v1alpha1.PhaseDryRun)
	if state, reason := of(r, "vm000"); state != v1alpha1.StatePending || !strings.HasPrefix(reason, "would be changed, which takes Restart: spec.template.spec.terminationGracePeriodSeconds: ") {
		t.Errorf("%s: %s", state, reason)
	}
	if count(c) != 0 {
		t.Errorf("writes: %q", c.Writes())
	}
}

// budget: a PodDisruptionBudget that selects the launcher pods permits one restart at a time, and then none.
func (f *fixture) budget(t *testing.T) {
	f.namespace(t, "budget", 3)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "budget", Name: "quorum"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	}
	must(t, f.Client().Create(t.Context(), budget))
	r := f.rollout(t, "budget", "grace", patch(needsRestart, 97), atOnce(3))
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.until(t, controller, r, v1alpha1.PhaseWaiting)
	if state, reason := of(r, "vm000"); state != v1alpha1.StateWaiting || reason != "waits for the PodDisruptionBudget quorum" {
		t.Errorf("%s: %s", state, reason)
	}
	must(t, f.Client().Delete(t.Context(), budget))
	f.until(t, controller, r, v1alpha1.PhaseComplete)
}

func (f *fixture) strategies(t *testing.T) {
	must(t, f.EnsureNamespace(t.Context(), "strategies"))
	with := func(strategy kubevirtv1.VirtualMachineRunStrategy) func(*kubevirtv1.VirtualMachine) {
		return func(vm *kubevirtv1.VirtualMachine) { vm.Spec.RunStrategy = &strategy }
	}
	f.machine(t, "strategies", "always")
	f.machine(t, "strategies", "halted", with(kubevirtv1.RunStrategyHalted))
	f.machine(t, "strategies", "rerun", with(kubevirtv1.RunStrategyRerunOnFailure))
	f.machine(t, "strategies", "manual", with(kubevirtv1.RunStrategyManual))
	typed := f.controller(t, &kills.Connection{Left: -1})
	f.ready(t, "strategies", 2)
	must(t, f.start(t, "strategies", "manual"))
	f.ready(t, "strategies", 3)
	w := f.watch(t, "strategies")
	r := f.rollout(t, "strategies", "grace", patch(needsRestart, 98), atOnce(4))
	f.until(t, typed, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
	f.ready(t, "strategies", 3)
	if state, reason := of(r, "halted"); state != v1alpha1.StateSkipped || reason != "it is stopped: the change takes effect when it starts" || r.Status.Counts.Done != 3 {
		t.Errorf("%s: %s, %+v", state, reason, r.Status.Counts)
	}
}

// start starts a virtual machine.
func (f *fixture) start(t *testing.T, namespace, name string) error {
	t.Helper()
	vm := &kubevirtv1.VirtualMachine{}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := f.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, vm); err != nil {
			return err
		}
		vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StartRequest}}
		return f.Client().Status().Update(t.Context(), vm)
	})
}

// pending: a rollout without a patch takes what is pending, and leaves the others.
func (f *fixture) pending(t *testing.T) {
	f.namespace(t, "pending", 3)
	w := f.watch(t, "pending")
	f.merge(t, "pending", "vm001", `{"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 99}}}}`)
	r := f.rollout(t, "pending", "restarts", nil)
	c := &kills.Connection{Left: -1}
	f.until(t, f.controller(t, c), r, v1alpha1.PhaseComplete)
	if restarts := w.restarts(); restarts["vm000"] != 0 || restarts["vm001"] != 1 || restarts["vm002"] != 0 || accepted(c) != 2 {
		t.Errorf("restarts %v, writes %q", restarts, c.Writes())
	}
}

// rights: a requester without the permissions changes nothing, and neither does one who is unknown.
func (f *fixture) rights(t *testing.T) {
	f.namespace(t, "rights", 2)
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	for name, requester := range map[string]string{"mallory": `{"username": "mallory"}`, "unknown": ""} {
		r := f.rollout(t, "rights", name, patch(needsRestart, 33))
		r.Annotations[v1alpha1.AnnotationRequester] = requester
		must(t, f.Client().Update(t.Context(), r))
		f.until(t, controller, r, v1alpha1.PhasePaused)
		reason, message := condition(r, v1alpha1.ConditionPaused)
		if reason != v1alpha1.ReasonNotAuthorized || !strings.Contains(message, name) || count(c) != 0 {
			t.Errorf("%s: %s, writes %q", reason, message, c.Writes())
		}
		must(t, f.Client().Delete(t.Context(), r))
	}
}

// unguarded: a rollout that could be written without its guards acts for no user, whatever requester it names.
func (f *fixture) unguarded(t *testing.T) {
	f.namespace(t, "unguarded", 1)
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	controller.Guards = &guarded.Guards{Reader: f.Client(), All: admissionpolicies.RolloutGuards()}
	r := f.rollout(t, "unguarded", "forged", patch(needsRestart, 33))
	f.drive(t, controller, r, func() bool {
		reason, message := condition(r, v1alpha1.ConditionPaused)
		return reason == v1alpha1.ReasonNotAuthorized && strings.Contains(message, "the requester is not verified: the ValidatingAdmissionPolicy virtward-rollouts, which checks the permissions of authors, is not active")
	})
	if count(c) != 0 {
		t.Errorf("writes %q", c.Writes())
	}
}

// invalid: a rollout that no webhook has validated changes nothing.
func (f *fixture) invalid(t *testing.T) {
	f.namespace(t, "invalid", 1)
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	for name, text := range map[string]string{
		"volumes":  `{"template": {"spec": {"volumes": []}}}`,
		"strategy": `{"runStrategy": "Halted"}`,
		"firmware": `{"template": {"spec": {"domain": {"firmware": {"uuid": "1"}}}}}`,
	} {
		r := f.rollout(t, "invalid", name, &runtime.RawExtension{Raw: []byte(text)})
		f.until(t, controller, r, v1alpha1.PhaseInvalid)
		if reason, message := condition(r, v1alpha1.ConditionDegraded); reason != v1alpha1.ReasonInvalid || !strings.Contains(message, "spec.patch") || count(c) != 0 {
			t.Errorf("%s: %s: %s, writes %q", name, reason, message, c.Writes())
		}
		must(t, f.Client().Delete(t.Context(), r))
	}
}

func (f *fixture) timeToLive(t *testing.T) {
	f.namespace(t, "ttl", 1)
	r := f.rollout(t, "ttl", "grace", patch(needsRestart, 34), func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.TTLSecondsAfterFinished = new(int32(3600)) })
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	for range 3 {
		must(t, f.step(t, controller, r))
	}
	if r.UID == "" {
		t.Fatal("it is deleted early")
	}
	f.clock.add(time.Hour)
	f.drive(t, controller, r, func() bool { return r.UID == "" })
}

// TestFleet restarts 60 virtual machines, five at a time: never more than five are unavailable.
func TestFleet(t *testing.T) {
	t.Parallel()
	fleet(t, 60)
}

// TestSoakFleet is TestFleet with 200 virtual machines.
func TestSoakFleet(t *testing.T) {
	soak.Only(t)
	fleet(t, 200)
}

func fleet(t *testing.T, machines int) {
	f := newFixture(t)
	const limit = 5
	f.namespace(t, "fleet", machines)
	w := f.watch(t, "fleet")
	r := f.rollout(t, "fleet", "grace", patch(needsRestart, 40), atOnce(limit))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	began := time.Now()
	deadline := began.Add(6 * time.Minute)
	for ; r.Status.Phase != v1alpha1.PhaseComplete; <-time.After(50 * time.Millisecond) {
		must(t, f.step(t, controller, r))
		if time.Now().After(deadline) {
			t.Fatalf("%+v", r.Status.Counts)
		}
	}
	worst := w.worst(machines)
	t.Logf("%d virtual machines in %s: at most %d unavailable, %.2f writes for each", machines, time.Since(began).Round(time.Second), worst, float64(count(c))/float64(machines))
	if worst > limit || worst == 0 || count(c) > 3*machines {
		t.Errorf("%d were unavailable, %d writes", worst, count(c))
	}
	exactly(t, w, 1)
}
