package templateimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
)

// Deadlines bound the steps of an import.
type Deadlines struct {
	// Source bounds the time until the source is read for the first time.
	Source time.Duration
	// Import bounds the whole import.
	Import time.Duration
}

// maxRestarts is the number of failures of CDI's importer after which a disk has failed.
const maxRestarts = 3

// The intervals at which what is not watched is read: a pod that starts, and one that serves.
const (
	startInterval = 2 * time.Second
	serveInterval = 15 * time.Second
	quotaInterval = 30 * time.Second
)

// need is what a plan needs before it can decide.
type need int

const (
	nothing need = iota
	// reading is what was read of the appliance, and the quotas of the namespace.
	reading
	// verifying is the comparison of the whole file.
	verifying
	// copying is how far the copy of the file is.
	copying
)

// decision is what a plan says.
type decision struct {
	need need
	// steps are applied in their order. Then the next plan follows, after the objects are read again.
	steps []requests.Step
	// serve creates the pod with its objects: that of the disks, that of the archive of a claim which was not read yet, or that which copies
	// the file.
	serve bool
	// keep keeps what was read, although the decision needs nothing: the pod of the disks follows.
	keep bool
	// progress is the state of the import without the steps.
	progress progress
	// since is when the import began, and deadline when the current step must end.
	since, deadline time.Time
	// after is when the import is reconciled again without a change; 0 for never.
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
	if o.unguarded != "" {
		return failed(guarded.Reason, o.unguarded)
	}
	if o.template != nil && !o.isOwnTemplate() {
		return failed(v1beta1.ReasonNameTaken, fmt.Sprintf("VirtualMachineTemplate %s exists, and is not of this import: use another templateName", requests.Named(o.template)))
	}
	if !controllerutil.ContainsFinalizer(o.request, v1beta1.FinalizerImport) {
		return decision{steps: []requests.Step{requests.Change(o.request, func(r *v1beta1.VirtualMachineTemplateImport) {
			controllerutil.AddFinalizer(r, v1beta1.FinalizerImport)
		})}, progress: working(v1beta1.ReasonReadingSource, "the import starts")}
	}
	d := o.advance()
	limit := limits.Import
	if o.request.Status.Source == nil && o.staging() == nil { // a copy can take as long as the disks
		limit = limits.Source
	}
	d.since = o.request.CreationTimestamp.Time
	d.deadline = d.since.Add(limit)
	if !o.now.Before(d.deadline) && d.progress.State == requests.IsWorking && !(o.isOwnTemplate() && o.areHandedOver()) {
		return failed(v1beta1.ReasonDeadlineExceeded, fmt.Sprintf("it took longer than %s: %s", limit, cmp.Or(d.progress.Message, o.last())))
	}
	return d
}

// last is the message of the last status.
func (o *observed) last() string { return requests.ProgressOf(o.request.Status.Conditions).Message }

// advance plans the next step of an import that works.
func (o *observed) advance() decision {
	s := o.request.Status.Source
	if o.isMisled() {
		return failed(v1beta1.ReasonVerificationFailed, "Service "+requests.Named(o.service)+" was changed, so the disks can be those of another server: create the import again")
	}
	if d, wrong := o.claimed(); wrong {
		return d
	}
	if d, waits := o.stages(); waits {
		return d
	}
	switch {
	case s == nil && o.read == nil:
		return o.through(decision{need: reading, progress: working(v1beta1.ReasonReadingSource, "the descriptor is read")})
	case s == nil:
		return o.begin()
	case o.read != nil && !o.isSame():
		f := changed(o.request)
		return failed(f.Reason, f.Message)
	case o.verifies() && !s.Verified:
		return o.through(decision{need: verifying, progress: working(v1beta1.ReasonVerifying, "the whole file is read and compared with its digests")})
	}
	return o.importing()
}

// begin records what the import creates, or why it creates nothing.
func (o *observed) begin() decision {
	if o.read.Stage != nil {
		d := decision{progress: working(v1beta1.ReasonStaging, "the volume for the copy of the file is created")}
		d.progress.staging = &v1beta1.ImportStaged{Name: imports.CopyName(o.request), Compression: o.read.Stage.Compression, Digest: o.read.Origin.Digest}
		return d
	}
	outcome := o.read.Outcome
	d := decision{progress: working(v1beta1.ReasonPreparing, "the descriptor is read")}
	switch f := outcome.Fault; {
	case f != nil:
		d = failed(f.Reason, f.Message)
	case o.verifies() && o.read.Origin.Validator == "":
		d = failed(v1beta1.ReasonVerificationFailed, "spec.source.http.url: the server states neither an ETag nor the time of the last change, so that what is verified can differ from what is imported")
	}
	d.progress.found = o.read
	return d
}

// isSame reports whether the appliance is the one that the import began with.
func (o *observed) isSame() bool {
	s := o.request.Status.Source
	return o.read.Origin.Size == s.Size && o.read.Origin.Validator == s.Validator && o.read.Outcome.Fault == nil && o.read.Outcome.Plan == s.Plan
}

