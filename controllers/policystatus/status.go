package policystatus

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/virtward/virtward/api/conditions"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/policycounts"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// Counted has the counts of an audit.
type Counted struct {
	// Violations are the numbers of objects that violate each auditable policy, by name.
	Violations map[string]int
	// At is the time of the audit; zero if there was none.
	At time.Time
}

// Evaluations has the counts of the evaluations of a policy.
type Evaluations struct {
	policycounts.Count

	// Known reports whether counts were read since this process leads, and Read whether a webhook has been read.
	Known, Read bool
	// Base are the errors in the status when this process began to count, and BaseDenials the denials.
	Base        []policyv1alpha1.PolicyEvaluationError
	BaseDenials *policyv1alpha1.PolicyDenials
}

// stale is the most that the time of the last audit in a status can be behind while the count does not change.
const stale = 10 * time.Minute

// written are the conditions that this controller writes.
var written = []string{policyv1alpha1.PolicyCompiled, policyv1alpha1.PolicyReady, policyv1alpha1.PolicyEvaluated, policyv1alpha1.PolicySuspended}

// Plan returns the status of a policy, given the current one. It is pure.
func Plan(c *configcache.Compiled, counted Counted, evaluations Evaluations, before *policyv1alpha1.VirtualMachinePolicyStatus, now time.Time) *policyv1alpha1.VirtualMachinePolicyStatus {
	s := &policyv1alpha1.VirtualMachinePolicyStatus{ObservedGeneration: c.Object.Generation}
	for _, kind := range written {
		if found := meta.FindStatusCondition(before.Conditions, kind); found != nil {
			s.Conditions = append(s.Conditions, *found)
		}
	}
	suspended := suspension(c, &evaluations, before)
	suspends := suspended.status == metav1.ConditionTrue
	s.EvaluationErrors, s.Errors = failures(&evaluations, before, c.Object.Generation, suspends, now)
	s.Denials = denials(&evaluations, before, c.Object.Generation, now)
	for _, state := range []state{compiled(c), ready(c, suspends), evaluated(c, &evaluations, before, s.Errors), suspended} {
		conditions.Set(&s.Conditions, state.condition(), c.Object.Generation, metav1.NewTime(now))
	}
	s.Problems = problems(c, now)
	if cost := c.Policy.EstimatedCost(); cost > 0 {
		s.EstimatedCost = ptr.To(int64(min(cost, math.MaxInt64)))
	}
	if c.Policy.Spec().Enforcement != policyv1alpha1.PolicyAudit && !suspends { // Audit denies nothing
		s.EnforcedBy = []policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByWebhook}
	}
	why := c.Policy.Unauditable()
	s.Auditable = ptr.To(len(why) == 0)
	for _, reason := range why[:min(len(why), maxReasons)] {
		s.NotAuditable = append(s.NotAuditable, texts.Shorten(reason, maxReason))
	}
	if !suspends { // the audit does not evaluate it
		s.Violations, s.LastAudit = count(c, counted, before)
	}
	return s
}

// maxReasons bounds the reasons why a policy cannot be audited, and maxReason the length of each, as in the definition.
const maxReasons, maxReason = 16, 1024

// state is a condition without its time.
type state struct {
	kind, reason, message string
	status                metav1.ConditionStatus
}

func (s state) condition() metav1.Condition {
	return metav1.Condition{Type: s.kind, Status: s.status, Reason: s.reason, Message: s.message}
}

func compiled(c *configcache.Compiled) state {
	if diagnostics.Broken(c.Problems) && c.Policy.NotEnabled() == "" {
		return state{policyv1alpha1.PolicyCompiled, policyv1alpha1.PolicyReasonCompileFailed, diagnostics.Summary(diagnostics.Public(c.Problems)), metav1.ConditionFalse}
	}
	return state{policyv1alpha1.PolicyCompiled, policyv1alpha1.PolicyReasonCompiled, "the policy is valid", metav1.ConditionTrue}
}

