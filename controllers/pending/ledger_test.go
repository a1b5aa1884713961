package pending

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/rollouts"
)

func key(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}}
}

// TestFailuresAreCounted holds that the metrics count a failure of KubeVirt of a VM that has no other change.
func TestFailuresAreCounted(t *testing.T) {
	vm := &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{}}}
	in := &rollouts.Input{
		LastStarted: vm.Spec.DeepCopy(), Desired: vm, Running: &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running}},
		DesiredKinds: rollouts.Kinds{Missing: []rollouts.Missing{{Field: "spec.preference", What: `VirtualMachinePreference "gone"`}}},
	}
	pending := rollouts.Pending(in)
	l := newLedger()
	l.began()
	l.set(key("a"), recordOf(in, &pending, nil))
	if err := testutil.CollectAndCompare(l, strings.NewReader(`
# HELP virtward_vm_pending_changes Pending changes of running virtual machines, by when they take effect.
# TYPE virtward_vm_pending_changes gauge
virtward_vm_pending_changes{kind="Blocked"} 1
virtward_vm_pending_changes{kind="LiveOnMigration"} 0
virtward_vm_pending_changes{kind="Never"} 0
virtward_vm_pending_changes{kind="Restart"} 0
`), "virtward_vm_pending_changes"); err != nil {
		t.Error(err)
	}
}

// TestLedger holds that the metrics count every VM once, and that counts are complete once the first list is compared.
func TestLedger(t *testing.T) {
	l := newLedger()
	if n := testutil.CollectAndCount(l); n != 0 {
		t.Errorf("a replica that does not lead has %d metrics", n)
	}
	l.began()
	for _, name := range []string{"a", "b", "stopped"} {
		l.expects(key(name))
	}
	l.set(key("a"), record{changes: [len(kinds)]uint16{1, 2, 0, 0}, sockets: 4, guest: 2 << 30, waits: rollouts.NoLiveMigrate})
	l.set(key("b"), record{announced: true, sockets: 8, guest: 1 << 30})
	l.compared(key("a"))
	l.compared(key("b"))
	if l.totals().complete {
		t.Error("it is complete before all VMs are compared")
	}
	l.remove(key("stopped"))
	l.compared(key("stopped"))
	l.set(key("a"), record{changes: [len(kinds)]uint16{0, 3, 0, 1}, sockets: 4, guest: 2 << 30, waits: rollouts.NoLiveMigrate})
	l.expects(key("later"))
	got := l.totals()
	counts := got.counts()
	const want = `{"time":null,"complete":true,"running":2,"pending":1,"takes":{"Never":1,"Restart":1},"maxSockets":8,"maxGuest":"2Gi"}`
	if counts.String() != want || got.announced != 1 {
		t.Errorf("counts %s", counts.String())
	}
	if err := testutil.CollectAndCompare(l, strings.NewReader(`
# HELP virtward_vm_compared Running virtual machines that are compared with what they were started with.
# TYPE virtward_vm_compared gauge
virtward_vm_compared 2
# HELP virtward_vm_migration_never_comes Running virtual machines with a change that waits for a live migration which KubeVirt does not start, by the reason.
# TYPE virtward_vm_migration_never_comes gauge
virtward_vm_migration_never_comes{reason="NoLiveMigrate"} 1
virtward_vm_migration_never_comes{reason="NotMigratable"} 0
# HELP virtward_vm_pending_changes Pending changes of running virtual machines, by when they take effect.
# TYPE virtward_vm_pending_changes gauge
virtward_vm_pending_changes{kind="Blocked"} 0
virtward_vm_pending_changes{kind="LiveOnMigration"} 0
virtward_vm_pending_changes{kind="Never"} 1
virtward_vm_pending_changes{kind="Restart"} 3
# HELP virtward_vm_restart_required Running virtual machines with a change that needs a restart.
# TYPE virtward_vm_restart_required gauge
virtward_vm_restart_required 1
`)); err != nil {
		t.Error(err)
	}
	l.remove(key("a"))
	if l.totals().pending != 0 || len(l.keys()) != 1 {
		t.Errorf("%+v", l.totals())
	}
}

// TestLedgerIsBounded holds that a VM that does not fit is not counted, and that the counts say so.
func TestLedgerIsBounded(t *testing.T) {
	l := newLedger()
	l.began()
	for i := range maxMachines + 1 {
		l.set(key(fmt.Sprint(i)), record{})
	}
	if got := l.totals(); got.running != maxMachines || got.complete {
		t.Errorf("%+v", got)
	}
}

// TestStamps holds that an annotation counts only for a VM that was not compared before.
func TestStamps(t *testing.T) {
	l := newLedger()
	if l.stamps(key("a")) != nil {
		t.Error("an unknown VM has times")
	}
	l.set(key("a"), record{})
	if got := l.stamps(key("a")); got == nil || len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestPublisher holds that counts are written when they change, and as a heartbeat, and never by a replica that does not lead.
func TestPublisher(t *testing.T) {
	r := New(Options{})
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	client := fake.NewClientset()
	var written []string
	var failure error
	client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		var object struct{ Data map[string]string }
		if err := json.Unmarshal(patch.GetPatch(), &object); err != nil || patch.GetName() != v1alpha1.CountsName || patch.GetNamespace() != "virtward-system" {
			t.Errorf("%v: %+v", err, patch)
		}
		if failure == nil {
			written = append(written, object.Data[v1alpha1.CountsKey])
		}
		return true, nil, failure
	})
	p := &Publisher{Reconciler: r, ConfigMaps: client.CoreV1().ConfigMaps("virtward-system"), Clock: clock, Log: logr.Discard()}
	publish := func(want int) {
		t.Helper()
		if err := p.publish(context.Background()); err != nil {
			t.Error(err)
		}
		if len(written) != want {
			t.Fatalf("it wrote %q, want %d times", written, want)
		}
	}
	publish(0)
	r.ledger.began()
	publish(1)
	clock.Step(time.Minute)
	publish(1)
	r.ledger.set(key("a"), record{changes: [len(kinds)]uint16{0, 1}})
	publish(2)
	clock.Step(heartbeat)
	publish(3)
	failure = fmt.Errorf("denied")
	r.ledger.remove(key("a"))
	if err := p.publish(context.Background()); err == nil {
		t.Error("a failure is not an error")
	}
	failure = nil
	publish(4)
	counts, err := v1alpha1.CountsOf(map[string]string{v1alpha1.CountsKey: written[1]})
	if err != nil || counts.Running != 1 || counts.Takes["Restart"] != 1 || !counts.Time.Time.Equal(clock.Now().Add(-heartbeat)) {
		t.Errorf("%v: %+v", err, counts)
	}
}
