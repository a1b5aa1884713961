package templates

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	if failure != "" {
		return Result{ID: c.ID, Area: c.Area, Outcome: Other, Difference: failure}, nil
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
		Tell: func(*v1beta1.VirtualMachineTemplateRequest, string, string, string) {},
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

// play returns what the capture does. failure says why it could not be played.
func (r *captureRun) play() (got *captureOutcome, failure string) {
	if err := r.playEvents(); err != nil {
		return nil, err.Error()
	}
	return r.got, ""
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
	switch event {
	case "start", "again":
		return nil
	case "foreign-template":
		return r.client.Create(ctx, &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: r.Request.Namespace, Name: captured.TemplateName(&r.Request), UID: "foreign"}})
	case "template-reconciled", "template-not-ready":
		return each(ctx, r.client, &v1beta1.VirtualMachineTemplateList{}, func(t *v1beta1.VirtualMachineTemplate) error {
			status := metav1.ConditionTrue
			if event == "template-not-ready" {
				status = metav1.ConditionFalse
			}
			meta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{Type: v1beta1.TemplateReady, Status: status, Reason: "Reconciled", ObservedGeneration: t.Generation})
			return r.client.Status().Update(ctx, t)
		})
	case "foreign-snapshot":
		return r.client.Create(ctx, &snapshotv1beta1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: r.Request.Spec.VirtualMachineRef.Namespace, Name: captured.SnapshotName(&r.Request), UID: "foreign"}})
	}
	switch gone := isGone(event); {
	case gone && strings.Contains(event, "request"):
		return client.IgnoreNotFound(r.client.Delete(ctx, r.Request.DeepCopy()))
	case gone && strings.Contains(event, "template"):
		return each(ctx, r.client, &v1beta1.VirtualMachineTemplateList{}, func(t *v1beta1.VirtualMachineTemplate) error { return r.client.Delete(ctx, t) })
	case strings.Contains(event, "datavolume"):
		return r.happenToVolumes(ctx, event)
	case strings.Contains(event, "snapshot"), strings.HasPrefix(event, "content"):
		return each(ctx, r.client, &snapshotv1beta1.VirtualMachineSnapshotList{}, func(s *snapshotv1beta1.VirtualMachineSnapshot) error { return r.happenToSnapshot(ctx, event, s) })
	}
	return errors.New("the event is not known")
}

func (r *captureRun) happenToVolumes(ctx context.Context, event string) error {
	phases := map[string]cdiv1beta1.DataVolumePhase{
		"datavolumes-in-progress": cdiv1beta1.CloneInProgress, "datavolumes-succeeded": cdiv1beta1.Succeeded, "datavolumes-first-succeeded": cdiv1beta1.Succeeded,
		"datavolumes-failed": cdiv1beta1.Failed, "datavolumes-paused": cdiv1beta1.Paused, "datavolumes-pending": cdiv1beta1.Pending,
	}
	first := ""
	if len(r.VolumeBackups) > 0 {
		first = captured.CloneName(&r.Request, r.VolumeBackups[0].VolumeName)
	}
	return each(ctx, r.client, &cdiv1beta1.DataVolumeList{}, func(v *cdiv1beta1.DataVolume) error {
		switch {
		case strings.HasPrefix(event, "relabel-"):
			v.Labels[v1beta1.LabelRequestUID] = "another"
			return r.client.Update(ctx, v)
		case isGone(event):
			if !strings.Contains(event, "datavolumes") && v.Name != first {
				return nil
			}
			return r.client.Delete(ctx, v)
		}
		phase, known := phases[event]
		if !known {
			return errors.New("the event is not known")
		}
		if event == "datavolumes-first-succeeded" && v.Name != first {
			return nil
		}
		running := corev1.ConditionFalse
		if phase == cdiv1beta1.CloneInProgress {
			running = corev1.ConditionTrue
		}
		v.Status.Phase = phase
		v.Status.Conditions = []cdiv1beta1.DataVolumeCondition{{Type: cdiv1beta1.DataVolumeRunning, Status: running}}
		return r.client.Status().Update(ctx, v)
	})
}

func (r *captureRun) happenToSnapshot(ctx context.Context, event string, s *snapshotv1beta1.VirtualMachineSnapshot) error {
	condition := func(kind snapshotv1beta1.ConditionType, status corev1.ConditionStatus, reason string) {
		s.Status.Conditions = []snapshotv1beta1.Condition{{Type: kind, Status: status, Reason: reason}}
	}
	if s.Status == nil {
		s.Status = &snapshotv1beta1.VirtualMachineSnapshotStatus{}
	}
	content := "content-of-" + s.Name
	s.Status.Phase = snapshotv1beta1.InProgress
	switch event {
	case "relabel-snapshot":
		s.Labels[v1beta1.LabelRequestUID] = "another"
		return r.client.Update(ctx, s)
	case "delete-snapshot", "snapshot-deleted":
		s.Finalizers = nil
		return errors.Join(r.client.Update(ctx, s), r.client.Delete(ctx, s))
	case "content-ready":
		object := &snapshotv1beta1.VirtualMachineSnapshotContent{}
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: content}, object); err != nil {
			return err
		}
		object.Status = &snapshotv1beta1.VirtualMachineSnapshotContentStatus{ReadyToUse: new(true)}
		return r.client.Status().Update(ctx, object)
	case "snapshot-in-progress":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionTrue, "Source locked and operation in progress")
	case "snapshot-waiting":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionFalse, "Waiting for the source")
	case "snapshot-source-missing":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionFalse, "Source does not exist")
	case "snapshot-error":
		condition(snapshotv1beta1.ConditionProgressing, corev1.ConditionFalse, "In error state")
	case "snapshot-failed":
		s.Status.Phase = snapshotv1beta1.Failed
		condition(snapshotv1beta1.ConditionFailure, corev1.ConditionTrue, "Operation failed")
	case "snapshot-ready", "snapshot-ready-no-content", "snapshot-ready-no-source-vm":
		s.Status.Phase, s.Status.ReadyToUse = snapshotv1beta1.Succeeded, new(true)
		condition(snapshotv1beta1.ConditionReady, corev1.ConditionTrue, "Operation complete")
		s.Status.SnapshotVolumes = &snapshotv1beta1.SnapshotVolumesLists{ExcludedVolumes: r.ExcludedVolumes}
		if event == "snapshot-ready-no-content" {
			break
		}
		s.Status.VirtualMachineSnapshotContentName = &content
		if err := r.createContent(ctx, s, event == "snapshot-ready-no-source-vm"); err != nil {
			return err
		}
	default:
		return errors.New("the event is not known")
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

// isGone reports whether an event is the deletion of something.
func isGone(event string) bool {
	return strings.HasPrefix(event, "delete-") || strings.HasSuffix(event, "-deleted")
}

// losesTemplate reports whether the template is deleted.
func (c *CaptureCase) losesTemplate() bool {
	return slices.ContainsFunc(c.Events, func(event string) bool { return isGone(event) && strings.Contains(event, "template") })
}

// hasEvent reports whether the case has an event.
func (c *CaptureCase) hasEvent(name string) bool { return slices.Contains(c.Events, name) }