// verifies reports whether the whole file is read before CDI does. The digest of a layer with an OVA cannot be compared otherwise, because
// the pod reads ranges of it: a signature would cover none of these bytes.
func (o *observed) verifies() bool {
	spec, source := &o.request.Spec, o.request.Status.Source
	layer := source != nil && source.File != "" && (spec.Verify != v1beta1.ImportVerifySkip || source.Signer != "")
	return layer || spec.Checksum != "" || spec.Verify == v1beta1.ImportVerifyRequire
}

// disks is the state of the DataVolumes.
type disks struct {
	missing, stale []requests.Step
	waiting        []string
	done           int
}

// importing plans from the status with the disks to the template that owns them.
func (o *observed) importing() decision {
	found, fault := o.disks()
	switch {
	case fault != nil:
		return *fault
	case found.done == len(o.volumes):
		return o.templating()
	case o.pod == nil:
		return o.serving()
	}
	d := decision{progress: working(v1beta1.ReasonPreparing, "the server of the disks starts"), after: startInterval}
	switch {
	case !o.isOwnPod():
		return failed(v1beta1.ReasonNameTaken, "Pod "+requests.Named(o.pod)+" exists, and is not of this import")
	case o.pod.DeletionTimestamp != nil:
		d.progress.Message, d.keep = "waiting for the deletion of Pod "+requests.Named(o.pod), true
		return d
	case imports.IsReader(o.suffix()) && o.read == nil:
		return o.through(decision{need: reading, progress: working(v1beta1.ReasonPreparing, "the descriptor is read")})
	case !o.isServing(), imports.IsReader(o.suffix()): // the pod of the disks follows
		d.steps = []requests.Step{{Verb: requests.Remove, Object: o.pod}}
		return d
	}
	d.steps = slices.Concat(found.stale, o.permitted(&found))
	if len(d.steps) > 0 {
		return d
	}
	slices.Sort(found.waiting)
	d.after = serveInterval
	d.progress = working(v1beta1.ReasonImporting, fmt.Sprintf("%d of %d disks are imported; waiting for %s", found.done, len(o.volumes), strings.Join(found.waiting[:1], "")))
	if trouble := diskservers.TroubleOf(o.pod); trouble != "" {
		d.progress.Message += "; Pod " + requests.Named(o.pod) + ": " + trouble
	}
	d.progress.volumes = o.volumes
	return d
}

// permitted are the missing DataVolumes that can be created now: a server decompresses few layers at the same time.
func (o *observed) permitted(found *disks) []requests.Step {
	if s := o.request.Status.Source; o.request.Spec.Source.OCI == nil || s != nil && s.File != "" {
		return found.missing
	}
	return found.missing[:min(len(found.missing), max(0, transfer.MaxDecompressed-len(found.waiting)-len(found.stale)))]
}

// disks plans the DataVolumes. A DataVolume of another pod than the present one is created again.
func (o *observed) disks() (found disks, fault *decision) {
	for i := range o.request.Status.Disks {
		disk, volume := &o.request.Status.Disks[i], o.volumes[i]
		if volume == nil {
			found.missing = append(found.missing, requests.Step{Verb: requests.Create, Object: imports.DataVolume(o.request, i, disk, o.suffix())})
			continue
		}
		what := "DataVolume " + requests.Named(volume)
		reason, message := diskservers.Running(volume)
		fails := func(reason, text string) (disks, *decision) {
			f := failed(reason, text)
			return found, &f
		}
		switch {
		case !o.owns(volume):
			return fails(v1beta1.ReasonNameTaken, what+" exists, and is not of this import: use another templateName")
		case requests.HasAdopted(volume):
			return fails(v1beta1.ReasonNameTaken, requests.Adopted(volume)+": use another templateName")
		case volume.Status.Phase == cdiv1beta1.Succeeded && volume.DeletionTimestamp == nil:
			found.done++
		case volume.DeletionTimestamp != nil:
			found.waiting = append(found.waiting, "the deletion of "+what)
		case volume.Status.Phase == cdiv1beta1.Failed, reason == "Error" && volume.Status.RestartCount >= maxRestarts:
			return fails(v1beta1.ReasonImportFailed, what+" failed"+requests.Quoted(message)+requests.Quoted(diskservers.TroubleOf(o.pod)))
		case o.pod != nil && imports.ServedBy(volume) != o.suffix():
			found.stale = append(found.stale, requests.Step{Verb: requests.Remove, Object: volume})
		default:
			found.waiting = append(found.waiting, what+requests.Quoted(message))
		}
	}
	return found, nil
}

// serving plans the pod, after the appliance and the quotas are read.
func (o *observed) serving() decision {
	d := decision{progress: working(v1beta1.ReasonPreparing, "the server of the disks is created")}
	switch {
	case o.read == nil:
		d.need = reading
		return o.through(d)
	case o.quota != "":
		d.progress, d.after = working(v1beta1.ReasonQuotaExceeded, o.quota), quotaInterval
	default:
		d.serve = true
	}
	return d
}

