package templates

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/events"
	captured "github.com/virtward/virtward/templates/capture"
)

// CaptureCase is a request for a template, and what happens meanwhile: a line of capture.jsonl.
type CaptureCase struct {
	ID            string                                `json:"id"`
	Area          string                                `json:"area"`
	Request       v1beta1.VirtualMachineTemplateRequest `json:"request"`
	Source        snapshotv1beta1.VirtualMachine        `json:"source"`
	Expanded      *kubevirtv1.VirtualMachine            `json:"expanded"`
	ExpandError   string                                `json:"expandError"`
	VolumeBackups []struct {
		Claim              string `json:"claim"`
		VolumeName         string `json:"volumeName"`
		VolumeSnapshotName string `json:"volumeSnapshotName"`
	} `json:"volumeBackups"`
	ExcludedVolumes []string      `json:"excludedVolumes"`
	Events          []string      `json:"events"`
	Expect          CaptureAnswer `json:"expect"`
}

// CaptureAnswer is what virt-template did.
type CaptureAnswer struct {
	Steps []struct {
		Event   string           `json:"event"`
		Created []map[string]any `json:"created"`
		Changed []map[string]any `json:"changed"`
		Deleted []string         `json:"deleted"`
		Status  struct {
			Conditions  []metav1.Condition         `json:"conditions"`
			TemplateRef *v1beta1.TemplateReference `json:"templateRef"`
		} `json:"status"`
	} `json:"steps"`
	TemplateAdmission *struct {
		Allowed bool `json:"allowed"`
	} `json:"templateAdmission"`
	Processed map[string]any `json:"processed"`
}

// usualEvents are those of a case without events.
var usualEvents = []string{"start", "snapshot-in-progress", "snapshot-ready", "content-ready", "datavolumes-in-progress", "datavolumes-succeeded", "template-reconciled", "again"}

// replayCapture runs a case through the real reconciler.
func replayCapture(line []byte) (Result, error) {
	c := &CaptureCase{}
	if err := json.Unmarshal(line, c); err != nil {
		return Result{}, err
	}
	run, err := newCaptureRun(c)
	if err != nil {
		return Result{}, err
	}
	got, failure := run.play()
	if failure != nil {
		outcome := Other
		if errors.Is(failure, errUnplayed) { // nothing is known of such a case
			outcome = Skipped
		}
		return Result{ID: c.ID, Area: c.Area, Outcome: outcome, Difference: failure.Error()}, nil
	}
	result := Result{ID: c.ID, Area: c.Area, Outcome: Equal}
	want := recordedOutcome(c)
	if result.Difference = want.difference(got); result.Difference == "" {
		return result, nil
	}
	for i := range captureClasses {
		class := &captureClasses[i]
		if !class.of(c) {
			continue
		}
		result.Class = cmp.Or(result.Class, class.name)
		class.fix(c, want)
	}
	result.Outcome = Better
	if result.Difference = want.difference(got); result.Difference != "" {
		result.Outcome, result.Class = Other, ""
	}
	return result, nil
}

// captureRun is a case that runs against a fake cluster.
type captureRun struct {
	*CaptureCase

	client     client.Client
	reconciler *capture.Reconciler
	clock      *clocktesting.FakePassiveClock
	got        *captureOutcome
	template   *v1beta1.VirtualMachineTemplate
}

func newCaptureRun(c *CaptureCase) (*captureRun, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, snapshotv1beta1.AddToScheme, cdiv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	r := &captureRun{CaptureCase: c, clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), got: newCaptureOutcome()}
	r.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.Request.DeepCopy()).
		WithStatusSubresource(&v1beta1.VirtualMachineTemplateRequest{}, &v1beta1.VirtualMachineTemplate{}, &snapshotv1beta1.VirtualMachineSnapshot{}, &snapshotv1beta1.VirtualMachineSnapshotContent{}, &cdiv1beta1.DataVolume{}).
		Build()
	recorded := interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{Create: r.create, Patch: r.patch, Delete: r.remove})
	r.reconciler = capture.New(capture.Options{
		Client: recorded, Expander: r, Clock: r.clock, Deadlines: capture.Deadlines{Snapshot: time.Hour, Clone: time.Hour},
		Tell: func(*v1beta1.VirtualMachineTemplateRequest, events.Event) {},
	})
	return r, nil
}

