package capture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/templates/capture"
	"github.com/virtward/virtward/texts"
)

// Deadlines bound the steps of a capture.
type Deadlines struct {
	// Snapshot bounds the time until the snapshot is ready.
	Snapshot time.Duration
	// Clone bounds the time until a volume is cloned.
	Clone time.Duration
}

// contentInterval is the interval at which the content of a snapshot is read. It has no label to watch.
const contentInterval = 5 * time.Second

// decision is what a plan says.
type decision struct {
	// steps are applied in their order. Then the next plan follows, after the objects are read again.
	steps []requests.Step
	// progress is the state of the request without the steps.
	progress requests.Progress
	// since is when the current step of the capture started, and deadline when it must end.
	since, deadline time.Time
	// after is when the request is reconciled again without a change; 0 for never.
	after time.Duration
}

// plan decides what comes next.
func (o *observed) plan(limits Deadlines) decision {
	switch {
	case o.request.DeletionTimestamp != nil:
		return o.abandon()
	case requests.IsFailed(o.request.Status.Conditions):
		return o.cleanUp()
	case requests.IsCompleted(o.request.Status.Conditions):
		return o.afterwards()
	}
	if message := invalid(o.request); message != "" {
		return failed(v1beta1.ReasonInvalidConfiguration, message)
	}
	if o.unguarded != "" {
		return failed(guarded.Reason, o.unguarded)
	}
	if o.template != nil && !o.isOwnTemplate() {
		return failed(v1beta1.ReasonNameTaken, fmt.Sprintf("VirtualMachineTemplate %s exists, and is not of this request: use another templateName", requests.Named(o.template)))
	}
	if !controllerutil.ContainsFinalizer(o.request, v1beta1.FinalizerSnapshotCleanup) {
		return decision{steps: []requests.Step{requests.Change(o.request, func(r *v1beta1.VirtualMachineTemplateRequest) {
			controllerutil.AddFinalizer(r, v1beta1.FinalizerSnapshotCleanup)
		})}, progress: requests.Working(v1beta1.ReasonSnapshotting, "the capture starts"), since: o.request.CreationTimestamp.Time}
	}
	d, ready := o.snapshotting(limits.Snapshot)
	if ready {
		d = o.cloning(limits.Clone)
	}
	if !d.deadline.IsZero() && !o.now.Before(d.deadline) && len(d.steps) == 0 {
		return failed(v1beta1.ReasonDeadlineExceeded, fmt.Sprintf("it took longer than %s: %s", d.deadline.Sub(d.since), d.progress.Message))
	}
	return d
}

// invalid says why a request can never be captured.
func invalid(request *v1beta1.VirtualMachineTemplateRequest) string {
	ref := request.Spec.VirtualMachineRef
	switch {
	case ref.Namespace == "":
		return "spec.virtualMachineRef.namespace is empty"
	case ref.Name == "":
		return "spec.virtualMachineRef.name is empty"
	}
	if errs := validation.IsDNS1123Label(ref.Namespace); len(errs) > 0 {
		return "spec.virtualMachineRef.namespace: " + strings.Join(errs, "; ")
	}
	if errs := validation.IsDNS1123Subdomain(ref.Name); len(errs) > 0 {
		return "spec.virtualMachineRef.name: " + strings.Join(errs, "; ")
	}
	if errs := validation.IsDNS1123Subdomain(capture.TemplateName(request)); len(errs) > 0 {
		return "spec.templateName: " + strings.Join(errs, "; ")
	}
	return ""
}

