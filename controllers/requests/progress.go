package requests

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

const (
	// MaxMessage bounds the messages of conditions, in bytes.
	MaxMessage = 1024
	// MaxQuoted bounds messages of others within messages, in bytes.
	MaxQuoted = 256
)

// Quoted is a message of others, to append to one of Virtward.
func Quoted(message string) string {
	if message == "" {
		return ""
	}
	return ": " + texts.Shorten(message, MaxQuoted)
}

// State is the state of a request.
type State int

// The states.
const (
	IsWorking State = iota
	HasFailed
	HasCompleted
)

// Progress is the state of a request, as its conditions say it.
type Progress struct {
	State State
	// Reason is that of Progressing while the controller works, and why the request failed afterwards.
	Reason, Message string
	// Template is whether the template is ready.
	Template Readiness
}

// Readiness is that of a template.
type Readiness struct {
	Ready   bool
	Message string
}

// Working is the progress of a request that the controller works on.
func Working(reason, message string) Progress {
	return Progress{State: IsWorking, Reason: reason, Message: texts.Shorten(message, MaxMessage)}
}

// Failed is the progress of a request that failed.
func Failed(reason, message string) Progress {
	return Progress{State: HasFailed, Reason: reason, Message: texts.Shorten(message, MaxMessage)}
}

// ProgressOf reads the progress of a request that is not completed from its conditions.
func ProgressOf(conditions []metav1.Condition) Progress {
	c := meta.FindStatusCondition(conditions, v1beta1.RequestCompleted)
	switch {
	case c == nil:
		return Progress{}
	case IsFailed(conditions):
		return Progress{State: HasFailed, Reason: c.Reason, Message: c.Message}
	}
	return Progress{Reason: c.Reason, Message: c.Message}
}

// Conditions returns the conditions of a progress.
func (p *Progress) Conditions() []metav1.Condition {
	condition := func(kind string, status bool, reason, message string) metav1.Condition {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if status {
			c.Status = metav1.ConditionTrue
		}
		return c
	}
	switch p.State {
	case HasFailed:
		return []metav1.Condition{
			condition(v1beta1.RequestProgressing, false, p.Reason, ""),
			condition(v1beta1.RequestCompleted, false, p.Reason, p.Message),
			condition(v1beta1.RequestReady, false, p.Reason, p.Message),
		}
	case HasCompleted:
		ready := v1beta1.ReasonWaiting
		if p.Template.Ready {
			ready = v1beta1.ReasonReconciled
		}
		return []metav1.Condition{
			condition(v1beta1.RequestProgressing, false, v1beta1.ReasonReconciled, ""),
			condition(v1beta1.RequestCompleted, true, v1beta1.ReasonReconciled, cmp.Or(p.Message, "the template is created")),
			condition(v1beta1.RequestReady, p.Template.Ready, ready, p.Template.Message),
		}
	}
	waiting := v1beta1.ReasonWaiting
	switch p.Reason {
	case v1beta1.ReasonBlocked, v1beta1.ReasonQuotaExceeded, v1beta1.ReasonSourceUnavailable: // others must act
		waiting = p.Reason
	}
	return []metav1.Condition{
		condition(v1beta1.RequestProgressing, true, p.Reason, p.Message),
		condition(v1beta1.RequestCompleted, false, waiting, p.Message),
		condition(v1beta1.RequestReady, false, waiting, p.Message),
	}
}

// IsFailed reports whether a request failed.
func IsFailed(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionFalse(conditions, v1beta1.RequestCompleted) && meta.IsStatusConditionFalse(conditions, v1beta1.RequestProgressing)
}

// IsCompleted reports whether a request is completed.
func IsCompleted(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1beta1.RequestCompleted)
}

// IsTemplateReady reports whether a request says that its template is ready.
func IsTemplateReady(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1beta1.RequestReady)
}

// Left is the time that a completed request is kept; 0 or less if it has expired. ttl is in seconds.
func Left(conditions []metav1.Condition, ttl int32, now time.Time) time.Duration {
	completed := time.Time{}
	if c := meta.FindStatusCondition(conditions, v1beta1.RequestCompleted); c != nil {
		completed = c.LastTransitionTime.Time
	}
	return completed.Add(time.Duration(ttl) * time.Second).Sub(now)
}

// Changed reports whether the conditions after a status show another step than those before it.
func Changed(before, after []metav1.Condition) bool {
	was, is := meta.FindStatusCondition(before, v1beta1.RequestProgressing), meta.FindStatusCondition(after, v1beta1.RequestProgressing)
	return was == nil || was.Status != is.Status || was.Reason != is.Reason
}

// ReadinessOf reads the condition Ready of a template.
func ReadinessOf(template *v1beta1.VirtualMachineTemplate) Readiness {
	c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateReady)
	if c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration != template.Generation {
		return Readiness{Message: "the template is not validated yet"}
	}
	if c.Status == metav1.ConditionTrue {
		return Readiness{Ready: true, Message: "the template is ready"}
	}
	return Readiness{Message: "the template is not ready: " + texts.Shorten(c.Message, MaxQuoted)}
}
