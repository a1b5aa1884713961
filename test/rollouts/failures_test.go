package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/simulators"
)

// TestFailures carries rollouts out while parts of KubeVirt fail.
func TestFailures(t *testing.T) {
	t.Parallel()
	inParallel(t, []scenario{
		{"restart fails for some time", (*fixture).restartFails},
		{"restart fails until the timeout", (*fixture).restartFailsForever},
		{"guest agent", (*fixture).agent},
		{"own migration fails", (*fixture).ownMigrationFails},
		{"instance fails after its restart", (*fixture).instanceFails},
		{"node gone", (*fixture).nodeGone},
		{"policies", (*fixture).underPolicies},
	})
}

// restartsOf counts those of some writes that are calls of the subresource restart. KubeVirt rejects a call with a conflict if the
// virtual machine changed at the same time, and the controller repeats it, so one restart can be several calls.
func restartsOf(writes []string, name string) int {
	count := 0
	for _, write := range writes {
		if strings.HasSuffix(write, "/virtualmachines/"+name+"/restart") {
			count++
		}
	}
	return count
}

// restartFails: the call is repeated until it succeeds, and the status says why it failed.
func (f *fixture) restartFails(t *testing.T) {
	f.namespace(t, "retried", 2)
	f.annotate(t, "retried", "vm000", simulators.RestartFails, "500")
	w := f.watch(t, "retried")
	r := f.rollout(t, "retried", "grace", patch(needsRestart, 40))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.drive(t, controller, r, func() bool { return restartsOf(c.Writes(), "vm000") >= 3 })
	if state, reason := of(r, "vm000"); state != v1alpha1.StateRestarting || !strings.HasPrefix(reason, "is being restarted; the last attempt failed: ") || !strings.Contains(reason, "a simulated failure") {
		t.Errorf("%s: %s", state, reason)
	}
	if restarts := w.restarts(); restarts["vm000"] != 0 || restarts["vm001"] != 0 {
		t.Errorf("restarts %v", restarts)
	}
	f.annotate(t, "retried", "vm000", simulators.RestartFails, "")
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
	if r.Status.Counts.Failed != 0 || r.Status.Counts.Done != 2 {
		t.Errorf("%+v", r.Status.Counts)
	}
}

// restartFailsForever: after the timeout, the virtual machine counts as failed, and no other one is begun.
func (f *fixture) restartFailsForever(t *testing.T) {
	f.namespace(t, "down", 2)
	f.annotate(t, "down", "vm000", simulators.RestartFails, "500")
	w := f.watch(t, "down")
	r := f.rollout(t, "down", "grace", patch(needsRestart, 41))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.drive(t, controller, r, func() bool { return restartsOf(c.Writes(), "vm000") >= 2 })
	f.clock.add(time.Hour)
	f.until(t, controller, r, v1alpha1.PhasePaused)
	state, reason := of(r, "vm000")
	if state != v1alpha1.StateFailed || !strings.HasPrefix(reason, "Restarting longer than 10m0s: it is being restarted; the last attempt failed: ") {
		t.Errorf("%s: %s", state, reason)
	}
	if paused, _ := condition(r, v1alpha1.ConditionPaused); paused != v1alpha1.ReasonPausedByFailures || r.Status.Counts.Failed != 1 || restartsOf(c.Writes(), "vm001") != 0 {
		t.Errorf("%+v", r.Status)
	}
	exactly(t, w, 0)
}

// agent: a virtual machine is done once its guest agent is connected.
func (f *fixture) agent(t *testing.T) {
	f.namespace(t, "agents", 2)
	f.annotate(t, "agents", "vm000", simulators.NoAgent, "true")
	w := f.watch(t, "agents")
	r := f.rollout(t, "agents", "grace", patch(needsRestart, 42), func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Health.Ready = v1alpha1.ReadyByAgent })
	controller := f.controller(t, &kills.Connection{Left: -1})
	f.drive(t, controller, r, func() bool {
		state, reason := of(r, "vm000")
		return state == v1alpha1.StateVerifying && reason == "waits for the condition AgentConnected"
	})
	if restarts := w.restarts(); restarts["vm000"] != 1 || restarts["vm001"] != 0 {
		t.Errorf("restarts %v: the next one waits for the agent of the first one", restarts)
	}
	f.annotate(t, "agents", "vm000", simulators.NoAgent, "")
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
}

