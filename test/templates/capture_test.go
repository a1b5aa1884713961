package templates

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/platform"
	captured "github.com/virtward/virtward/templates/capture"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// TestCaptures captures VMs on a real API server, whatever happens meanwhile.
func TestCaptures(t *testing.T) {
	f := newFixture(t)
	f.installDefinitions(t)
	t.Run("killed after each write", f.killedAfterEachWrite)
	t.Run("deleted after each write", f.deleted)
	t.Run("failures", f.failures)
	t.Run("names that are taken", f.taken)
	t.Run("quota", f.quota)
	t.Run("deadline", f.deadline)
	t.Run("source deleted midway", f.orphaned)
	t.Run("snapshot deleted midway", f.snapshotLost)
	t.Run("time to live", f.reaped)
	t.Run("instancetype", f.instancetype)
	t.Run("state of the source", f.sourceState)
	t.Run("API server restarts", f.restarted)
	t.Run("several captures of one VM", f.several)
	t.Run("clones need a permission", f.unauthorized)
}

func (f *fixture) installDefinitions(t *testing.T) {
	files, err := filepath.Glob("../../api/template/definitions/*.yaml")
	must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		must(t, yaml.UnmarshalStrict(data, definition))
		must(t, f.InstallCRDs(t.Context(), definition))
	}
}

// controller is a new controller, with a connection of its own.
func (f *fixture) controller(t testing.TB, c *kills.Connection, deadlines capture.Deadlines) *capture.Reconciler {
	t.Helper()
	live, config := c.Connect(t, f.Config(), f.Client().Scheme())
	objects, err := platform.NewObjects(config)
	must(t, err)
	return capture.New(capture.Options{
		Client: live, Expander: &capture.LiveExpander{Objects: objects}, Deadlines: deadlines, Clock: clock.RealClock{},
		Tell: func(*v1beta1.VirtualMachineTemplateRequest, events.Event) {},
	})
}

// usual are deadlines that a test does not reach.
var usual = capture.Deadlines{Snapshot: time.Hour, Clone: time.Hour}

