package capture

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/templates/capture"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-templates"

func failed(reason, message string) decision {
	return decision{progress: requests.Failed(reason, message)}
}

// statusOf returns the status of a request.
func statusOf(request *v1beta1.VirtualMachineTemplateRequest, p *requests.Progress, hasTemplate bool, now time.Time) *v1beta1.VirtualMachineTemplateRequestStatus {
	status := request.Status.DeepCopy()
	status.TemplateRef = nil
	if hasTemplate {
		status.TemplateRef = &v1beta1.TemplateReference{Name: capture.TemplateName(request)}
	}
	for _, c := range p.Conditions() {
		conditions.Set(&status.Conditions, c, request.Generation, metav1.NewTime(now))
	}
	return status
}

// kept is the status of a request: its conditions decide what follows, such as the clean-up of a capture that failed.
type kept = statuses.Memory[*v1beta1.VirtualMachineTemplateRequest, v1beta1.VirtualMachineTemplateRequestStatus]

// remembers writes the status if it changed. The error is Conflict if the request changed after it was read.
func (r *Reconciler) remembers(ctx context.Context, o *observed, p *requests.Progress) error {
	var told []events.Event
	_, err := r.kept.Write(ctx, o.request, statusOf(o.request, p, o.isOwnTemplate(), o.now), func(before, after *v1beta1.VirtualMachineTemplateRequestStatus) []events.Event {
		told = transition(before, after, p, o)
		return told
	})
	if len(told) > 0 && p.State != requests.IsWorking {
		r.Metrics.ended(p.Reason)
	}
	return err
}
