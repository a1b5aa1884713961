package capture

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates/capture"
	"github.com/virtward/virtward/texts"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-templates"

// maxMessage bounds the messages of conditions, in bytes.
const maxMessage = 1024

// state is the state of a capture.
type state int

const (
	isWorking state = iota
	hasFailed
	hasCompleted
)

// progress is the state of a request, as its conditions say it.
type progress struct {
	state state
	// reason is that of Progressing while the capture works, and why it failed afterwards.
	reason, message string
	// template is whether the template is ready.
	template readiness
}

// readiness is that of a template.
type readiness struct {
	ready   bool
	message string
}

func working(reason, message string) progress {
	return progress{state: isWorking, reason: reason, message: texts.Shorten(message, maxMessage)}
}

func failed(reason, message string) decision {
	return decision{progress: progress{state: hasFailed, reason: reason, message: texts.Shorten(message, maxMessage)}}
}

// conditions returns the conditions of a progress.
func (p *progress) conditions() []metav1.Condition {
	condition := func(kind string, status bool, reason, message string) metav1.Condition {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if status {
			c.Status = metav1.ConditionTrue
		}
		return c
	}
	switch p.state {
	case hasFailed:
		return []metav1.Condition{
			condition(v1beta1.RequestProgressing, false, p.reason, ""),
			condition(v1beta1.RequestCompleted, false, p.reason, p.message),
			condition(v1beta1.RequestReady, false, p.reason, p.message),
		}
	case hasCompleted:
		ready := v1beta1.ReasonWaiting
		if p.template.ready {
			ready = v1beta1.ReasonReconciled
		}
		return []metav1.Condition{
			condition(v1beta1.RequestProgressing, false, v1beta1.ReasonReconciled, ""),
			condition(v1beta1.RequestCompleted, true, v1beta1.ReasonReconciled, firstOf(p.message, "the template is created")),
			condition(v1beta1.RequestReady, p.template.ready, ready, p.template.message),
		}
	}
	waiting := v1beta1.ReasonWaiting
	if p.reason == v1beta1.ReasonBlocked {
		waiting = v1beta1.ReasonBlocked
	}
	return []metav1.Condition{
		condition(v1beta1.RequestProgressing, true, p.reason, p.message),
		condition(v1beta1.RequestCompleted, false, waiting, p.message),
		condition(v1beta1.RequestReady, false, waiting, p.message),
	}
}

// progressOf reads the progress of a request from its status.
func progressOf(request *v1beta1.VirtualMachineTemplateRequest) progress {
	c := meta.FindStatusCondition(request.Status.Conditions, v1beta1.RequestCompleted)
	switch {
	case c == nil:
		return progress{}
	case isFailed(request):
		return progress{state: hasFailed, reason: c.Reason, message: c.Message}
	}
	return progress{reason: c.Reason, message: c.Message}
}

func isFailed(request *v1beta1.VirtualMachineTemplateRequest) bool {
	return meta.IsStatusConditionFalse(request.Status.Conditions, v1beta1.RequestCompleted) &&
		meta.IsStatusConditionFalse(request.Status.Conditions, v1beta1.RequestProgressing)
}

func isCompleted(request *v1beta1.VirtualMachineTemplateRequest) bool {
	return meta.IsStatusConditionTrue(request.Status.Conditions, v1beta1.RequestCompleted)
}

// isTemplateReady reports whether a request says that its template is ready.
func isTemplateReady(request *v1beta1.VirtualMachineTemplateRequest) bool {
	return meta.IsStatusConditionTrue(request.Status.Conditions, v1beta1.RequestReady)
}

func completedAt(request *v1beta1.VirtualMachineTemplateRequest) time.Time {
	if c := meta.FindStatusCondition(request.Status.Conditions, v1beta1.RequestCompleted); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// readinessOf reads the condition Ready of a template.
func readinessOf(template *v1beta1.VirtualMachineTemplate) readiness {
	c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateReady)
	if c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration != template.Generation {
		return readiness{message: "the template is not validated yet"}
	}
	if c.Status == metav1.ConditionTrue {
		return readiness{ready: true, message: "the template is ready"}
	}
	return readiness{message: "the template is not ready: " + texts.Shorten(c.Message, maxQuoted)}
}

// statusOf returns the status of a request.
func statusOf(request *v1beta1.VirtualMachineTemplateRequest, p *progress, hasTemplate bool, now time.Time) *v1beta1.VirtualMachineTemplateRequestStatus {
	status := request.Status.DeepCopy()
	status.TemplateRef = nil
	if hasTemplate {
		status.TemplateRef = &v1beta1.TemplateReference{Name: capture.TemplateName(request)}
	}
	for _, c := range p.conditions() {
		c.ObservedGeneration, c.LastTransitionTime = request.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// applyStatus writes the status if it changed, and then creates an event if the state changed.
func (r *Reconciler) applyStatus(ctx context.Context, o *observed, p *progress) error {
	request := o.request
	status := statusOf(request, p, o.isOwnTemplate(), o.now)
	if equality.Semantic.DeepEqual(*status, request.Status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	object.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("VirtualMachineTemplateRequest"))
	object.SetNamespace(request.Namespace)
	object.SetName(request.Name)
	object.SetUID(request.UID)
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(Owner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying the status: %w", err)
	}
	before := request.DeepCopy()
	request.Status = *status
	r.transition(before, p, o)
	return nil
}