// drive reconciles a request until a check holds. The error is that of a killed controller.
func (f *fixture) drive(t testing.TB, r *capture.Reconciler, request *v1beta1.VirtualMachineTemplateRequest, until func() bool) error {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !until() {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		if errors.Is(err, kills.Err) {
			return err
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, %v", request.Name, request.Status.Conditions, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	return nil
}

// settled reports whether a request has ended, and its finalizer is gone.
func (f *fixture) settled(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest) func() bool {
	return func() bool {
		err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return true
		}
		must(t, err)
		return meta.IsStatusConditionFalse(request.Status.Conditions, v1beta1.RequestProgressing) && len(request.Finalizers) == 0
	}
}

// complete drives a request to its end, and returns the reason of the condition Completed.
func (f *fixture) complete(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest, deadlines capture.Deadlines) metav1.Condition {
	t.Helper()
	must(t, f.drive(t, f.controller(t, &kills.Connection{Left: -1}, deadlines), request, f.settled(t, request)))
	return f.condition(t, request, v1beta1.RequestCompleted)
}

// whole are the objects of a capture of two volumes.
func whole(name string) []string {
	return []string{"VirtualMachineTemplate " + name, "DataVolume of the template", "DataVolume of the template"}
}

// isWhole fails the test unless the capture left exactly the template with its volumes.
func (f *fixture) isWhole(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest) {
	t.Helper()
	intermediate, result := f.left(t, request)
	if diff := cmp.Diff(whole(captured.TemplateName(request)), result); diff != "" || len(intermediate) > 0 {
		t.Errorf("left: %q; result (-want +got):\n%s", intermediate, diff)
	}
}

// isNothing waits until nothing of a capture is left.
func (f *fixture) isNothing(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest) {
	t.Helper()
	await.Until(t, func() error {
		if intermediate, result := f.left(t, request); len(intermediate)+len(result) > 0 {
			return fmt.Errorf("left: %q, %q", intermediate, result)
		}
		return nil
	})
}

// writesOf counts the accepted writes of a capture that nothing disturbs.
func (f *fixture) writesOf(t testing.TB, vm string) int {
	t.Helper()
	request := f.request(t, "count-"+vm, vm)
	c := &kills.Connection{Left: -1}
	must(t, f.drive(t, f.controller(t, c, usual), request, f.settled(t, request)))
	f.isWhole(t, request)
	if len(c.Accepted()) < 9 {
		t.Fatalf("writes: %q", c.Writes())
	}
	return len(c.Accepted())
}

// killedAfterEachWrite kills the controller before and after each write. The next one ends the capture, without duplicates or orphans.
func (f *fixture) killedAfterEachWrite(t *testing.T) {
	f.machine(t, "kill", "kill-root", "kill-data")
	writes := f.writesOf(t, "kill")
	t.Logf("a capture has %d writes", writes)
	turn := 0
	for at := range writes {
		for _, lost := range []bool{false, true} {
			if turn++; lost && at == 0 || turn%3 != 0 && !soak.On() { // make soak has every turn
				continue
			}
			request := f.request(t, fmt.Sprintf("kill-%d-%v", at, lost), "kill")
			err := f.drive(t, f.controller(t, &kills.Connection{Left: at, Lost: lost}, usual), request, f.settled(t, request))
			if !errors.Is(err, kills.Err) && at < writes-2 { // statuses in between depend on the time
				t.Errorf("at %d: it was not killed", at)
			}
			if c := f.complete(t, request, usual); c.Status != metav1.ConditionTrue {
				t.Errorf("at %d, lost %v: %+v", at, lost, c)
			}
			f.isWhole(t, request)
		}
	}
}

// deleted deletes the request after each write. Either nothing is left, or the whole template.
func (f *fixture) deleted(t *testing.T) {
	f.machine(t, "delete", "delete-root", "delete-data")
	writes := f.writesOf(t, "delete")
	kept := 0
	for at := range writes {
		request := f.request(t, fmt.Sprintf("delete-%d", at), "delete")
		_ = f.drive(t, f.controller(t, &kills.Connection{Left: at}, usual), request, f.settled(t, request)) // it is killed, or has ended
		must(t, client.IgnoreNotFound(f.Client().Delete(t.Context(), request)))
		must(t, f.drive(t, f.controller(t, &kills.Connection{Left: -1}, usual), request, func() bool {
			return apierrors.IsNotFound(f.Client().Get(t.Context(), client.ObjectKeyFromObject(request), request))
		}))
		if _, result := f.left(t, request); len(result) == 3 {
			kept++
			f.isWholeSoon(t, request)
			continue
		}
		f.isNothing(t, request)
	}
	if kept == 0 || kept == writes {
		t.Errorf("%d of %d templates were kept", kept, writes)
	}
}

func (f *fixture) isWholeSoon(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest) {
	t.Helper()
	await.Until(t, func() error {
		if intermediate, result := f.left(t, request); len(intermediate) > 0 || len(result) != 3 {
			return fmt.Errorf("left: %q, %q", intermediate, result)
		}
		return nil
	})
}

// failures: the condition says why, and nothing is left.
func (f *fixture) failures(t *testing.T) {
	f.machine(t, "broken", "broken-root", "broken-data")
	excluded := f.machine(t, "excluded")
	f.claim(t, machines, "excluded-disk", simulators.NoSnapshots)
	excluded.Spec.Template.Spec.Domain.Devices.Disks = []kubevirtv1.Disk{{Name: "unsafe"}}
	excluded.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "unsafe", VolumeSource: kubevirtv1.VolumeSource{
		PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "excluded-disk"}},
	}}}
	must(t, f.Client().Update(t.Context(), excluded))
	fails := func(text string) simulators.Script {
		return func(client.Object) simulators.Verdict { return simulators.Verdict{Failure: text} }
	}
	for name, s := range map[string]struct {
		vm               string
		snapshots, cdi   simulators.Script
		reason, contains string
	}{
		"snapshot": {"broken", fails("the disk is on fire"), nil, v1beta1.ReasonSnapshotFailed, "the disk is on fire"},
		"clone":    {"broken", nil, fails("no space"), v1beta1.ReasonCloneFailed, "no space"},
		"missing":  {"nothing", nil, nil, v1beta1.ReasonSnapshotFailed, "Source does not exist"},
		"excluded": {"excluded", nil, nil, v1beta1.ReasonVolumesNotCaptured, "unsafe"},
	} {
		t.Run(name, func(t *testing.T) {
			f.snapshots.Follow(s.snapshots)
			f.cdi.Follow(s.cdi)
			defer f.snapshots.Follow(nil)
			defer f.cdi.Follow(nil)
			request := f.request(t, "fails-"+name, s.vm)
			c := f.complete(t, request, usual)
			if c.Status != metav1.ConditionFalse || c.Reason != s.reason || !strings.Contains(c.Message, s.contains) || c.ObservedGeneration != request.Generation {
				t.Errorf("Completed is %+v", c)
			}
			f.isNothing(t, request)
		})
	}
}