// Expand implements capture.Expander.
func (r *captureRun) Expand(_ context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineSpec, error) {
	if r.ExpandError != "" {
		return nil, &captured.Error{Reason: v1beta1.ReasonExpansionFailed, Message: r.ExpandError}
	}
	if r.Expanded != nil {
		return r.Expanded.Spec.DeepCopy(), nil
	}
	return &vm.Spec, nil
}

func (r *captureRun) create(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
	object.SetUID(types.UID("uid-of-" + object.GetName()))
	if s, isSnapshot := object.(*snapshotv1beta1.VirtualMachineSnapshot); isSnapshot {
		s.Finalizers = []string{"snapshot.kubevirt.io/vmsnapshot-protection"} // as KubeVirt does
	}
	if err := c.Create(ctx, object, options...); err != nil {
		return err
	}
	if t, isTemplate := object.(*v1beta1.VirtualMachineTemplate); isTemplate {
		r.template = t.DeepCopy()
	}
	return r.got.create(object)
}

func (r *captureRun) patch(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	err := c.Patch(ctx, object, patch, options...)
	if v, isVolume := object.(*cdiv1beta1.DataVolume); isVolume && err == nil {
		r.got.handOver(v)
	}
	return err
}

func (r *captureRun) remove(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	err := c.Delete(ctx, object, options...)
	if err == nil {
		r.got.remove(object)
	}
	return err
}

// play returns what the capture does. The error is errUnplayed if the case has an event that has no meaning here.
func (r *captureRun) play() (*captureOutcome, error) {
	if err := r.playEvents(); err != nil {
		return nil, err
	}
	return r.got, nil
}

// playEvents plays the events. After each, the request is reconciled until nothing follows at once.
func (r *captureRun) playEvents() error {
	ctx := context.Background()
	events := r.Events
	if len(events) == 0 {
		events = usualEvents
	}
	key := client.ObjectKeyFromObject(&r.Request)
	for _, event := range events {
		if err := errors.Join(r.release(ctx), r.happen(ctx, event)); err != nil {
			return fmt.Errorf("event %s: %w", event, err)
		}
		r.clock.SetTime(r.clock.Now().Add(time.Second))
		for range 10 {
			result, err := r.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			if err != nil {
				return fmt.Errorf("event %s: %w", event, err)
			}
			if result.RequeueAfter == 0 || result.RequeueAfter > 10*time.Millisecond {
				break
			}
		}
		request := &v1beta1.VirtualMachineTemplateRequest{}
		if err := r.client.Get(ctx, key, request); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil {
			r.got.removed[requestRole] = true
			continue
		}
		r.got.step(request.Status.Conditions, request.Status.TemplateRef)
	}
	return r.got.use(r.template)
}

// release lets deleted snapshots go, as KubeVirt does.
func (r *captureRun) release(ctx context.Context) error {
	return each(ctx, r.client, &snapshotv1beta1.VirtualMachineSnapshotList{}, func(s *snapshotv1beta1.VirtualMachineSnapshot) error {
		if s.DeletionTimestamp == nil {
			return nil
		}
		s.Finalizers = nil
		return r.client.Update(ctx, s)
	})
}

// each calls a function with every object of a list.
func each[O client.Object](ctx context.Context, c client.Client, list client.ObjectList, do func(O) error) error {
	if err := c.List(ctx, list); err != nil {
		return err
	}
	return meta.EachListItem(list, func(object runtime.Object) error {
		one, _ := object.(O) // the list has this type
		return do(one)
	})
}

// happen changes the cluster as the event says.
func (r *captureRun) happen(ctx context.Context, event string) error {
	e := readEvent(event)
	switch {
	case e.kind == "":
		return r.pass(event)
	case e.foreign:
		return r.createForeign(ctx, e)
	}
	switch e.kind {
	case requestKind:
		if !e.gone {
			return errUnplayed
		}
		return client.IgnoreNotFound(r.client.Delete(ctx, r.Request.DeepCopy()))
	case templateKind:
		return each(ctx, r.client, &v1beta1.VirtualMachineTemplateList{}, func(t *v1beta1.VirtualMachineTemplate) error { return r.happenToTemplate(ctx, e, t) })
	case volumeKind:
		return each(ctx, r.client, &cdiv1beta1.DataVolumeList{}, func(v *cdiv1beta1.DataVolume) error { return r.happenToVolume(ctx, e, v) })
	case contentKind:
		return each(ctx, r.client, &snapshotv1beta1.VirtualMachineSnapshotContentList{}, func(c *snapshotv1beta1.VirtualMachineSnapshotContent) error { return r.happenToContent(ctx, e, c) })
	}
	return each(ctx, r.client, &snapshotv1beta1.VirtualMachineSnapshotList{}, func(s *snapshotv1beta1.VirtualMachineSnapshot) error { return r.happenToSnapshot(ctx, e, s) })
}

