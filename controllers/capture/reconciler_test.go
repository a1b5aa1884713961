package capture_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/events"
	captured "github.com/virtward/virtward/templates/capture"
	"github.com/virtward/virtward/test/kills"
)

const (
	machines  = "machines"
	catalogue = "catalogue"
)

var began = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// cluster is a fake API server with a request, KubeVirt and CDI, and the events of the controllers.
type cluster struct {
	server  client.WithWatch
	clock   *clocktesting.FakePassiveClock
	request *v1beta1.VirtualMachineTemplateRequest
	expands error
	// snapshotStatus and clonePhase are what KubeVirt and CDI report. Empty is success.
	snapshotStatus *snapshotv1beta1.VirtualMachineSnapshotStatus
	clonePhase     cdiv1beta1.DataVolumePhase
	told           []string
}

func newCluster(t *testing.T, change ...func(*v1beta1.VirtualMachineTemplateRequest)) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, snapshotv1beta1.AddToScheme, cdiv1beta1.AddToScheme} {
		must(t, add(scheme))
	}
	c := &cluster{clock: clocktesting.NewFakePassiveClock(began)}
	statuses := []client.Object{
		&v1beta1.VirtualMachineTemplateRequest{}, &v1beta1.VirtualMachineTemplate{}, &snapshotv1beta1.VirtualMachineSnapshot{},
		&snapshotv1beta1.VirtualMachineSnapshotContent{}, &cdiv1beta1.DataVolume{},
	}
	c.server = kills.Server(scheme, c.clock, statuses)
	c.request = &v1beta1.VirtualMachineTemplateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "golden"},
		Spec:       v1beta1.VirtualMachineTemplateRequestSpec{VirtualMachineRef: v1beta1.VirtualMachineReference{Namespace: machines, Name: "web"}},
	}
	for _, how := range change {
		how(c.request)
	}
	must(t, c.server.Create(t.Context(), c.request))
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Expand implements capture.Expander.
func (c *cluster) Expand(_ context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineSpec, error) {
	return &vm.Spec, c.expands
}

// reconcile reconciles the request with a new controller.
func (c *cluster) reconcile(t *testing.T, connection *kills.Connection) (reconcile.Result, error) {
	t.Helper()
	r := capture.New(capture.Options{
		Client: connection.Fake(c.server), Expander: c, Deadlines: capture.Deadlines{Snapshot: time.Minute, Clone: time.Hour}, Clock: c.clock,
		Tell: func(_ *v1beta1.VirtualMachineTemplateRequest, e events.Event) { c.told = append(c.told, e.String()) },
	})
	return r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.request)})
}

// plays is KubeVirt and CDI: snapshots and clones get their statuses.
func (c *cluster) plays(t *testing.T) {
	t.Helper()
	snapshots, clones := &snapshotv1beta1.VirtualMachineSnapshotList{}, &cdiv1beta1.DataVolumeList{}
	must(t, c.server.List(t.Context(), snapshots))
	must(t, c.server.List(t.Context(), clones))
	for i := range snapshots.Items {
		if s := &snapshots.Items[i]; s.Status == nil && len(s.Labels) > 0 {
			c.snapshots(t, s)
		}
	}
	for i := range clones.Items {
		if dv := &clones.Items[i]; dv.Status.Phase == "" && dv.Spec.Source.Snapshot != nil {
			if dv.Annotations["cdi.kubevirt.io/allowClaimAdoption"] != "false" {
				t.Errorf("CDI can adopt a claim for %s", dv.Name)
			}
			dv.Status.Phase = cdiv1beta1.Succeeded
			if c.clonePhase != "" {
				dv.Status.Phase = c.clonePhase
			}
			must(t, c.server.Status().Update(t.Context(), dv))
		}
	}
}

func (c *cluster) snapshots(t *testing.T, s *snapshotv1beta1.VirtualMachineSnapshot) {
	t.Helper()
	if s.Status = c.snapshotStatus; s.Status == nil {
		content := contentOf(s.Name)
		must(t, c.server.Create(t.Context(), content))
		s.Status = &snapshotv1beta1.VirtualMachineSnapshotStatus{ReadyToUse: new(true), VirtualMachineSnapshotContentName: &content.Name}
	}
	must(t, c.server.Status().Update(t.Context(), s))
}

