package policystatus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/policycounts"
	"github.com/virtward/virtward/policies"
)

const (
	// forgetAfter is the time without failures after which an expression no longer counts.
	forgetAfter = 24 * time.Hour
	// updateAfter is the most that the counts in a status can be behind. They are updated earlier if another expression
	// fails, or if the number of errors doubles. It bounds the writes of policies that always fail.
	updateAfter = 5 * time.Minute
)

// errorKey identifies an error of a policy.
type errorKey struct {
	field  string
	reason policyv1alpha1.PolicyErrorReason
}

func keyOf(e *policyv1alpha1.PolicyEvaluationError) errorKey { return errorKey{e.Field, e.Reason} }

// failures returns the number of evaluation errors, and the first of them. A suspended policy keeps its errors, because it
// is not evaluated.
func failures(e *Evaluations, before *policyv1alpha1.VirtualMachinePolicyStatus, generation int64, suspended bool, now time.Time) (*int64, []policyv1alpha1.PolicyEvaluationError) {
	earlier := before.Errors
	if before.ObservedGeneration != generation {
		before, earlier = &policyv1alpha1.VirtualMachinePolicyStatus{}, nil
	}
	if !e.Known {
		return before.EvaluationErrors, earlier
	}
	merged := map[errorKey]*policyv1alpha1.PolicyEvaluationError{}
	for i := range earlier {
		merged[keyOf(&earlier[i])] = ptr.To(earlier[i])
	}
	for i := range e.Failures {
		merge(merged, e, i)
	}
	var all []policyv1alpha1.PolicyEvaluationError
	total := int64(0)
	for _, one := range merged {
		if suspended || now.Sub(one.Last.Time) < forgetAfter {
			all, total = append(all, *one), total+one.Count
		}
	}
	if len(all) == 0 {
		return ptr.To(int64(0)), nil
	}
	slices.SortFunc(all, func(a, b policyv1alpha1.PolicyEvaluationError) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason))
	})
	all = all[:min(len(all), policyv1alpha1.MaxPolicyErrors)]
	if current(earlier, all, ptr.Deref(before.EvaluationErrors, 0), total, now) {
		return before.EvaluationErrors, earlier
	}
	return &total, all
}

// merge adds a failure. Its count is never smaller than before: neither what this process counted nor what the webhooks
// report since their start includes everything.
func merge(merged map[errorKey]*policyv1alpha1.PolicyEvaluationError, e *Evaluations, i int) {
	f := &e.Failures[i]
	key := errorKey{f.Field, policyv1alpha1.PolicyErrorReason(f.Reason)}
	base := int64(0)
	for j := range e.Base {
		if keyOf(&e.Base[j]) == key {
			base = e.Base[j].Count
		}
	}
	var known policyv1alpha1.PolicyDenials
	if one := merged[key]; one != nil {
		known = policyv1alpha1.PolicyDenials{Count: one.Count, Since: one.Since, Last: one.Last}
	}
	if known = mergeCount(known, base, f); known.Count > 0 {
		merged[key] = &policyv1alpha1.PolicyEvaluationError{Field: key.field, Reason: key.reason, Count: known.Count, Since: known.Since, Last: known.Last}
	}
}

// mergeCount adds what was counted to a count and its times. The zero value is no count.
func mergeCount(known policyv1alpha1.PolicyDenials, base int64, f *policycounts.Failure) policyv1alpha1.PolicyDenials {
	count := max(base+f.Counted, f.Reported)
	first, last := metav1.Unix(f.First, 0).Rfc3339Copy(), metav1.Unix(f.Last, 0).Rfc3339Copy()
	switch {
	case f.Last == 0 && known.Count == 0: // no process that runs has it, so its times are not known
		return known
	case f.Last == 0:
		known.Count = max(known.Count, count)
		return known
	case known.Count == 0:
		return policyv1alpha1.PolicyDenials{Count: count, Since: first, Last: last}
	}
	known.Count = max(known.Count, count)
	if first.Before(&known.Since) {
		known.Since = first
	}
	if known.Last.Before(&last) {
		known.Last = last
	}
	return known
}

