package capture

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/templates/capture"
)

var (
	began  = time.Unix(1_800_000_000, 0)
	limits = Deadlines{Snapshot: time.Minute, Clone: time.Hour}
)

// started is a capture whose request has its finalizer, ten seconds after its creation.
func started(change ...func(*observed)) *observed {
	o := &observed{now: began.Add(10 * time.Second), request: &v1beta1.VirtualMachineTemplateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "golden", UID: "1", CreationTimestamp: metav1.NewTime(began), Finalizers: []string{v1beta1.FinalizerSnapshotCleanup}},
		Spec:       v1beta1.VirtualMachineTemplateRequestSpec{VirtualMachineRef: v1beta1.VirtualMachineReference{Namespace: "shop", Name: "web"}},
	}}
	for _, c := range change {
		c(o)
	}
	return o
}

// snapshotted adds a snapshot that is ready, with a volume.
func snapshotted(o *observed) {
	content, volume := "content", "snapshot-of-root"
	o.snapshot = snapshotOf(o.request)
	o.snapshot.CreationTimestamp = metav1.NewTime(began)
	o.snapshot.Status = &snapshotv1beta1.VirtualMachineSnapshotStatus{ReadyToUse: new(true), VirtualMachineSnapshotContentName: &content}
	vm := &snapshotv1beta1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{}}}
	vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "root"}}}}
	o.content = &snapshotv1beta1.VirtualMachineSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began)},
		Spec: snapshotv1beta1.VirtualMachineSnapshotContentSpec{
			VirtualMachineSnapshotName: &o.snapshot.Name, Source: snapshotv1beta1.SourceSpec{VirtualMachine: vm},
			VolumeBackups: []snapshotv1beta1.VolumeBackup{{VolumeName: "root", VolumeSnapshotName: &volume}},
		},
		Status: &snapshotv1beta1.VirtualMachineSnapshotContentStatus{ReadyToUse: new(true)},
	}
	o.volumes, _ = capture.Volumes(o.content)
	o.clones = make([]*cdiv1beta1.DataVolume, len(o.volumes))
	o.expanded = vm.Spec.DeepCopy()
}

// requires sets the state that the source must have, and what KubeVirt notes of it.
func requires(state v1beta1.SourceState, indications ...snapshotv1beta1.Indication) func(*observed) {
	return func(o *observed) {
		o.request.Spec.SourceState = state
		for _, i := range indications {
			o.snapshot.Status.SourceIndications = append(o.snapshot.Status.SourceIndications, snapshotv1beta1.SourceIndication{Indication: i})
		}
	}
}

// The template has the state of its source.
func TestSourceStateOfTemplate(t *testing.T) {
	for want, indications := range map[v1beta1.SourceState][]snapshotv1beta1.Indication{
		v1beta1.SourceStopped: nil, v1beta1.SourceRunning: {"Online", "NoGuestAgent"}, v1beta1.SourceQuiesced: {"Online", "GuestAgent"},
	} {
		d := started(snapshotted, cloned(cdiv1beta1.Succeeded), requires(v1beta1.SourceAny, indications...)).plan(limits)
		if len(d.steps) != 1 || d.steps[0].Object.GetAnnotations()[v1beta1.AnnotationSourceState] != string(want) {
			t.Errorf("%s: %+v", want, d.steps)
		}
	}
}

// cloned adds a clone with a phase.
func cloned(phase cdiv1beta1.DataVolumePhase) func(*observed) {
	return func(o *observed) {
		o.clones[0] = capture.DataVolume(o.request, &o.volumes[0])
		o.clones[0].CreationTimestamp = metav1.NewTime(began)
		o.clones[0].Status.Phase = phase
	}
}

func templated(o *observed) {
	o.template = &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "golden", UID: "2", Labels: map[string]string{v1beta1.LabelRequestUID: "1"}}}
}

func handedOver(o *observed) {
	o.clones[0].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.template, v1beta1.GroupVersion.WithKind("VirtualMachineTemplate"))}
}

func owned(o *observed) {
	o.request.OwnerReferences = []metav1.OwnerReference{{UID: o.template.UID}}
}

func later(d time.Duration) func(*observed) { return func(o *observed) { o.now = began.Add(d) } }