// ownMigrationFails: the migration is removed, and the next attempt has another one.
func (f *fixture) ownMigrationFails(t *testing.T) {
	f.namespace(t, "stuck", 2)
	f.annotate(t, "stuck", "vm000", simulators.MigrationFails, "the target has no memory")
	w := f.watch(t, "stuck")
	r := f.rollout(t, "stuck", "nodes", patch(needsNodes, 1), func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Strategy.MaxConcurrentMigrations = new(int32(1))
	})
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.until(t, controller, r, v1alpha1.PhasePaused)
	if state, reason := of(r, "vm000"); state != v1alpha1.StateFailed || reason != "the migration failed: the target has no memory" {
		t.Errorf("%s: %s", state, reason)
	}
	removed := func() bool {
		migrations := &kubevirtv1.VirtualMachineInstanceMigrationList{}
		must(t, f.Client().List(t.Context(), migrations, client.InNamespace("stuck")))
		return len(migrations.Items) == 0
	}
	f.drive(t, controller, r, removed)
	f.annotate(t, "stuck", "vm000", simulators.MigrationFails, "")
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume = 1 })
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	f.drive(t, controller, r, removed)
	exactly(t, w, 0)
	created := 0
	for _, write := range c.Accepted() {
		if strings.HasPrefix(write, "POST ") && strings.HasSuffix(write, "/virtualmachineinstancemigrations") {
			created++
		}
	}
	if created != 3 {
		t.Errorf("%d migrations were created: %q", created, c.Writes())
	}
}

// phase sets the phase of an instance, as virt-controller does for an instance whose node is lost. KubeVirt keeps the status
// from other users.
func (f *fixture) phase(t *testing.T, namespace, name string, phase kubevirtv1.VirtualMachineInstancePhase) {
	t.Helper()
	config, err := f.ServiceAccountConfig(t.Context(), simulators.Namespace, simulators.ControllerAccount)
	must(t, err)
	controller, err := client.New(config, client.Options{Scheme: f.Client().Scheme()})
	must(t, err)
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := f.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, vmi); err != nil {
			return err
		}
		vmi.Status.Phase = phase
		return controller.Update(t.Context(), vmi)
	}))
}

// instanceFails: KubeVirt replaces the instance, and the rollout waits for the next one without another restart.
func (f *fixture) instanceFails(t *testing.T) {
	f.namespace(t, "crashing", 2)
	f.annotate(t, "crashing", "vm000", simulators.NeverReady, "the kernel panics")
	w := f.watch(t, "crashing")
	r := f.rollout(t, "crashing", "grace", patch(needsRestart, 43))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.drive(t, controller, r, func() bool {
		state, _ := of(r, "vm000")
		return state == v1alpha1.StateVerifying
	})
	f.phase(t, "crashing", "vm000", kubevirtv1.Failed)
	f.drive(t, controller, r, func() bool { return w.restarts()["vm000"] == 2 })
	if state, reason := of(r, "vm000"); state == v1alpha1.StateDone || restartsOf(c.Writes(), "vm001") != 0 {
		t.Errorf("%s: %s", state, reason)
	}
	f.annotate(t, "crashing", "vm000", simulators.NeverReady, "")
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	if restartsOf(c.Accepted(), "vm000") != 1 || restartsOf(c.Accepted(), "vm001") != 1 {
		t.Errorf("writes %q", c.Writes())
	}
}

// nodeGone: an instance in the phase Unknown does not end. It fails after the timeout, and takes its place in the budget.
func (f *fixture) nodeGone(t *testing.T) {
	f.namespace(t, "lost", 4)
	f.annotate(t, "lost", "vm002", simulators.NodeGone, "true")
	f.phase(t, "lost", "vm002", kubevirtv1.Unknown)
	f.ready(t, "lost", 3)
	w := f.watch(t, "lost")
	r := f.rollout(t, "lost", "grace", patch(needsRestart, 44), atOnce(2), func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.FailurePolicy = v1alpha1.FailureContinue
	})
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.drive(t, controller, r, func() bool { return r.Status.Counts.Done == 3 })
	if state, reason := of(r, "vm002"); state != v1alpha1.StateRestarting || reason != "waits until its instance has ended" || r.Status.Counts.Unavailable != 1 {
		t.Errorf("%s: %s, %+v", state, reason, r.Status.Counts)
	}
	f.clock.add(time.Hour)
	f.until(t, controller, r, v1alpha1.PhaseFailed)
	if state, reason := of(r, "vm002"); state != v1alpha1.StateFailed || reason != "Restarting longer than 10m0s: it waits until its instance has ended" || w.worst(4) > 2 {
		t.Errorf("%s: %s, %d were unavailable", state, reason, w.worst(4))
	}
	f.annotate(t, "lost", "vm002", simulators.NodeGone, "")
	f.ready(t, "lost", 4)
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.Resume = 1 })
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	exactly(t, w, 1)
	if restartsOf(c.Accepted(), "vm002") != 1 {
		t.Errorf("writes %q", c.Writes())
	}
}