// pass lets time pass.
func (r *captureRun) pass(event string) error {
	switch {
	case event == "start", event == "again":
	case strings.Contains(event, "hour"):
		r.clock.SetTime(r.clock.Now().Add(time.Hour))
	case strings.Contains(event, "ttl"), strings.Contains(event, "later"), strings.Contains(event, "expire"):
		r.clock.SetTime(r.clock.Now().Add(24 * time.Hour))
	default:
		return errUnplayed
	}
	return nil
}

// createForeign creates an object of another owner with the name of one of the capture.
func (r *captureRun) createForeign(ctx context.Context, e captureEvent) error {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "foreign"}
	}
	switch e.kind {
	case templateKind:
		return r.client.Create(ctx, &v1beta1.VirtualMachineTemplate{ObjectMeta: meta(r.Request.Namespace, captured.TemplateName(&r.Request))})
	case snapshotKind:
		return r.client.Create(ctx, &snapshotv1beta1.VirtualMachineSnapshot{ObjectMeta: meta(r.Request.Spec.VirtualMachineRef.Namespace, captured.SnapshotName(&r.Request))})
	case volumeKind:
		for i, b := range r.VolumeBackups {
			if e.first && i > 0 {
				break
			}
			if err := r.client.Create(ctx, &cdiv1beta1.DataVolume{ObjectMeta: meta(r.Request.Namespace, captured.CloneName(&r.Request, b.VolumeName))}); err != nil {
				return err
			}
		}
		return nil
	}
	return errUnplayed
}

func (r *captureRun) happenToTemplate(ctx context.Context, e captureEvent, t *v1beta1.VirtualMachineTemplate) error {
	status := metav1.ConditionTrue
	switch {
	case e.gone:
		return r.client.Delete(ctx, t)
	case e.relabelled:
		return r.relabel(ctx, t)
	case strings.HasSuffix(e.state, "notready"):
		status = metav1.ConditionFalse
	case e.state != "reconciled" && e.state != "ready":
		return errUnplayed
	}
	meta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{Type: v1beta1.TemplateReady, Status: status, Reason: "Reconciled", ObservedGeneration: t.Generation})
	return r.client.Status().Update(ctx, t)
}

// relabel gives an object to another request.
func (r *captureRun) relabel(ctx context.Context, object client.Object) error {
	labels := maps.Clone(object.GetLabels())
	labels[v1beta1.LabelRequestUID] = "another"
	object.SetLabels(labels)
	return r.client.Update(ctx, object)
}

func (r *captureRun) happenToVolume(ctx context.Context, e captureEvent, v *cdiv1beta1.DataVolume) error {
	if e.first && (len(r.VolumeBackups) == 0 || v.Name != captured.CloneName(&r.Request, r.VolumeBackups[0].VolumeName)) {
		return nil
	}
	switch {
	case e.gone:
		return r.client.Delete(ctx, v)
	case e.relabelled:
		return r.relabel(ctx, v)
	}
	phase, known := phaseOf(e.state)
	if !known {
		return errUnplayed
	}
	running := corev1.ConditionFalse
	if strings.HasSuffix(string(phase), "InProgress") {
		running = corev1.ConditionTrue
	}
	v.Status.Phase = phase
	v.Status.Conditions = []cdiv1beta1.DataVolumeCondition{{Type: cdiv1beta1.DataVolumeRunning, Status: running}}
	return r.client.Status().Update(ctx, v)
}

func (r *captureRun) happenToContent(ctx context.Context, e captureEvent, content *snapshotv1beta1.VirtualMachineSnapshotContent) error {
	status := &snapshotv1beta1.VirtualMachineSnapshotContentStatus{ReadyToUse: new(e.state == "ready")}
	switch {
	case e.gone:
		return r.client.Delete(ctx, content)
	case e.state == "error", e.state == "failed":
		status.Error = &snapshotv1beta1.Error{Message: new("the content failed")}
	case e.state != "ready" && e.state != "notready":
		return errUnplayed
	}
	content.Status = status
	return r.client.Status().Update(ctx, content)
}