// with sets the conditions of a progress in the status.
func with(p requests.Progress) func(*observed) {
	return func(o *observed) { o.request.Status = *statusOf(o.request, &p, false, began) }
}

// TestPlan: each state has one next step, and nothing else is written.
func TestPlan(t *testing.T) {
	deleting := func(o *observed) { o.request.DeletionTimestamp = &metav1.Time{Time: began} }
	without := func(o *observed) { o.request.Finalizers = nil }
	for name, s := range map[string]struct {
		state  *observed
		steps  string
		reason string
	}{
		"new":                         {started(without), "updating golden", v1beta1.ReasonSnapshotting},
		"not guarded":                 {started(without, func(o *observed) { o.unguarded = "no guard" }), "", guarded.Reason},
		"not guarded any more":        {started(snapshotted, func(o *observed) { o.unguarded = "no guard" }), "", guarded.Reason},
		"no snapshot":                 {started(), "creating " + capture.SnapshotName(started().request), v1beta1.ReasonSnapshotting},
		"snapshot waits":              {started(snapshotted, func(o *observed) { o.snapshot.Status = nil }), "", v1beta1.ReasonSnapshotting},
		"snapshot is late":            {started(snapshotted, later(time.Minute), func(o *observed) { o.snapshot.Status = nil }), "", v1beta1.ReasonDeadlineExceeded},
		"snapshot of another VM":      {started(snapshotted, func(o *observed) { o.snapshot.Spec.Source.Name = "other" }), "", v1beta1.ReasonNameTaken},
		"content of another snapshot": {started(snapshotted, func(o *observed) { o.content.Spec.VirtualMachineSnapshotName = new("other") }), "", v1beta1.ReasonSnapshotFailed},
		"snapshot is ready":           {started(snapshotted), "creating " + capture.CloneName(started().request, "root"), v1beta1.ReasonCloning},
		"clone waits":                 {started(snapshotted, cloned(cdiv1beta1.CloneInProgress)), "", v1beta1.ReasonCloning},
		"clone is late":               {started(snapshotted, cloned(cdiv1beta1.CloneInProgress), later(time.Hour)), "", v1beta1.ReasonDeadlineExceeded},
		"clone failed":                {started(snapshotted, cloned(cdiv1beta1.Failed)), "", v1beta1.ReasonCloneFailed},
		"claim of others": {started(snapshotted, cloned(cdiv1beta1.Succeeded), func(o *observed) {
			o.clones[0].Annotations["cdi.kubevirt.io/storage.prePopulated"] = o.clones[0].Name
		}), "", v1beta1.ReasonNameTaken},
		"clone of another source":      {started(snapshotted, cloned(cdiv1beta1.Succeeded), func(o *observed) { o.clones[0].Spec.Source.Snapshot.Name = "other" }), "", v1beta1.ReasonNameTaken},
		"cloned":                       {started(snapshotted, cloned(cdiv1beta1.Succeeded)), "creating golden", v1beta1.ReasonCreatingTemplate},
		"template":                     {started(snapshotted, cloned(cdiv1beta1.Succeeded), templated), "updating " + capture.CloneName(started().request, "root"), v1beta1.ReasonCreatingTemplate},
		"template owns the clones":     {started(snapshotted, cloned(cdiv1beta1.Succeeded), templated, handedOver), "updating golden", v1beta1.ReasonCreatingTemplate},
		"template owns the request":    {started(snapshotted, cloned(cdiv1beta1.Succeeded), templated, handedOver, owned), "deleting " + capture.SnapshotName(started().request), v1beta1.ReasonCleaningUp},
		"snapshot is gone at the end":  {started(templated, owned), "", v1beta1.ReasonReconciled},
		"snapshot is gone too early":   {started(templated), "", v1beta1.ReasonSnapshotFailed},
		"running, and must be stopped": {started(snapshotted, requires(v1beta1.SourceStopped, "Online", "GuestAgent")), "", v1beta1.ReasonSourceNotStopped},
		"running, and must be frozen":  {started(snapshotted, requires(v1beta1.SourceQuiesced, "Online", "NoGuestAgent")), "", v1beta1.ReasonSourceNotQuiesced},
		"frozen, and must be frozen":   {started(snapshotted, requires(v1beta1.SourceQuiesced, "Online", "GuestAgent")), "creating " + capture.CloneName(started().request, "root"), v1beta1.ReasonCloning},
		"running, and may run":         {started(snapshotted, requires("", "Online", "NoGuestAgent")), "creating " + capture.CloneName(started().request, "root"), v1beta1.ReasonCloning},
		"running, and has clones":      {started(snapshotted, cloned(cdiv1beta1.Succeeded), requires(v1beta1.SourceStopped, "Online")), "", v1beta1.ReasonSourceNotStopped},
		"template of another user":     {started(templated, func(o *observed) { o.template.Labels = nil }), "", v1beta1.ReasonNameTaken},
		"failed with a snapshot":       {started(snapshotted, with(failed("X", "").progress)), "deleting " + capture.SnapshotName(started().request), "X"},
		"failed with a template":       {started(templated, with(failed("X", "").progress)), "deleting golden", "X"},
		"failed with nothing":          {started(with(failed("X", "").progress)), "updating golden", "X"},
		"failed and released":          {started(without, with(failed("X", "").progress)), "", "X"},
		"deleted while it works":       {started(deleting, snapshotted, templated), "deleting golden, deleting " + capture.SnapshotName(started().request), ""},
		"deleted after the hand-over":  {started(deleting, snapshotted, templated, owned), "deleting " + capture.SnapshotName(started().request), ""},
		"deleted at the end":           {started(deleting, templated, owned), "updating golden", ""},
		"no name":                      {started(func(o *observed) { o.request.Spec.VirtualMachineRef.Name = "" }), "", v1beta1.ReasonInvalidConfiguration},
		"a namespace that is no label": {started(func(o *observed) { o.request.Spec.VirtualMachineRef.Namespace = "a/../b" }), "", v1beta1.ReasonInvalidConfiguration},
	} {
		d := s.state.plan(limits)
		var steps []string
		for i := range d.steps {
			steps = append(steps, string(d.steps[i].Verb)+" "+d.steps[i].Object.GetName())
		}
		if diff := cmp.Diff(s.steps, strings.Join(steps, ", ")); diff != "" || d.progress.Reason != s.reason {
			t.Errorf("%s: reason %s: %s, want %s; steps (-want +got):\n%s", name, d.progress.Reason, d.progress.Message, s.reason, diff)
		}
	}
}