// snapshotting plans until the content of the snapshot is ready.
func (o *observed) snapshotting(limit time.Duration) (d decision, ready bool) {
	d = decision{since: o.request.CreationTimestamp.Time}
	if o.snapshot == nil {
		switch {
		case o.isOwnedByTemplate():
			return decision{progress: o.completed()}, false
		case len(o.leftovers) > 0 || o.template != nil:
			return failed(v1beta1.ReasonSnapshotFailed, "the snapshot was deleted before all volumes were cloned"), false
		}
		d.progress = requests.Working(v1beta1.ReasonSnapshotting, "the snapshot is created")
		d.steps = []requests.Step{{Verb: requests.Create, Object: snapshotOf(o.request)}}
		return d.until(limit), false
	}
	d.since = o.snapshot.CreationTimestamp.Time
	what := "VirtualMachineSnapshot " + requests.Named(o.snapshot)
	switch {
	case !o.isOwnSnapshot():
		return failed(v1beta1.ReasonNameTaken, what+" exists, and is not of this request"), false
	case o.isOwnedByTemplate(), o.snapshot.DeletionTimestamp != nil:
		return o.cleaning(d).until(limit), false
	case snapshotFailure(o.snapshot) != "":
		return failed(v1beta1.ReasonSnapshotFailed, what+" failed: "+texts.Shorten(snapshotFailure(o.snapshot), requests.MaxQuoted)), false
	case o.snapshot.Status == nil || o.snapshot.Status.ReadyToUse == nil || !*o.snapshot.Status.ReadyToUse:
		d.progress = requests.Working(v1beta1.ReasonSnapshotting, "waiting for "+what)
		return d.until(limit), false
	case contentName(o.snapshot) == "":
		return failed(v1beta1.ReasonSnapshotFailed, what+" has no content"), false
	case !isReady(o.content):
		d.progress, d.after = requests.Working(v1beta1.ReasonSnapshotting, "waiting for the content of "+what), contentInterval
		return d.until(limit), false
	case o.content.Spec.VirtualMachineSnapshotName == nil || *o.content.Spec.VirtualMachineSnapshotName != o.snapshot.Name:
		return failed(v1beta1.ReasonSnapshotFailed, "the content of "+what+" is of another snapshot"), false
	case o.fault != nil:
		return failed(o.fault.Reason, o.fault.Message), false
	}
	var fault *capture.Error
	if source := o.content.Spec.Source.VirtualMachine; source != nil && errors.As(capture.CheckSource(o.request, o.snapshot, &source.Spec), &fault) {
		return failed(fault.Reason, fault.Message), false
	}
	return d, true
}

// cleaning plans the end of the snapshot, which is not needed any more.
func (o *observed) cleaning(d decision) decision {
	if o.snapshot.DeletionTimestamp == nil {
		d.steps = []requests.Step{{Verb: requests.Remove, Object: o.snapshot}}
	}
	d.progress = requests.Working(v1beta1.ReasonCleaningUp, "waiting for the deletion of VirtualMachineSnapshot "+requests.Named(o.snapshot))
	if !o.isOwnTemplate() {
		d.progress.Reason = v1beta1.ReasonSnapshotting
	}
	return d
}

// cloning plans from the content of the snapshot to the template that owns all clones.
func (o *observed) cloning(limit time.Duration) decision {
	d := decision{since: o.content.CreationTimestamp.Time, progress: requests.Working(v1beta1.ReasonCloning, "the volumes are cloned")}
	var waiting []string
	for i := range o.volumes {
		v, clone := &o.volumes[i], o.clones[i]
		if clone == nil {
			d.steps = append(d.steps, requests.Step{Verb: requests.Create, Object: capture.DataVolume(o.request, v)})
			continue
		}
		what := "DataVolume " + requests.Named(clone)
		switch {
		case !o.isClone(clone, v):
			return failed(v1beta1.ReasonNameTaken, what+" exists, and is not of this request")
		case requests.HasAdopted(clone):
			return failed(v1beta1.ReasonNameTaken, requests.Adopted(clone)+": create the request again")
		case clone.Status.Phase == cdiv1beta1.Failed:
			return failed(v1beta1.ReasonCloneFailed, what+" failed"+requests.Quoted(detailOf(clone)))
		case clone.Status.Phase != cdiv1beta1.Succeeded:
			waiting = append(waiting, what+requests.Quoted(detailOf(clone)))
			if clone.CreationTimestamp.After(d.since) {
				d.since = clone.CreationTimestamp.Time
			}
		}
	}
	d = d.until(limit)
	switch {
	case len(d.steps) > 0:
	case len(waiting) > 0:
		slices.Sort(waiting)
		d.progress.Message = fmt.Sprintf("%d of %d volumes are cloned; waiting for %s", len(o.volumes)-len(waiting), len(o.volumes), waiting[0])
	default:
		return o.templating(d)
	}
	return d
}

