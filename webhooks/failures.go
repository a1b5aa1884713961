package webhooks

import (
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/memory"
)

// failure is why a request is not evaluated.
type failure struct {
	code   int32
	reason metav1.StatusReason
	// retry tells clients to send the request again.
	retry   bool
	message string
	verdict string
}

func (r *failure) Error() string { return r.message }

// response returns a response that denies.
func (r *failure) response() *admissionv1.AdmissionResponse { return r.denial("check") }

// denial returns a response that denies. what is what Virtward did not do: check, or complete.
func (r *failure) denial(what string) *admissionv1.AdmissionResponse {
	status := &metav1.Status{Status: metav1.StatusFailure, Code: r.code, Reason: r.reason, Message: "virtward cannot " + what + " this object: " + r.message}
	if r.retry {
		status.Message = "virtward could not " + what + " this object, try again: " + r.message
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	}
	return &admissionv1.AdmissionResponse{Result: status}
}

// busy denies a request for which there is no memory or no time. kubectl and client-go send it again by themselves.
func busy(err error) *failure {
	return &failure{code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, retry: true, message: err.Error(), verdict: verdictBusy}
}

// unavailable denies a request that cannot be evaluated now.
func unavailable(err error) *failure {
	return &failure{code: http.StatusServiceUnavailable, reason: metav1.StatusReasonServiceUnavailable, retry: true, message: err.Error(), verdict: verdictFailed}
}

// malformed rejects a body that is not an AdmissionReview.
func malformed(err error) *failure {
	return &failure{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: err.Error(), verdict: verdictMalformed}
}

// tooLarge rejects a body above the limit.
func tooLarge() *failure {
	return &failure{
		code: http.StatusRequestEntityTooLarge, reason: metav1.StatusReasonRequestEntityTooLarge, verdict: verdictMalformed,
		message: fmt.Sprintf("its review has more than %d bytes", maxReview),
	}
}

// errPanic is the error of an evaluation that panics.
var errPanic = errors.New("virtward failed on this request: see its log")

// unevaluated denies a request that is not evaluated. Changes of the KubeVirt resource are never denied.
func (v *Validator) unevaluated(head *admissionv1.AdmissionRequest, why *failure) *admissionv1.AdmissionResponse {
	if groupKind(head) == kubeVirtKind {
		return admitted("check", why)
	}
	return why.response()
}

// unevaluatedDeletion denies a deletion, or a change of owners, that is not evaluated, if a policy denies deletions that it
// cannot evaluate.
func (v *Validator) unevaluatedDeletion(head *admissionv1.AdmissionRequest, why *failure) *admissionv1.AdmissionResponse {
	if !v.Evaluator.DeniesUnevaluated(policyv1alpha1.PolicyKind(head.Kind.Kind)) {
		return admitted("check", why)
	}
	return why.response()
}

// unevaluated admits a request that is not completed. It denies one that would be denied later in any case, with an error about the
// object instead of the cause: clients send it again.
func (m *Mutator) unevaluated(head *admissionv1.AdmissionRequest, why *failure) *admissionv1.AdmissionResponse {
	if why.retry && (required(head) || why.verdict == verdictBusy && m.copied(head)) {
		return why.denial("complete")
	}
	return admitted("complete", why)
}

// required reports whether a request is denied later if the Mutator does not change it: an instance without its defaults by the
// Validator, and a rollout or an exception without its author by a guard.
func required(head *admissionv1.AdmissionRequest) bool {
	creates := head.Operation == admissionv1.Create
	switch groupKind(head) {
	case evaluator.VirtualMachineInstance:
		return creates && head.SubResource == ""
	case rolloutKind, exceptionKind:
		return (creates || head.Operation == admissionv1.Update) && head.SubResource == ""
	}
	return false
}

// copied reports whether KubeVirt creates a virtual machine. A guard denies it if the Mutator does not remove the annotations of a
// template from it.
func (m *Mutator) copied(head *admissionv1.AdmissionRequest) bool {
	if groupKind(head) != evaluator.VirtualMachine || head.Operation != admissionv1.Create || head.SubResource != "" {
		return false
	}
	facts := m.Evaluator.Facts.Facts()
	return facts != nil && facts.ByKubeVirt(head.UserInfo.Username)
}

// failureOf returns why a request cannot be evaluated now.
func failureOf(err error) *failure {
	if errors.Is(err, memory.ErrBusy) || errors.Is(err, errTooLate) {
		return busy(err)
	}
	return unavailable(err)
}

// admitted returns a response that admits, with a warning of what Virtward did not do.
func admitted(what string, why *failure) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{shortened("virtward did not " + what + " this object: " + why.message)}}
}
