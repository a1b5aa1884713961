package templateexport

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
)

// Limits bound exports.
type Limits struct {
	// Deadline bounds the time until an export is ready.
	Deadline time.Duration
	// TTL is the time that an export stays after it became ready or failed, if it states none, and MaxTTL the longest that it can state.
	TTL, MaxTTL time.Duration
}

// The intervals at which what is not watched is read: a pod that starts, one that measures, and one that serves.
const (
	startInterval   = 2 * time.Second
	measureInterval = 5 * time.Second
	serveInterval   = 15 * time.Second
)

// decision is what a plan says.
type decision struct {
	// steps are applied in their order. Then the next plan follows, after the objects are read again.
	steps []requests.Step
	// serve creates the pod with its objects.
	serve bool
	// progress is the state of the export without the steps.
	progress progress
	// deadline is when the export must be ready.
	deadline time.Time
	// after is when the export is reconciled again without a change; 0 for never.
	after time.Duration
}

// plan decides what comes next.
func (o *observed) plan(limits Limits) decision {
	switch {
	case o.request.DeletionTimestamp != nil: // a finalizer of others can keep it
		return o.cleanUp()
	case o.request.Status.Expires != nil && !o.now.Before(o.request.Status.Expires.Time):
		return decision{steps: []requests.Step{{Verb: requests.Remove, Object: o.request}}, progress: progress{unchanged: true}}
	case isFailed(o.request):
		return o.cleanUp()
	case o.unguarded != "":
		return failed(guarded.Reason, o.unguarded)
	case o.request.Spec.TTL != nil && o.request.Spec.TTL.Duration > limits.MaxTTL:
		return failed(v1beta1.ReasonInvalidConfiguration, fmt.Sprintf("spec.ttl: %s is longer than %s, which an admin permits", o.request.Spec.TTL.Duration, limits.MaxTTL))
	}
	d := o.advance()
	if o.request.Status.Expires != nil { // it was ready
		return d
	}
	d.deadline = o.request.CreationTimestamp.Add(limits.Deadline)
	if d.progress.state == working && !o.now.Before(d.deadline) {
		return failed(v1beta1.ReasonDeadlineExceeded, fmt.Sprintf("it is not ready after %s: %s", limits.Deadline, d.progress.message))
	}
	return d
}

// advance plans the next step of an export that works.
func (o *observed) advance() decision {
	if o.request.Status.FileName == "" {
		return o.begin()
	}
	if o.pod == nil {
		return o.clone()
	}
	switch {
	case !o.isOwnPod():
		return failed(v1beta1.ReasonNameTaken, "Pod "+requests.Named(o.pod)+" exists, and is not of this export")
	case o.pod.DeletionTimestamp != nil:
		return works(v1beta1.ReasonPreparing, "waiting for the deletion of Pod "+requests.Named(o.pod), startInterval)
	case o.isMisled():
		return failed(v1beta1.ReasonVerificationFailed, "Service "+requests.Named(o.service)+" was changed, so clients can have downloaded from another server: create the export again")
	case !o.isComplete(), o.pod.Status.Phase == corev1.PodFailed, o.pod.Status.Phase == corev1.PodSucceeded:
		d := works(v1beta1.ReasonPreparing, "the server is replaced", startInterval)
		d.steps = []requests.Step{{Verb: requests.Remove, Object: o.pod}}
		return d
	case o.server == nil:
		return o.starting()
	}
	return o.served()
}

// begin records what the export clones, or why it exports nothing.
func (o *observed) begin() decision {
	switch {
	case o.template == nil:
		return failed(v1beta1.ReasonTemplateNotFound, "VirtualMachineTemplate "+o.request.Namespace+"/"+o.request.Spec.TemplateRef.Name+" does not exist")
	case o.outcome.Fault != nil:
		return failed(o.outcome.Fault.Reason, o.outcome.Fault.Message)
	}
	d := works(v1beta1.ReasonCloning, fmt.Sprintf("%d volumes are cloned", len(o.outcome.Volumes)), soon)
	d.progress.found = o.outcome
	return d
}