// denials returns the requests that the policy denied; nil if there were none in the last 24 hours. The count is updated as those of
// errors.
func denials(e *Evaluations, before *policyv1alpha1.VirtualMachinePolicyStatus, generation int64, now time.Time) *policyv1alpha1.PolicyDenials {
	earlier := before.Denials
	if before.ObservedGeneration != generation {
		earlier = nil
	}
	if !e.Known {
		return earlier
	}
	merged := ptr.Deref(earlier, policyv1alpha1.PolicyDenials{})
	if e.Denials != nil {
		merged = mergeCount(merged, ptr.Deref(e.BaseDenials, policyv1alpha1.PolicyDenials{}).Count, e.Denials)
	}
	switch {
	case merged.Count == 0 || now.Sub(merged.Last.Time) >= forgetAfter:
		return nil
	case earlier != nil && merged.Count < 2*earlier.Count && now.Sub(earlier.Last.Time) < updateAfter && !earlier.Last.After(now):
		return earlier
	}
	return &merged
}

// current reports whether the errors in a status can stay as they are.
func current(before, after []policyv1alpha1.PolicyEvaluationError, total, now int64, at time.Time) bool {
	if len(before) != len(after) || now >= 2*total {
		return false
	}
	keys := map[errorKey]bool{}
	latest := time.Time{}
	for i := range before {
		keys[keyOf(&before[i])] = true
		if before[i].Last.After(latest) {
			latest = before[i].Last.Time
		}
	}
	for i := range after {
		if !keys[keyOf(&after[i])] {
			return false
		}
	}
	return at.Sub(latest) < updateAfter && !latest.After(at)
}

// evaluated is the condition about recent evaluations. What an earlier leader found remains until there is evidence.
func evaluated(c *configcache.Compiled, e *Evaluations, before *policyv1alpha1.VirtualMachinePolicyStatus, errors []policyv1alpha1.PolicyEvaluationError) state {
	succeeded := state{policyv1alpha1.PolicyEvaluated, policyv1alpha1.PolicyReasonNoErrors, "no evaluation failed in the last 24 hours", metav1.ConditionTrue}
	found := meta.FindStatusCondition(before.Conditions, policyv1alpha1.PolicyEvaluated)
	switch {
	case len(errors) > 0:
		failed := make([]string, 0, len(errors))
		for i := range errors {
			failed = append(failed, errors[i].Field+" ("+string(errors[i].Reason)+")")
		}
		slices.Sort(failed)
		return state{
			policyv1alpha1.PolicyEvaluated, policyv1alpha1.PolicyReasonEvaluationErrors,
			"evaluations failed: " + strings.Join(failed, ", ") + ": status.errors has the counts; kubectl virtward explain --from-cluster shows the error for one virtual machine",
			metav1.ConditionFalse,
		}
	case e.Known && e.Read, found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == c.Object.Generation:
		return succeeded
	}
	return state{policyv1alpha1.PolicyEvaluated, policyv1alpha1.PolicyReasonNoCounts, "no webhook has reported its evaluations yet", metav1.ConditionUnknown}
}

// suspension is the condition that suspends a policy. It holds for one generation.
func suspension(c *configcache.Compiled, e *Evaluations, before *policyv1alpha1.VirtualMachinePolicyStatus) state {
	found := meta.FindStatusCondition(before.Conditions, policyv1alpha1.PolicySuspended)
	already := found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == c.Object.Generation
	if policies.CanSuspend(c.Policy.Spec()) && (already || e.Exceeds) {
		return state{
			policyv1alpha1.PolicySuspended, policyv1alpha1.PolicyReasonExceedsLimits,
			"the policy exceeded its limits in most evaluations and is no longer evaluated: make its expressions cheaper; a change of the spec resumes it",
			metav1.ConditionTrue,
		}
	}
	return state{policyv1alpha1.PolicySuspended, policyv1alpha1.PolicyReasonWithinLimits, "the policy is not suspended", metav1.ConditionFalse}
}