// contentOf is the content of a snapshot of a virtual machine with two volumes.
func contentOf(snapshot string) *snapshotv1beta1.VirtualMachineSnapshotContent {
	vm := &snapshotv1beta1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{}}}
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: machines, Name: "content-of-" + snapshot},
		Spec:       snapshotv1beta1.VirtualMachineSnapshotContentSpec{VirtualMachineSnapshotName: &snapshot, Source: snapshotv1beta1.SourceSpec{VirtualMachine: vm}},
		Status:     &snapshotv1beta1.VirtualMachineSnapshotContentStatus{ReadyToUse: new(true)},
	}
	for _, name := range []string{"root", "data"} {
		copied := "copy-of-" + name
		vm.Spec.Template.Spec.Volumes = append(vm.Spec.Template.Spec.Volumes, kubevirtv1.Volume{Name: name, VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: name}}})
		content.Spec.VolumeBackups = append(content.Spec.VolumeBackups, snapshotv1beta1.VolumeBackup{VolumeName: name, VolumeSnapshotName: &copied})
	}
	return content
}

// drive reconciles until the request has ended and has no finalizer, or until the connection ends.
func (c *cluster) drive(t *testing.T, connection *kills.Connection) {
	t.Helper()
	for range 20 {
		_, err := c.reconcile(t, connection)
		switch {
		case errors.Is(err, kills.Err):
			return
		case err != nil:
			t.Fatal(err)
		}
		c.plays(t)
		if c.settled(t) {
			return
		}
	}
	t.Fatalf("the capture does not end: %+v", c.stored(t).Status)
}

// settled reports whether the request has ended and has no finalizer, or does not exist.
func (c *cluster) settled(t *testing.T) bool {
	t.Helper()
	stored := c.stored(t)
	return stored == nil || meta.IsStatusConditionFalse(stored.Status.Conditions, v1beta1.RequestProgressing) && len(stored.Finalizers) == 0
}

// stored is the request; nil if it does not exist.
func (c *cluster) stored(t *testing.T) *v1beta1.VirtualMachineTemplateRequest {
	t.Helper()
	stored := &v1beta1.VirtualMachineTemplateRequest{}
	err := c.server.Get(t.Context(), client.ObjectKeyFromObject(c.request), stored)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return stored
}

// completed is the condition Completed of the request.
func (c *cluster) completed(t *testing.T) metav1.Condition {
	t.Helper()
	if found := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestCompleted); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// left are the objects of the capture, with their owners.
func (c *cluster) left(t *testing.T) (left []string) {
	t.Helper()
	snapshots, templates, clones := &snapshotv1beta1.VirtualMachineSnapshotList{}, &v1beta1.VirtualMachineTemplateList{}, &cdiv1beta1.DataVolumeList{}
	names := map[types.UID]string{c.request.UID: "request"}
	must(t, c.server.List(t.Context(), snapshots))
	must(t, c.server.List(t.Context(), templates))
	must(t, c.server.List(t.Context(), clones))
	for range snapshots.Items {
		left = append(left, "snapshot")
	}
	for i := range templates.Items {
		names[templates.Items[i].UID] = "template"
		left = append(left, "template "+templates.Items[i].Name)
	}
	for i := range clones.Items {
		owner := "absent"
		if of := metav1.GetControllerOf(&clones.Items[i]); of != nil {
			owner = names[of.UID]
		}
		left = append(left, "volume of "+owner)
	}
	return left
}

// whole are the objects after a capture.
var whole = []string{"template golden", "volume of template", "volume of template"}

// succeeded are the events of a capture without a fault.
var succeeded = []string{
	"Normal Snapshotting: waiting for VirtualMachineSnapshot ",
	"Normal Cloning: 0 of 2 volumes are cloned; waiting for DataVolume ",
	"Normal Completed: VirtualMachineTemplate catalogue/golden is created",
}