func ready(c *configcache.Compiled, suspended bool) state {
	s := state{kind: policyv1alpha1.PolicyReady, status: metav1.ConditionFalse}
	missing := c.Policy.ParamsMissing()
	switch {
	case c.Policy.NotEnabled() != "":
		s.reason, s.message = policyv1alpha1.PolicyReasonReferencesNotEnabled, c.Policy.NotEnabled()+": "+onError(c)
	case diagnostics.Broken(c.Problems):
		s.reason, s.message = policyv1alpha1.PolicyReasonCompileFailed, "the policy cannot be evaluated: "+onError(c)
	case missing != "":
		s.reason, s.message = policyv1alpha1.PolicyReasonParamsMissing, missing+": "+withoutParams(c)
	case suspended:
		s.reason, s.message = policyv1alpha1.PolicyReasonSuspended, "the policy is not evaluated: see the condition Suspended"
	default:
		s.status, s.reason, s.message = metav1.ConditionTrue, policyv1alpha1.PolicyReasonReady, "the policy is active"
	}
	return s
}

// onError returns what happens to matching requests if the policy cannot be evaluated.
func onError(c *configcache.Compiled) string {
	spec := c.Policy.Spec()
	switch {
	case spec.Enforcement == policyv1alpha1.PolicyAudit:
		return "it reports no violations"
	case spec.Enforcement == policyv1alpha1.PolicyDeny && spec.FailurePolicy != policyv1alpha1.PolicyIgnore:
		return "every matching request is denied (failurePolicy: Fail)"
	}
	return "every matching request gets a warning"
}

func withoutParams(c *configcache.Compiled) string {
	if p := c.Policy.Spec().Params; p != nil && p.ParameterNotFoundAction == policyv1alpha1.PolicyParameterAllow {
		return "the policy is skipped (parameterNotFoundAction: Allow)"
	}
	return onError(c)
}

// problems returns the problems of compiling the policy, and its expired exceptions. They have no values of a ConfigMap: others read
// statuses than ConfigMaps.
func problems(c *configcache.Compiled, now time.Time) []policyv1alpha1.PolicyProblem {
	all := diagnostics.Public(c.Problems)
	exceptions := c.Policy.Spec().Exceptions
	for _, i := range c.Policy.Expired(now) {
		all = append(all, diagnostics.Problem{
			Field: field.NewPath("spec", "exceptions").Index(i).Child("expires").String(), Warning: true,
			Message: fmt.Sprintf("the exception expired at %s: remove it", exceptions[i].Expires.UTC().Format(time.RFC3339)),
		})
	}
	diagnostics.SortBySeverity(all)
	var first []policyv1alpha1.PolicyProblem
	for _, p := range all[:min(len(all), policyv1alpha1.MaxPolicyProblems)] {
		first = append(first, p.Status())
	}
	return first
}

// count returns the number of objects that violate the policy, and the time of the audit. Before the first audit, the
// status stays. While the count does not change, its time is updated only if it is stale.
func count(c *configcache.Compiled, counted Counted, before *policyv1alpha1.VirtualMachinePolicyStatus) (*int64, *metav1.Time) {
	if counted.At.IsZero() {
		return before.Violations, before.LastAudit
	}
	n, audited := counted.Violations[c.Object.Name]
	if !audited {
		if len(c.Policy.Unauditable()) > 0 {
			return nil, nil
		}
		return before.Violations, before.LastAudit // it is newer than the audit
	}
	at := metav1.NewTime(counted.At).Rfc3339Copy()
	if before.Violations != nil && *before.Violations == int64(n) && before.LastAudit != nil &&
		at.Sub(before.LastAudit.Time) < stale && !at.Before(before.LastAudit) {
		return before.Violations, before.LastAudit
	}
	return ptr.To(int64(n)), &at
}
