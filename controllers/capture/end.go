package capture

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/templates/capture"
)

// abandon plans the end of a request that is being deleted. A template that owns all clones stays.
func (o *observed) abandon() decision {
	if o.isOwnedByTemplate() {
		d := decision{}
		if o.snapshot != nil && o.isOwnSnapshot() && o.snapshot.DeletionTimestamp == nil {
			d.steps = []requests.Step{{Verb: requests.Remove, Object: o.snapshot}}
			return d
		}
		return o.release(d)
	}
	return o.cleanUp()
}

// cleanUp plans the deletion of everything that the capture created.
func (o *observed) cleanUp() decision {
	d := decision{progress: requests.ProgressOf(o.request.Status.Conditions)}
	if o.isOwnTemplate() && o.template.DeletionTimestamp == nil {
		d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: o.template})
	}
	for i := range o.leftovers {
		if o.leftovers[i].DeletionTimestamp == nil {
			d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: &o.leftovers[i]})
		}
	}
	if o.snapshot != nil && o.isOwnSnapshot() && o.snapshot.DeletionTimestamp == nil {
		d.steps = append(d.steps, requests.Step{Verb: requests.Remove, Object: o.snapshot})
	}
	if len(d.steps) > 0 {
		return d
	}
	return o.release(d)
}

// release plans the removal of the finalizer, if there is nothing left to delete.
func (o *observed) release(d decision) decision {
	if controllerutil.ContainsFinalizer(o.request, v1beta1.FinalizerSnapshotCleanup) {
		d.steps = []requests.Step{requests.Change(o.request, func(r *v1beta1.VirtualMachineTemplateRequest) {
			controllerutil.RemoveFinalizer(r, v1beta1.FinalizerSnapshotCleanup)
		})}
	}
	return d
}

// afterwards plans for a completed request: it is deleted after its time to live, and is as ready as its template.
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

// completed is the progress of a completed request.
func (o *observed) completed() requests.Progress {
	p := requests.Progress{State: requests.HasCompleted, Reason: v1beta1.ReasonReconciled, Template: requests.Readiness{Message: "the template was deleted"}}
	if o.isOwnTemplate() {
		p.Template, p.Message = requests.ReadinessOf(o.template), capture.Warning(&o.template.Spec)
	}
	return p
}