// templating plans the template, the hand-over of the volumes and the end of the pod.
func (o *observed) templating() decision {
	d := decision{progress: working(v1beta1.ReasonCreatingTemplate, "VirtualMachineTemplate "+o.request.Namespace+"/"+imports.TemplateName(o.request)+" is created")}
	d.progress.volumes = o.volumes
	switch {
	case o.template == nil && o.read == nil:
		d.need = reading
		return o.through(d)
	case o.template == nil:
		d.steps = []requests.Step{{Verb: requests.Create, Object: imports.TemplateOf(o.request, o.read.Outcome)}}
		return d
	}
	owner := metav1.NewControllerRef(o.template, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplate))
	owner.BlockOwnerDeletion = nil
	for _, volume := range o.volumes {
		if !o.isHandedOver(volume) {
			d.steps = append(d.steps, requests.Change(volume, func(v *cdiv1beta1.DataVolume) { v.OwnerReferences = []metav1.OwnerReference{*owner} }))
		}
	}
	if len(d.steps) > 0 {
		return d
	}
	return o.ending()
}

// ending plans the end of the pod and of the copy, which are not needed any more.
func (o *observed) ending() decision {
	steps, waits := o.temporary()
	if waits == "" {
		return decision{progress: o.completed()}
	}
	d := decision{steps: steps, progress: working(v1beta1.ReasonCleaningUp, "waiting for the deletion of "+waits), after: startInterval}
	d.progress.volumes = o.volumes
	return d
}

// temporary plans the deletion of the pod, and then of the copy. It says what exists; empty for nothing.
func (o *observed) temporary() (steps []requests.Step, waits string) {
	switch {
	case o.isOwnPod():
		waits = "Pod " + requests.Named(o.pod)
		if o.pod.DeletionTimestamp == nil {
			steps = []requests.Step{{Verb: requests.Remove, Object: o.pod}}
		}
	case o.copy != nil && o.owns(o.copy):
		waits = "DataVolume " + requests.Named(o.copy)
		if o.copy.DeletionTimestamp == nil {
			steps = []requests.Step{{Verb: requests.Remove, Object: o.copy}}
		}
	}
	return steps, waits
}

// abandon plans the end of an import that is being deleted. A template that owns all volumes stays.
func (o *observed) abandon() decision {
	if !o.areHandedOver() && !requests.IsCompleted(o.request.Status.Conditions) {
		return o.cleanUp()
	}
	if steps, waits := o.temporary(); waits != "" {
		return decision{steps: steps, after: startInterval}
	}
	return o.release(decision{})
}

// cleanUp plans the deletion of everything that the import created.
func (o *observed) cleanUp() decision {
	d := decision{progress: progress{Progress: requests.ProgressOf(o.request.Status.Conditions)}}
	if o.isOwnTemplate() && o.template.DeletionTimestamp == nil {
		d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: o.template})
	}
	for i := range o.leftovers {
		if o.leftovers[i].DeletionTimestamp == nil {
			d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: &o.leftovers[i]})
		}
	}
	if o.isOwnPod() && o.pod.DeletionTimestamp == nil {
		d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: o.pod})
	}
	if o.copy != nil && o.owns(o.copy) && o.copy.DeletionTimestamp == nil {
		d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: o.copy})
	}
	if len(d.steps) > 0 {
		return d
	}
	return o.release(d)
}

// release plans the removal of the finalizer, if there is nothing left to delete.
func (o *observed) release(d decision) decision {
	if controllerutil.ContainsFinalizer(o.request, v1beta1.FinalizerImport) {
		d.steps = []requests.Step{requests.Change(o.request, func(r *v1beta1.VirtualMachineTemplateImport) {
			controllerutil.RemoveFinalizer(r, v1beta1.FinalizerImport)
		})}
	}
	return d
}

// afterwards plans for a completed import: it is deleted after its time to live, and is as ready as its template.
func (o *observed) afterwards() decision {
	d := decision{progress: o.completed()}
	if d = o.release(d); len(d.steps) > 0 || o.request.Spec.TTLSecondsAfterFinished == nil {
		return d
	}
	left := requests.Left(o.request.Status.Conditions, *o.request.Spec.TTLSecondsAfterFinished, o.now)
	if left <= 0 {
		d.steps = []requests.Step{{Verb: requests.Remove, Object: o.request}}
		return d
	}
	d.after = left
	return d
}

// completed is the progress of a completed import.
func (o *observed) completed() progress {
	p := progress{Progress: requests.Progress{State: requests.HasCompleted, Reason: v1beta1.ReasonReconciled, Template: requests.Readiness{Message: "the template was deleted"}}, volumes: o.volumes}
	if o.isOwnTemplate() {
		p.Template = requests.ReadinessOf(o.template)
	}
	return p
}