// clone plans from the status with the disks to the pod.
func (o *observed) clone() decision {
	if d, is := o.isSame(); !is {
		return d
	}
	var steps []requests.Step
	var waiting []string
	done := 0
	for i := range o.request.Status.Disks {
		disk, volume := &o.request.Status.Disks[i], o.volumes[i]
		if volume == nil {
			steps = append(steps, requests.Step{Verb: requests.Create, Object: exports.Clone(o.request, disk)})
			continue
		}
		what := "DataVolume " + requests.Named(volume)
		_, message := diskservers.Running(volume)
		switch {
		case !o.owns(volume):
			return failed(v1beta1.ReasonNameTaken, what+" exists, and is not of this export")
		case volume.DeletionTimestamp != nil:
			waiting = append(waiting, "the deletion of "+what)
		case volume.Status.Phase == cdiv1beta1.Succeeded:
			done++
		case volume.Status.Phase == cdiv1beta1.Failed:
			return failed(v1beta1.ReasonCloneFailed, fmt.Sprintf("the volume %s: %s failed%s", disk.Volume, what, requests.Quoted(message)))
		default:
			waiting = append(waiting, what+requests.Quoted(message))
		}
	}
	d := works(v1beta1.ReasonCloning, fmt.Sprintf("%d of %d volumes are cloned", done, len(o.volumes)), 0)
	d.steps = steps
	switch {
	case len(steps) > 0:
	case len(waiting) > 0:
		slices.Sort(waiting)
		d.progress.message += "; waiting for " + waiting[0]
	case len(o.claims) < len(o.volumes):
		d = works(v1beta1.ReasonCloning, "waiting for the claims of the clones", startInterval)
	case o.foreign() != nil:
		return failed(v1beta1.ReasonNameTaken, "PersistentVolumeClaim "+requests.Named(o.foreign())+" exists, and CDI did not create it for this export")
	default:
		d = works(v1beta1.ReasonPreparing, "the server is created", startInterval)
		d.serve = true
	}
	d.progress.volumes = o.volumes
	return d
}

// isSame reports whether the template needs the clones that the export began with.
func (o *observed) isSame() (decision, bool) {
	switch {
	case o.template == nil:
		return failed(v1beta1.ReasonTemplateNotFound, "VirtualMachineTemplate "+o.request.Namespace+"/"+o.request.Spec.TemplateRef.Name+" was deleted"), false
	case o.outcome.Fault != nil:
		return failed(o.outcome.Fault.Reason, o.outcome.Fault.Message), false
	}
	if !slices.EqualFunc(o.outcome.Volumes, o.request.Status.Disks, func(v exports.Volume, d v1beta1.ExportDisk) bool { return v.Name == d.Volume }) {
		return failed(v1beta1.ReasonNotExportable, "the volumes of the template changed during the export: create another one"), false
	}
	return decision{}, true
}

// starting is the state of an export whose pod does not answer.
func (o *observed) starting() decision {
	d := works(v1beta1.ReasonPreparing, "the server starts", startInterval)
	if trouble := diskservers.TroubleOf(o.pod); trouble != "" {
		d.progress.message += "; Pod " + requests.Named(o.pod) + ": " + trouble
	} else if o.silence != nil {
		d.progress.message += requests.Quoted(o.silence.Error())
	}
	return d
}

// served is the state of an export whose pod answers.
func (o *observed) served() decision {
	s := o.server
	if s.Phase == exportserver.PhaseFailed {
		return failed(v1beta1.ReasonExportFailed, strings.TrimSpace(s.Problem.Reason+": "+s.Problem.Message))
	}
	if s.Phase == exportserver.PhaseMeasuring {
		d := works(v1beta1.ReasonMeasuring, "the volumes are read for the first time", measureInterval)
		d.progress.percent = fmt.Sprintf("%.0f%%", 100*float64(s.Done)/float64(max(1, s.All))) // the pod says any numbers
		if s.Problem != nil {
			d.progress.message += requests.Quoted(s.Problem.Message)
		}
		return d
	}
	return decision{after: serveInterval, progress: progress{
		state: ready, reason: v1beta1.ReasonServing, message: "the file can be downloaded", percent: "100%", server: s,
	}}
}

// cleanUp deletes what an export created that failed or is deleted.
func (o *observed) cleanUp() decision {
	d := decision{progress: progress{unchanged: true}}
	if o.pod != nil && o.isOwnPod() && o.pod.DeletionTimestamp == nil {
		d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: o.pod})
	}
	for _, volume := range o.volumes {
		if volume != nil && o.owns(volume) && volume.DeletionTimestamp == nil {
			d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: volume})
		}
	}
	return d
}

// ttl is how long an export stays.
func (l *Limits) ttl(of *v1beta1.VirtualMachineTemplateExport) time.Duration {
	if of.Spec.TTL == nil || of.Spec.TTL.Duration > l.MaxTTL {
		return l.TTL
	}
	return of.Spec.TTL.Duration
}