// taken: an object of another user ends the capture, and stays as it is.
func (f *fixture) taken(t *testing.T) {
	f.machine(t, "taken", "taken-root")
	for name, object := range map[string]func(*v1beta1.VirtualMachineTemplateRequest) client.Object{
		"template": func(r *v1beta1.VirtualMachineTemplateRequest) client.Object {
			template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: r.Name}}
			must(t, yaml.Unmarshal([]byte(golden), &template.Spec))
			return template
		},
		"snapshot": func(r *v1beta1.VirtualMachineTemplateRequest) client.Object {
			return &snapshotv1beta1.VirtualMachineSnapshot{
				ObjectMeta: metav1.ObjectMeta{Namespace: machines, Name: captured.SnapshotName(r)},
				Spec:       snapshotv1beta1.VirtualMachineSnapshotSpec{Source: corev1.TypedLocalObjectReference{Kind: "VirtualMachine", Name: "taken"}},
			}
		},
		"volume": func(r *v1beta1.VirtualMachineTemplateRequest) client.Object {
			return &cdiv1beta1.DataVolume{
				ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: captured.CloneName(r, "taken-root"), Labels: map[string]string{v1beta1.LabelRequestUID: string(r.UID)}},
				Spec:       cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}}, Storage: &cdiv1beta1.StorageSpec{}},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := f.request(t, "taken-"+name, "taken")
			foreign := object(request)
			must(t, f.Client().Create(t.Context(), foreign))
			if c := f.complete(t, request, usual); c.Status != metav1.ConditionFalse || c.Reason != v1beta1.ReasonNameTaken || !strings.Contains(c.Message, foreign.GetName()) {
				t.Errorf("Completed is %+v", c)
			}
			must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
			if foreign.GetDeletionTimestamp() != nil {
				t.Error("the object is deleted")
			}
			must(t, f.Client().Delete(t.Context(), foreign))
		})
	}
}

// quota: the condition says what is denied, and the capture continues when the quota allows it.
func (f *fixture) quota(t *testing.T) {
	f.machine(t, "full", "full-root", "full-data")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "full"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/datavolumes.cdi.kubevirt.io": quantity("0")}},
	}
	must(t, f.Client().Create(t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{"count/datavolumes.cdi.kubevirt.io": quantity("0")}}
	must(t, f.Client().Status().Update(t.Context(), quota))
	request := f.request(t, "full", "full")
	must(t, f.drive(t, f.controller(t, &kills.Connection{Left: -1}, usual), request, func() bool {
		c := f.condition(t, request, v1beta1.RequestReady)
		return c.Reason == v1beta1.ReasonBlocked && strings.Contains(c.Message, "exceeded quota: full")
	}))
	must(t, f.Client().Delete(t.Context(), quota))
	if c := f.complete(t, request, usual); c.Status != metav1.ConditionTrue {
		t.Errorf("Completed is %+v", c)
	}
	f.isWhole(t, request)
}

// wait holds every operation.
func wait(client.Object) simulators.Verdict { return simulators.Verdict{Wait: true} }

func (f *fixture) deadline(t *testing.T) {
	f.machine(t, "slow", "slow-root")
	for name, follow := range map[string]func(simulators.Script){"snapshot": f.snapshots.Follow, "clone": f.cdi.Follow} {
		follow(wait)
		request := f.request(t, "slow-"+name, "slow")
		c := f.complete(t, request, capture.Deadlines{Snapshot: 3 * time.Second, Clone: 3 * time.Second})
		if c.Reason != v1beta1.ReasonDeadlineExceeded || !strings.Contains(c.Message, "3s") {
			t.Errorf("Completed is %+v", c)
		}
		follow(nil)
		f.isNothing(t, request)
	}
}

// cloning drives a request until it clones, and holds it there.
func (f *fixture) cloning(t *testing.T, request *v1beta1.VirtualMachineTemplateRequest) {
	t.Helper()
	must(t, f.drive(t, f.controller(t, &kills.Connection{Left: -1}, usual), request, func() bool {
		return f.condition(t, request, v1beta1.RequestProgressing).Reason == v1beta1.ReasonCloning
	}))
}

// orphaned: a snapshot is enough, so the VM may be deleted.
func (f *fixture) orphaned(t *testing.T) {
	vm := f.machine(t, "orphaned", "orphaned-root", "orphaned-data")
	f.cdi.Follow(wait)
	request := f.request(t, "orphaned", "orphaned")
	f.cloning(t, request)
	must(t, f.Client().Delete(t.Context(), vm))
	f.cdi.Follow(nil)
	if c := f.complete(t, request, usual); c.Status != metav1.ConditionTrue {
		t.Errorf("Completed is %+v", c)
	}
	f.isWhole(t, request)
}