// tells fails unless the events begin with texts, each once and in this order.
func (c *cluster) tells(t *testing.T, want ...string) {
	t.Helper()
	got := slices.Clone(c.told)
	for i := range min(len(got), len(want)) {
		got[i] = got[i][:min(len(got[i]), len(want[i]))]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestReconcile holds what each reconciliation of a capture writes, and when the next one follows.
func TestReconcile(t *testing.T) {
	c := newCluster(t)
	snapshot := captured.SnapshotName(c.request)
	root, data := captured.CloneName(c.request, "root"), captured.CloneName(c.request, "data")
	const request = "VirtualMachineTemplateRequest/catalogue/golden"
	for i, want := range []struct {
		writes []string
		after  time.Duration
	}{
		{[]string{"PATCH " + request, "POST VirtualMachineSnapshot/machines/" + snapshot, "PUT " + request + "/status"}, time.Minute},
		{[]string{"POST DataVolume/catalogue/" + root, "POST DataVolume/catalogue/" + data, "PUT " + request + "/status"}, time.Hour},
		{[]string{
			"POST VirtualMachineTemplate/catalogue/golden", "PATCH DataVolume/catalogue/" + root, "PATCH DataVolume/catalogue/" + data, "PATCH " + request,
			"DELETE VirtualMachineSnapshot/machines/" + snapshot, "PUT " + request + "/status",
		}, time.Millisecond},
		{[]string{"PATCH " + request}, 0},
		{nil, 0},
	} {
		all := &kills.Connection{Left: -1}
		result, err := c.reconcile(t, all)
		must(t, err)
		if diff := cmp.Diff(want.writes, all.Accepted()); diff != "" || result.RequeueAfter != want.after {
			t.Errorf("reconciliation %d: another one after %s, want %s; writes (-want +got):\n%s", i+1, result.RequeueAfter, want.after, diff)
		}
		c.plays(t)
	}
	if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue || len(c.stored(t).Finalizers) > 0 {
		t.Errorf("%+v; left (-want +got):\n%s", c.stored(t), diff)
	}
	c.tells(t, succeeded...)
}

// TestEnds holds why captures fail, that nothing of them is left, that objects of others stay, and that one event reports it.
func TestEnds(t *testing.T) {
	failed := &snapshotv1beta1.VirtualMachineSnapshotStatus{Phase: snapshotv1beta1.Failed, Error: &snapshotv1beta1.Error{Message: new("no space")}}
	foreignClone := func(c *cluster) client.Object {
		return &cdiv1beta1.DataVolume{
			ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: captured.CloneName(c.request, "data"), Labels: map[string]string{v1beta1.LabelRequestUID: string(c.request.UID)}},
			Spec:       cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}}},
		}
	}
	foreignSnapshot := func(c *cluster) client.Object {
		return &snapshotv1beta1.VirtualMachineSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: machines, Name: captured.SnapshotName(c.request)},
			Spec:       snapshotv1beta1.VirtualMachineSnapshotSpec{Source: corev1.TypedLocalObjectReference{Kind: "VirtualMachine", Name: "web"}},
		}
	}
	foreignTemplate := func(*cluster) client.Object {
		return &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "golden"}}
	}
	for name, test := range map[string]struct {
		change          func(*cluster)
		taken           func(*cluster) client.Object
		reason, message string
		left            []string
	}{
		"snapshot fails": {change: func(c *cluster) { c.snapshotStatus = failed }, reason: v1beta1.ReasonSnapshotFailed, message: "no space"},
		"clone fails":    {change: func(c *cluster) { c.clonePhase = cdiv1beta1.Failed }, reason: v1beta1.ReasonCloneFailed, message: "failed"},
		"cannot be expanded": {
			change: func(c *cluster) {
				c.expands = &captured.Error{Reason: v1beta1.ReasonExpansionFailed, Message: "no instancetype"}
			},
			reason: v1beta1.ReasonExpansionFailed, message: "no instancetype",
		},
		"template of others": {taken: foreignTemplate, reason: v1beta1.ReasonNameTaken, message: "VirtualMachineTemplate catalogue/golden exists", left: []string{"template golden"}},
		"snapshot of others": {taken: foreignSnapshot, reason: v1beta1.ReasonNameTaken, message: "VirtualMachineSnapshot machines/", left: []string{"snapshot"}},
		"volume of others":   {taken: foreignClone, reason: v1beta1.ReasonNameTaken, message: "DataVolume catalogue/", left: []string{"volume of absent"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			var taken client.Object
			if test.change != nil {
				test.change(c)
			}
			if test.taken != nil {
				taken = test.taken(c)
				must(t, c.server.Create(t.Context(), taken))
			}
			c.drive(t, &kills.Connection{Left: -1})
			if ended := c.completed(t); ended.Status != metav1.ConditionFalse || ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) {
				t.Errorf("Completed is %+v", ended)
			}
			if diff := cmp.Diff(test.left, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			told := len(c.told)
			if last := c.told[told-1]; !strings.HasPrefix(last, "Warning "+test.reason+": ") || !strings.Contains(last, test.message) {
				t.Errorf("events %q", c.told)
			}
			nothing := &kills.Connection{Left: -1}
			result, err := c.reconcile(t, nothing)
			must(t, err)
			if len(nothing.Writes()) > 0 || len(c.told) != told || result != (reconcile.Result{}) {
				t.Errorf("after the end: %+v, writes %q, events %q", result, nothing.Writes(), c.told[told:])
			}
			if taken == nil {
				return
			}
			stored, _ := taken.DeepCopyObject().(client.Object)
			must(t, c.server.Get(t.Context(), client.ObjectKeyFromObject(taken), stored))
			if stored.GetResourceVersion() != taken.GetResourceVersion() {
				t.Errorf("the object of others was written: %+v", stored)
			}
		})
	}
}