// templating plans the template, the hand-over of the clones and the end of the snapshot.
func (o *observed) templating(d decision) decision {
	d.progress = requests.Working(v1beta1.ReasonCreatingTemplate, "VirtualMachineTemplate "+o.request.Namespace+"/"+capture.TemplateName(o.request)+" is created")
	if o.template == nil {
		template, err := templateOf(o)
		if err != nil {
			return failed(v1beta1.ReasonRejected, err.Error())
		}
		d.steps = []requests.Step{{Verb: requests.Create, Object: template}}
		return d
	}
	owner := metav1.NewControllerRef(o.template, v1beta1.GroupVersion.WithKind("VirtualMachineTemplate"))
	for _, clone := range o.clones {
		if !o.isHandedOver(clone) {
			d.steps = append(d.steps, requests.Change(clone, func(c *cdiv1beta1.DataVolume) { c.OwnerReferences = []metav1.OwnerReference{*owner} }))
		}
	}
	if len(d.steps) == 0 { // isOwnedByTemplate comes before
		owner.Controller, owner.BlockOwnerDeletion = nil, nil
		d.steps = []requests.Step{requests.Change(o.request, func(r *v1beta1.VirtualMachineTemplateRequest) { r.OwnerReferences = append(r.OwnerReferences, *owner) })}
	}
	return d
}

// until sets the deadline of a step.
func (d decision) until(limit time.Duration) decision {
	if !d.since.IsZero() {
		d.deadline = d.since.Add(limit)
		if d.after == 0 {
			d.after = limit
		}
	}
	return d
}

func snapshotOf(request *v1beta1.VirtualMachineTemplateRequest) *snapshotv1beta1.VirtualMachineSnapshot {
	return &snapshotv1beta1.VirtualMachineSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Spec.VirtualMachineRef.Namespace, Name: capture.SnapshotName(request),
			Labels: map[string]string{v1beta1.LabelRequestUID: string(request.UID)},
		},
		Spec: snapshotv1beta1.VirtualMachineSnapshotSpec{Source: corev1.TypedLocalObjectReference{
			APIGroup: &kubevirtv1.VirtualMachineGroupVersionKind.Group, Kind: kubevirtv1.VirtualMachineGroupVersionKind.Kind, Name: request.Spec.VirtualMachineRef.Name,
		}},
	}
}

// templateOf returns the template of the capture.
func templateOf(o *observed) (*v1beta1.VirtualMachineTemplate, error) {
	spec, err := capture.Template(o.request, o.expanded, o.volumes)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	for key, value := range o.request.Spec.TemplateLabels {
		if !strings.HasPrefix(key, v1beta1.GroupVersion.Group+"/") {
			labels[key] = value
		}
	}
	labels[v1beta1.LabelRequestUID] = string(o.request.UID)
	return &v1beta1.VirtualMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.request.Namespace, Name: capture.TemplateName(o.request), Labels: labels,
			Annotations: map[string]string{v1beta1.AnnotationSourceState: string(capture.SourceState(o.snapshot))},
		},
		Spec: *spec,
	}, nil
}

// snapshotErrors are the reasons of KubeVirt's condition Progressing with which a snapshot does not continue.
var snapshotErrors = []string{"In error state", "Source does not exist"}

// snapshotFailure says why a snapshot failed; empty if it did not.
func snapshotFailure(s *snapshotv1beta1.VirtualMachineSnapshot) string {
	if s.Status == nil {
		return ""
	}
	message := ""
	if s.Status.Error != nil && s.Status.Error.Message != nil {
		message = *s.Status.Error.Message
	}
	for _, c := range s.Status.Conditions {
		switch {
		case c.Type == snapshotv1beta1.ConditionFailure && c.Status == corev1.ConditionTrue:
			return cmp.Or(message, c.Message, c.Reason)
		case c.Type == snapshotv1beta1.ConditionProgressing && c.Status == corev1.ConditionFalse && slices.Contains(snapshotErrors, c.Reason):
			return cmp.Or(message, c.Message, c.Reason)
		}
	}
	if s.Status.Phase == snapshotv1beta1.Failed {
		return cmp.Or(message, "KubeVirt gives no reason")
	}
	return ""
}

// detailOf is what CDI says about a DataVolume that is not ready.
func detailOf(clone *cdiv1beta1.DataVolume) string {
	for _, kind := range []cdiv1beta1.DataVolumeConditionType{cdiv1beta1.DataVolumeBound, cdiv1beta1.DataVolumeRunning} {
		for _, c := range clone.Status.Conditions {
			if c.Type == kind && c.Status != corev1.ConditionTrue && c.Message != "" {
				return c.Message
			}
		}
	}
	return ""
}