// snapshotLost: without the snapshot the volumes would be of different times.
func (f *fixture) snapshotLost(t *testing.T) {
	f.machine(t, "lost", "lost-root", "lost-data")
	f.cdi.Follow(wait)
	defer f.cdi.Follow(nil)
	request := f.request(t, "lost", "lost")
	f.cloning(t, request)
	snapshot := &snapshotv1beta1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: machines, Name: captured.SnapshotName(request)}}
	must(t, f.Client().Delete(t.Context(), snapshot))
	f.gone(t, snapshot)
	if c := f.complete(t, request, usual); c.Reason != v1beta1.ReasonSnapshotFailed || !strings.Contains(c.Message, "deleted") {
		t.Errorf("Completed is %+v", c)
	}
	f.isNothing(t, request)
}

// reaped: a completed request is deleted after its time to live, and the template stays.
func (f *fixture) reaped(t *testing.T) {
	f.machine(t, "reaped", "reaped-root", "reaped-data")
	ttl := func(seconds int32) func(*v1beta1.VirtualMachineTemplateRequest) {
		return func(r *v1beta1.VirtualMachineTemplateRequest) { r.Spec.TTLSecondsAfterFinished = &seconds }
	}
	request, later := f.request(t, "reaped", "reaped", ttl(1)), f.request(t, "later", "reaped", ttl(3600))
	gone := func(object client.Object) func() bool {
		return func() bool {
			return apierrors.IsNotFound(f.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
		}
	}
	must(t, f.drive(t, f.controller(t, &kills.Connection{Left: -1}, usual), request, gone(request)))
	f.isWhole(t, request)
	f.complete(t, later, usual)
	result, err := f.controller(t, &kills.Connection{Left: -1}, usual).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(later)})
	if err != nil || result.RequeueAfter < 59*time.Minute || result.RequeueAfter > time.Hour {
		t.Errorf("result %v, %v", result, err)
	}
	failed := f.request(t, "unreaped", "nothing", ttl(0))
	f.complete(t, failed, usual)
	if gone(failed)() {
		t.Error("a failed request was deleted")
	}
}

// instancetype: it is expanded by default, and kept on request.
func (f *fixture) instancetype(t *testing.T) {
	vm := f.machine(t, "typed", "typed-root")
	vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "absent"}
	vm.Spec.Template.Spec.Domain.Memory = nil
	must(t, f.Client().Update(t.Context(), vm))
	expanded := f.request(t, "expanded", "typed")
	if c := f.complete(t, expanded, usual); c.Reason != v1beta1.ReasonExpansionFailed || !strings.Contains(c.Message, "absent") {
		t.Errorf("Completed is %+v", c)
	}
	kept := f.request(t, "kept", "typed", func(r *v1beta1.VirtualMachineTemplateRequest) { r.Spec.InstancetypePolicy = v1beta1.InstancetypeKeep })
	if c := f.complete(t, kept, usual); c.Status != metav1.ConditionTrue {
		t.Errorf("Completed is %+v", c)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "kept"}, template))
	if !strings.Contains(string(template.Spec.VirtualMachine.Raw), `"instancetype":{"name":"absent"}`) {
		t.Errorf("the template is %s", template.Spec.VirtualMachine.Raw)
	}
}

