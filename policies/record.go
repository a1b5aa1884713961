package policies

import (
	"errors"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/validators"
)

// OrdinaryBytes is the size of an ordinary object, in bytes of JSON. Virtual machines have a few kilobytes. Authors of
// virtual machines can create larger ones to make a policy exceed its units, so an evaluation on these says little about
// the policy.
const OrdinaryBytes = 32 << 10

// Recorder receives the outcomes of the evaluations of one policy. It is called concurrently. It never gets an object, a
// name of an object or the text of an error.
type Recorder interface {
	Record(Outcome)
	// Denied is called for each request that the policy denied, with its time.
	Denied(at time.Time)
}

// Outcome is what one evaluation of a policy reports.
type Outcome struct {
	// At is the time of the evaluation, and Namespace that of the object.
	At        time.Time
	Namespace string
	// Large reports whether the object has more than OrdinaryBytes.
	Large bool
	// Failures are the expressions that failed; empty if the policy was evaluated.
	Failures []Failure
	// Overrun reports whether the policy itself exceeded its units or its memory. It is false if other policies had used
	// most of the shared budget.
	Overrun bool
}

// Failure is an expression without a result.
type Failure struct {
	// Field of the policy: spec.validations[0].expression, or spec for the whole policy.
	Field string
	// Reason is one of ReasonLimit, ReasonFailed, ReasonReferences, ReasonParameters and ReasonSkipped.
	Reason string
}

// FailureReasons returns the values of Failure.Reason.
func FailureReasons() []string {
	return []string{ReasonFailed, ReasonLimit, ReasonParameters, ReasonReferences, ReasonSkipped}
}

// Recorded returns the policy with a Recorder.
func Recorded(p *Policy, recorder Recorder) *Policy {
	with := *p
	with.recorder = recorder
	return &with
}

// CanSuspend reports whether a policy can be suspended: one that denies never is.
func CanSuspend(spec *policyv1alpha1.VirtualMachinePolicySpec) bool {
	return spec.Enforcement == policyv1alpha1.PolicyWarn || spec.Enforcement == policyv1alpha1.PolicyAudit
}

// Suspended reports whether its status suspends a policy as it is. A suspension is for one generation: a change of the
// spec ends it. A policy that denies is never suspended, whatever its status says.
func Suspended(policy *policyv1alpha1.VirtualMachinePolicy) bool {
	found := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.PolicySuspended)
	return CanSuspend(&policy.Spec) && found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == policy.Generation
}

// hasShare reports whether a policy begins with its share of the common budget, so that an overrun is its own.
func hasShare(spare *cel.Budget) bool {
	return spare.Left() >= spareLimit/2 && spare.Memory() >= spareMemory/2
}

// record reports an evaluation of the policy. own reports whether it began with its share of the budget.
func (p *Policy) record(s *subject, own bool, failures ...Failure) {
	if p.recorder == nil {
		return
	}
	outcome := Outcome{At: s.now, Namespace: s.namespace, Large: s.documents.Large, Failures: failures}
	for i := range failures {
		if failures[i].Reason != ReasonLimit {
			continue
		}
		if own {
			outcome.Overrun = true
		} else {
			failures[i].Reason = ReasonSkipped
		}
	}
	p.recorder.Record(outcome)
}

// Denied reports the policies that denied a request at a time, of its findings. Each policy counts once.
func (s *Set) Denied(at time.Time, findings []validators.Finding) {
	seen := map[string]bool{}
	for i := range findings {
		f := &findings[i]
		name, ofPolicy := strings.CutPrefix(f.Rule, RulePrefix)
		if !ofPolicy || seen[name] || f.Severity != validators.Deny || f.Exempted != nil || IsSkipped(f) {
			continue
		}
		seen[name] = true
		if p := s.Find(name); p != nil && p.recorder != nil {
			p.recorder.Denied(at)
		}
	}
}

// recordErrors reports an evaluation with errors; without any, the policy was evaluated.
func (p *Policy) recordErrors(s *subject, own bool, errs []EvaluationError) {
	if gone := s.documents.Gone; p.recorder == nil || gone != nil && gone() { // a request that was canceled says nothing
		return
	}
	var failures []Failure
	for i := range errs {
		if !errors.Is(errs[i].Err, cel.ErrReferenceNotGiven) { // the policy was not evaluated
			failures = append(failures, Failure{errs[i].Field, reasonOf(errs[i].Err)})
		}
	}
	p.record(s, own, failures...)
}
