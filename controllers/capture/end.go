package capture

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates/capture"
)

// abandon plans the end of a request that is being deleted. A template that owns all clones stays.
func (o *observed) abandon() decision {
	if o.isOwnedByTemplate() {
		d := decision{}
		if o.snapshot != nil && o.isOwnSnapshot() && o.snapshot.DeletionTimestamp == nil {
			d.steps = []step{{verb: remove, object: o.snapshot}}
			return d
		}
		return o.release(d)
	}
	return o.cleanUp()
}

// cleanUp plans the deletion of everything that the capture created.
func (o *observed) cleanUp() decision {
	d := decision{progress: progressOf(o.request)}
	if o.isOwnTemplate() && o.template.DeletionTimestamp == nil {
		d.steps = append(d.steps, step{verb: remove, object: o.template})
	}
	for i := range o.leftovers {
		if o.leftovers[i].DeletionTimestamp == nil {
			d.steps = append(d.steps, step{verb: remove, object: &o.leftovers[i]})
		}
	}
	if o.snapshot != nil && o.isOwnSnapshot() && o.snapshot.DeletionTimestamp == nil {
		d.steps = append(d.steps, step{verb: remove, object: o.snapshot})
	}
	if len(d.steps) > 0 {
		return d
	}
	return o.release(d)
}

// release plans the removal of the finalizer, if there is nothing left to delete.
func (o *observed) release(d decision) decision {
	if controllerutil.ContainsFinalizer(o.request, v1beta1.FinalizerSnapshotCleanup) {
		d.steps = []step{change(o.request, func(r *v1beta1.VirtualMachineTemplateRequest) {
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
	left := completedAt(o.request).Add(time.Duration(*o.request.Spec.TTLSecondsAfterFinished) * time.Second).Sub(o.now)
	if left <= 0 {
		d.steps = []step{{verb: remove, object: o.request}}
		return d
	}
	d.after = left
	return d
}

// completed is the progress of a completed request.
func (o *observed) completed() progress {
	p := progress{state: hasCompleted, reason: v1beta1.ReasonReconciled, template: readiness{message: "the template was deleted"}}
	if o.isOwnTemplate() {
		p.template, p.message = readinessOf(o.template), capture.Warning(&o.template.Spec)
	}
	return p
}