// sourceState: a source that is not in the required state ends the capture. The template has the state.
func (f *fixture) sourceState(t *testing.T) {
	vm := f.machine(t, "stateful", "stateful-root")
	capture := func(name string, state v1beta1.SourceState) metav1.Condition {
		t.Helper()
		request := f.request(t, name, "stateful", func(r *v1beta1.VirtualMachineTemplateRequest) { r.Spec.SourceState = state })
		c := f.complete(t, request, usual)
		if c.Status != metav1.ConditionTrue {
			f.isNothing(t, request)
			return c
		}
		template := &v1beta1.VirtualMachineTemplate{}
		must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: name}, template))
		c.Reason = template.Annotations[v1beta1.AnnotationSourceState]
		return c
	}
	expect := func(name string, state v1beta1.SourceState, status metav1.ConditionStatus, reason string) {
		t.Helper()
		if c := capture(name, state); c.Status != status || c.Reason != reason {
			t.Errorf("%s: Completed is %s, %s: %s; want %s, %s", name, c.Status, c.Reason, c.Message, status, reason)
		}
	}
	run := func(conditions ...kubevirtv1.VirtualMachineCondition) {
		t.Helper()
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(vm), vm))
		vm.Status.Created, vm.Status.Conditions = true, conditions
		must(t, f.Client().Status().Update(t.Context(), vm))
	}
	expect("stopped", v1beta1.SourceStopped, metav1.ConditionTrue, "Stopped")
	run()
	expect("running", "", metav1.ConditionTrue, "Running")
	expect("not-stopped", v1beta1.SourceStopped, metav1.ConditionFalse, v1beta1.ReasonSourceNotStopped)
	expect("not-frozen", v1beta1.SourceQuiesced, metav1.ConditionFalse, v1beta1.ReasonSourceNotQuiesced)
	run(kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceAgentConnected), Status: corev1.ConditionTrue})
	expect("frozen", v1beta1.SourceQuiesced, metav1.ConditionTrue, "Quiesced")
	request := &v1beta1.VirtualMachineTemplateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "unknown"}}
	request.Spec = v1beta1.VirtualMachineTemplateRequestSpec{VirtualMachineRef: v1beta1.VirtualMachineReference{Namespace: machines, Name: "stateful"}, SourceState: "Running"}
	if err := f.Client().Create(t.Context(), request); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.sourceState: Unsupported value: "Running"`) {
		t.Errorf("a state that cannot be required: %v", err)
	}
}

// restarted: the controller continues after the API server was away.
func (f *fixture) restarted(t *testing.T) {
	f.machine(t, "restarted", "restarted-root", "restarted-data")
	f.cdi.Follow(wait)
	request := f.request(t, "restarted", "restarted")
	f.cloning(t, request)
	must(t, f.RestartAPIServer(t.Context()))
	f.cdi.Follow(nil)
	await.Until(t, func() error {
		return f.Client().Get(t.Context(), client.ObjectKeyFromObject(request), request)
	})
	if c := f.complete(t, request, usual); c.Status != metav1.ConditionTrue {
		t.Errorf("Completed is %+v", c)
	}
	f.isWhole(t, request)
}

// several captures of one VM at the same time do not disturb each other.
func (f *fixture) several(t *testing.T) {
	f.machine(t, "several", "several-root", "several-data")
	r := f.controller(t, &kills.Connection{Left: -1}, usual)
	var all []*v1beta1.VirtualMachineTemplateRequest
	var group sync.WaitGroup
	for i := range 5 {
		request := f.request(t, fmt.Sprintf("several-%d", i), "several")
		all = append(all, request)
		group.Go(func() {
			own := request.DeepCopy()
			for ctx := context.WithoutCancel(t.Context()); !f.settled(t, own)(); {
				_, _ = r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(own)}) // it is repeated
			}
		})
	}
	group.Wait()
	for _, request := range all {
		f.isWhole(t, request)
	}
	names := slices.Collect(func(yield func(string) bool) {
		for _, request := range all {
			if !yield(captured.SnapshotName(request)) {
				return
			}
		}
	})
	slices.Sort(names)
	if len(slices.Compact(names)) != len(all) {
		t.Errorf("snapshots: %q", names)
	}
}

// unauthorized: the simulated CDI applies CDI's rules. A user without the permission of Virtward's account cannot clone.
func (f *fixture) unauthorized(t *testing.T) {
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "volume-owner"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "carol"}}
	must(t, f.Client().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"cdi.kubevirt.io"}, Resources: []string{"datavolumes"}, Verbs: []string{"create"}},
	}}))
	must(t, f.Client().Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "carol"}, RoleRef: role, Subjects: subjects}))
	config, err := f.UserConfig("carol")
	must(t, err)
	carol, err := client.New(config, client.Options{Scheme: f.Client().Scheme()})
	must(t, err)
	volume := func(source cdiv1beta1.DataVolumeSource) *cdiv1beta1.DataVolume {
		return &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, GenerateName: "carol-"}, Spec: cdiv1beta1.DataVolumeSpec{Source: &source, Storage: &cdiv1beta1.StorageSpec{}}}
	}
	await.Until(t, func() error { // the API server reads new roles a moment later
		return carol.Create(t.Context(), volume(cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}}))
	})
	err = carol.Create(t.Context(), volume(cdiv1beta1.DataVolumeSource{Snapshot: &cdiv1beta1.DataVolumeSourceSnapshot{Namespace: machines, Name: "any"}}))
	if err == nil || !strings.Contains(err.Error(), "carol") {
		t.Errorf("got %v", err)
	}
}