func (r *captureRun) happenToSnapshot(ctx context.Context, e captureEvent, s *snapshotv1beta1.VirtualMachineSnapshot) error {
	condition := func(kind snapshotv1beta1.ConditionType, status corev1.ConditionStatus, reason string) {
		s.Status.Conditions = []snapshotv1beta1.Condition{{Type: kind, Status: status, Reason: reason}}
	}
	if s.Status == nil {
		s.Status = &snapshotv1beta1.VirtualMachineSnapshotStatus{}
	}
	content := "content-of-" + s.Name
	s.Status.Phase = snapshotv1beta1.InProgress
	switch state := e.state; {
	case e.relabelled:
		return r.relabel(ctx, s)
	case e.gone:
		s.Finalizers = nil
		return errors.Join(r.client.Update(ctx, s), r.client.Delete(ctx, s))
	case state == "inprogress":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionTrue, "Source locked and operation in progress")
	case state == "waiting", state == "pending", state == "notready":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionFalse, "Waiting for the source")
	case state == "sourcemissing":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionFalse, "Source does not exist")
	case state == "error", state == "errorstate":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionFalse, "In error state")
	case state == "failed":
		s.Status.Phase = snapshotv1beta1.Failed
		condition(snapshotv1beta1.ConditionFailure, corev1.ConditionTrue, "Operation failed")
	case state == "deadlineexceeded":
		s.Status.Phase = snapshotv1beta1.Failed
		condition(snapshotv1beta1.ConditionFailure, corev1.ConditionTrue, "Snapshot deadline exceeded")
	case state == "ready", state == "succeeded", state == "readynocontent", state == "readynosourcevm":
		s.Status.Phase, s.Status.ReadyToUse = snapshotv1beta1.Succeeded, new(true)
		condition(snapshotv1beta1.ConditionReady, corev1.ConditionTrue, "Operation complete")
		s.Status.SnapshotVolumes = &snapshotv1beta1.SnapshotVolumesLists{ExcludedVolumes: r.ExcludedVolumes}
		if state == "readynocontent" {
			break
		}
		s.Status.VirtualMachineSnapshotContentName = &content
		if err := r.createContent(ctx, s, state == "readynosourcevm"); err != nil {
			return err
		}
	default:
		return errUnplayed
	}
	return r.client.Status().Update(ctx, s)
}

// createContent makes the content of a snapshot, which is not ready yet; without a VirtualMachine it is.
func (r *captureRun) createContent(ctx context.Context, s *snapshotv1beta1.VirtualMachineSnapshot, empty bool) error {
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "content-of-" + s.Name},
		Spec:       snapshotv1beta1.VirtualMachineSnapshotContentSpec{VirtualMachineSnapshotName: &s.Name, Source: snapshotv1beta1.SourceSpec{VirtualMachine: r.Source.DeepCopy()}},
	}
	for _, b := range r.VolumeBackups {
		backup := snapshotv1beta1.VolumeBackup{VolumeName: b.VolumeName, PersistentVolumeClaim: snapshotv1beta1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: b.Claim}}}
		if b.VolumeSnapshotName != "" {
			backup.VolumeSnapshotName = &b.VolumeSnapshotName
		}
		content.Spec.VolumeBackups = append(content.Spec.VolumeBackups, backup)
	}
	if empty {
		content.Spec.Source.VirtualMachine = nil
	}
	if err := r.client.Create(ctx, content); client.IgnoreAlreadyExists(err) != nil || !empty {
		return client.IgnoreAlreadyExists(err)
	}
	content.Status = &snapshotv1beta1.VirtualMachineSnapshotContentStatus{ReadyToUse: new(true)}
	return r.client.Status().Update(ctx, content)
}

// losesTemplate reports whether the template is deleted.
func (c *CaptureCase) losesTemplate() bool { return c.loses(templateKind) }

// losesRequest reports whether the request is deleted.
func (c *CaptureCase) losesRequest() bool { return c.loses(requestKind) }

// loses reports whether objects of a kind are deleted by an event.
func (c *CaptureCase) loses(kind string) bool {
	return slices.ContainsFunc(c.Events, func(event string) bool {
		e := readEvent(event)
		return e.gone && e.kind == kind
	})
}

// hasEvent reports whether the case has an event.
func (c *CaptureCase) hasEvent(name string) bool { return slices.Contains(c.Events, name) }