// TestDeadlines holds that a step ends at its deadline, and not before.
func TestDeadlines(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*cluster)
		limit   time.Duration
		message string
	}{
		"snapshot": {func(c *cluster) { c.snapshotStatus = &snapshotv1beta1.VirtualMachineSnapshotStatus{} }, time.Minute, "it took longer than 1m0s: waiting for VirtualMachineSnapshot"},
		"clone":    {func(c *cluster) { c.clonePhase = cdiv1beta1.CloneInProgress }, time.Hour, "it took longer than 1h0m0s: 0 of 2 volumes are cloned"},
	} {
		t.Run(name, func(t *testing.T) {
			c, all := newCluster(t), &kills.Connection{Left: -1}
			test.change(c)
			for range 3 {
				_, err := c.reconcile(t, all)
				must(t, err)
				c.plays(t)
			}
			c.clock.SetTime(began.Add(test.limit - time.Second))
			result, err := c.reconcile(t, all)
			must(t, err)
			if ended := c.completed(t); ended.Reason == v1beta1.ReasonDeadlineExceeded || result.RequeueAfter != time.Second {
				t.Errorf("before the deadline: %+v, %+v", result, ended)
			}
			c.clock.SetTime(began.Add(test.limit))
			c.drive(t, all)
			if ended := c.completed(t); ended.Reason != v1beta1.ReasonDeadlineExceeded || !strings.HasPrefix(ended.Message, test.message) {
				t.Errorf("Completed is %+v", ended)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestConflict holds that a capture continues a second after another process wrote the request.
func TestConflict(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	resource := schema.GroupResource{Group: "template.kubevirt.io", Resource: "virtualmachinetemplaterequests"}
	server := c.server
	c.server = interceptor.NewClient(server, interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
		return apierrors.NewConflict(resource, c.request.Name, errors.New("it changed"))
	}})
	if result, err := c.reconcile(t, all); err != nil || result.RequeueAfter != time.Second || len(c.told) > 0 {
		t.Errorf("%+v, %v, events %q", result, err, c.told)
	}
	c.server = server
	c.drive(t, all)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestDenied holds that a capture waits while the API server forbids an object, with growing times, and ends if an object is invalid.
func TestDenied(t *testing.T) {
	volumes := schema.GroupResource{Group: "cdi.kubevirt.io", Resource: "datavolumes"}
	c, all := newCluster(t), &kills.Connection{Left: -1}
	var denied error
	c.server = interceptor.NewClient(c.server, interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if _, is := object.(*cdiv1beta1.DataVolume); is && denied != nil {
			return denied
		}
		return to.Create(ctx, object, options...)
	}})
	_, err := c.reconcile(t, all)
	must(t, err)
	c.plays(t)
	denied = apierrors.NewForbidden(volumes, "a", errors.New("exceeded quota: full"))
	for after, want := range map[time.Duration]time.Duration{0: 2 * time.Second, 20 * time.Second: 5 * time.Second, 50 * time.Minute: 2 * time.Minute} {
		c.clock.SetTime(began.Add(after))
		result, err := c.reconcile(t, all)
		must(t, err)
		if result.RequeueAfter != want {
			t.Errorf("after %s: another attempt after %s, want %s", after, result.RequeueAfter, want)
		}
	}
	if waits := c.completed(t); waits.Reason != v1beta1.ReasonBlocked || !strings.Contains(waits.Message, "exceeded quota: full") {
		t.Errorf("Completed is %+v", waits)
	}
	c.tells(t, succeeded[0], "Warning Blocked: ")
	denied = nil
	c.drive(t, all)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}

	c = newCluster(t)
	c.server = interceptor.NewClient(c.server, interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if _, is := object.(*v1beta1.VirtualMachineTemplate); is {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "VirtualMachineTemplate"}, "golden", nil)
		}
		return to.Create(ctx, object, options...)
	}})
	c.drive(t, all)
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonRejected {
		t.Errorf("Completed is %+v", ended)
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestTimeToLive holds that a completed request is deleted after its time to live, and a failed one never.
func TestTimeToLive(t *testing.T) {
	hour := func(r *v1beta1.VirtualMachineTemplateRequest) { r.Spec.TTLSecondsAfterFinished = new(int32(3600)) }
	c, all := newCluster(t, hour), &kills.Connection{Left: -1}
	c.drive(t, all)
	c.clock.SetTime(began.Add(20 * time.Minute))
	if result, err := c.reconcile(t, all); err != nil || result.RequeueAfter != 40*time.Minute {
		t.Errorf("after 20 minutes: %+v, %v", result, err)
	}
	c.clock.SetTime(began.Add(time.Hour))
	if _, err := c.reconcile(t, all); err != nil || c.stored(t) != nil {
		t.Errorf("after an hour: %v, %+v", err, c.stored(t))
	}
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}

	c = newCluster(t, hour)
	c.clonePhase = cdiv1beta1.Failed
	c.drive(t, all)
	c.clock.SetTime(began.Add(2 * time.Hour))
	if result, err := c.reconcile(t, all); err != nil || result.RequeueAfter != 0 || c.stored(t) == nil {
		t.Errorf("a failed request: %+v, %v, %+v", result, err, c.stored(t))
	}
}