// enforce makes the controllers that are created from now on evaluate a policy.
func (f *fixture) enforce(t *testing.T, name, spec string) {
	t.Helper()
	env, err := cel.NewEnvironment()
	must(t, err)
	policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(t, yaml.UnmarshalStrict([]byte(spec), &policy.Spec))
	compiled, problems := policies.Compile(env, policy, nil)
	if diagnostics.Broken(problems) {
		t.Fatalf("%v", problems)
	}
	f.policies = policies.NewSet("virtward-system", compiled)
}

// underPolicies: a policy denies the change of one virtual machine, so none is changed; unless those are skipped.
func (f *fixture) underPolicies(t *testing.T) {
	f.namespace(t, "policies", 3)
	f.merge(t, "policies", "vm001", `{"metadata": {"labels": {"tier": "prod"}}}`)
	f.enforce(t, "prod-stops-quickly", `{title: Production stops quickly, enforcement: Deny, match: {objectSelector: {matchLabels: {tier: prod}}}, validations: [
		{expression: "vm.spec.terminationGracePeriodSeconds <= 60", message: production stops within a minute, fieldPath: spec.terminationGracePeriodSeconds}]}`)
	w := f.watch(t, "policies")
	r := f.rollout(t, "policies", "grace", patch(needsRestart, 120), atOnce(3))
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	f.until(t, controller, r, v1alpha1.PhaseDenied)
	v := r.Status.Validation
	if v.Denied != 1 || len(v.Findings) != 1 || count(c) != 0 {
		t.Fatalf("%+v after %d writes", v, count(c))
	}
	if got := v.Findings[0]; got.VirtualMachine != "vm001" || got.Rule != "policy/prod-stops-quickly" || got.Field != "spec.template.spec.terminationGracePeriodSeconds" || !strings.Contains(got.Message, "production stops within a minute") {
		t.Errorf("%+v", got)
	}
	exactly(t, w, 0)
	f.edit(t, r, func(spec *v1alpha1.VirtualMachineRolloutSpec) { spec.SkipDenied = true })
	f.until(t, controller, r, v1alpha1.PhaseComplete)
	if state, reason := of(r, "vm001"); state != v1alpha1.StateSkipped || !strings.Contains(reason, "production stops within a minute") || r.Status.Counts.Done != 2 {
		t.Errorf("%s: %s, %+v", state, reason, r.Status.Counts)
	}
	if restarts := w.restarts(); restarts["vm000"] != 1 || restarts["vm001"] != 0 || restarts["vm002"] != 1 {
		t.Errorf("restarts %v", restarts)
	}
	vm := &kubevirtv1.VirtualMachine{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: "policies", Name: "vm001"}, vm))
	if grace := vm.Spec.Template.Spec.TerminationGracePeriodSeconds; vm.Annotations[v1alpha1.AnnotationRollout] != "" || grace != nil {
		t.Errorf("vm001 was changed: %+v", vm.ObjectMeta)
	}
}

// underPolicyAboutRestarts: KubeVirt migrates, and the policy reads what the change needs, and the requester.
func (f *fixture) underPolicyAboutRestarts(t *testing.T) {
	f.namespace(t, "restartless", 2)
	f.enforce(t, "no-restarts", `{title: No restarts by admins, enforcement: Deny, validations: [
		{expression: "request.userInfo.username != 'admin' || rollout.restart.size() == 0", message: restarts need another user}]}`)
	w := f.watch(t, "restartless")
	c := &kills.Connection{Left: -1}
	controller := f.controller(t, c)
	restarting := f.rollout(t, "restartless", "grace", patch(needsRestart, 121))
	f.until(t, controller, restarting, v1alpha1.PhaseDenied)
	v := restarting.Status.Validation
	if v.Denied != 2 || count(c) != 0 || !slices.ContainsFunc(v.Findings, func(f v1alpha1.Finding) bool { return f.Rule == "policy/no-restarts" && f.VirtualMachine == "vm001" }) {
		t.Errorf("%+v after %d writes", v, count(c))
	}
	must(t, f.Client().Delete(t.Context(), restarting))
	f.until(t, controller, f.rollout(t, "restartless", "sockets", patch(needsMigration, 2)), v1alpha1.PhaseComplete)
	exactly(t, w, 0)
	vmis := &kubevirtv1.VirtualMachineInstanceList{}
	must(t, f.Client().List(t.Context(), vmis, client.InNamespace("restartless")))
	for i := range vmis.Items {
		if got := vmis.Items[i].Status.CurrentCPUTopology; got == nil || got.Sockets != 2 {
			t.Errorf("%s runs with %+v", vmis.Items[i].Name, got)
		}
	}
}