// TestTimeToLive: a completed request is deleted at the right time.
func TestTimeToLive(t *testing.T) {
	done := with(requests.Progress{State: requests.HasCompleted, Reason: v1beta1.ReasonReconciled})
	ttl := func(o *observed) { o.request.Spec.TTLSecondsAfterFinished, o.request.Finalizers = new(int32(30)), nil }
	if d := started(templated, done, ttl).plan(limits); len(d.steps) > 0 || d.after != 20*time.Second {
		t.Errorf("after 10 seconds: %v, %s", d.steps, d.after)
	}
	if d := started(templated, done, ttl, later(30*time.Second)).plan(limits); len(d.steps) != 1 || d.steps[0].Verb != requests.Remove || d.steps[0].Object.GetName() != "golden" {
		t.Errorf("after 30 seconds: %v", d.steps)
	}
}

// TestConditions: each progress has all conditions.
func TestConditions(t *testing.T) {
	for name, s := range map[string]struct {
		progress requests.Progress
		want     string
	}{
		"working":   {requests.Working(v1beta1.ReasonCloning, "m"), "Progressing True Cloning, Completed False Waiting, Ready False Waiting"},
		"blocked":   {requests.Working(v1beta1.ReasonBlocked, "m"), "Progressing True Blocked, Completed False Blocked, Ready False Blocked"},
		"failed":    {failed(v1beta1.ReasonCloneFailed, "m").progress, "Progressing False CloneFailed, Completed False CloneFailed, Ready False CloneFailed"},
		"completed": {requests.Progress{State: requests.HasCompleted}, "Progressing False Reconciled, Completed True Reconciled, Ready False Waiting"},
		"ready":     {requests.Progress{State: requests.HasCompleted, Template: requests.Readiness{Ready: true}}, "Progressing False Reconciled, Completed True Reconciled, Ready True Reconciled"},
	} {
		var got []string
		for _, c := range s.progress.Conditions() {
			got = append(got, c.Type+" "+string(c.Status)+" "+c.Reason)
		}
		if diff := cmp.Diff(s.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