// TestSnapshotLost holds that a capture ends if its snapshot is deleted: its volumes would be of different times.
func TestSnapshotLost(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	c.clonePhase = cdiv1beta1.CloneInProgress
	for range 3 {
		_, err := c.reconcile(t, all)
		must(t, err)
		c.plays(t)
	}
	must(t, c.server.DeleteAllOf(t.Context(), &snapshotv1beta1.VirtualMachineSnapshot{}, client.InNamespace(machines)))
	c.drive(t, all)
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonSnapshotFailed || ended.Message != "the snapshot was deleted before all volumes were cloned" {
		t.Errorf("Completed is %+v", ended)
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestTakenMeanwhile holds that an object of others that is created between the plan and its write is seen at once.
func TestTakenMeanwhile(t *testing.T) {
	c := newCluster(t)
	server := c.server
	c.server = interceptor.NewClient(server, interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if s, is := object.(*snapshotv1beta1.VirtualMachineSnapshot); is {
			foreign := &snapshotv1beta1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
			must(t, client.IgnoreAlreadyExists(server.Create(ctx, foreign)))
		}
		return to.Create(ctx, object, options...)
	}})
	_, err := c.reconcile(t, &kills.Connection{Left: -1})
	must(t, err)
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonNameTaken {
		t.Errorf("Completed is %+v", ended)
	}
}

// writesOf are the writes of a capture that nothing disturbs.
func writesOf(t *testing.T) int {
	t.Helper()
	all := &kills.Connection{Left: -1}
	newCluster(t).drive(t, all)
	if n := len(all.Accepted()); n != 13 {
		t.Fatalf("%d writes: %q", n, all.Accepted())
	}
	return len(all.Accepted())
}

// TestKilled kills the controller before and after each write. The next one ends the capture, without duplicates or orphans.
func TestKilled(t *testing.T) {
	for at := range writesOf(t) {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d, lost %t", at, lost), func(t *testing.T) {
				c, ends := newCluster(t), &kills.Connection{Left: at, Lost: lost}
				c.drive(t, ends)
				if !ends.Dead() {
					t.Errorf("it was not killed: %q", ends.Writes())
				}
				c.drive(t, &kills.Connection{Left: -1})
				if diff := cmp.Diff(whole, c.left(t)); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
				if done := c.completed(t); done.Status != metav1.ConditionTrue {
					t.Errorf("Completed is %+v", done)
				}
				for _, e := range succeeded { // an event whose status was written before the kill is lost
					if told := slices.DeleteFunc(slices.Clone(c.told), func(other string) bool { return !strings.HasPrefix(other, e) }); len(told) > 1 {
						t.Errorf("told more than once: %q", told)
					}
				}
			})
		}
	}
}

// TestDeleted deletes the request after each write. Either nothing is left, or the whole template.
func TestDeleted(t *testing.T) {
	kept, writes := 0, writesOf(t)
	for at := range writes {
		c := newCluster(t)
		c.drive(t, &kills.Connection{Left: at})
		must(t, c.server.Delete(t.Context(), c.stored(t)))
		c.drive(t, &kills.Connection{Left: -1})
		left := c.left(t)
		if slices.Equal(left, whole) {
			kept++
			continue
		}
		if len(left) > 0 || c.stored(t) != nil {
			t.Errorf("after %d writes: left %q, %+v", at, left, c.stored(t))
		}
	}
	if kept != 3 {
		t.Errorf("%d of %d templates were kept, want those after the request has the template as its owner", kept, writes)
	}
}
