package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
)

// mostShown bounds the policies that are listed because they deny, and the exceptions that end.
const mostShown = 5

// readPolicies returns all policies.
func (c *cluster) readPolicies(ctx context.Context) ([]policyv1alpha1.VirtualMachinePolicy, error) {
	objects, err := c.list(ctx, policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies"), "", "")
	if err != nil {
		return nil, err
	}
	all := make([]policyv1alpha1.VirtualMachinePolicy, len(objects))
	for i := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &all[i]); err != nil {
			return nil, fmt.Errorf("cannot read VirtualMachinePolicy %s: %w", objects[i].GetName(), err)
		}
	}
	return all, nil
}

// policies reports the policies that are not active, or fail. One that denies then is an error: it denies what it should not.
func (c *cluster) policies(ctx context.Context) []Result {
	all, err := c.readPolicies(ctx)
	if err != nil {
		return []Result{unknown("VirtualMachinePolicies", err)}
	}
	fine := 0
	var results []Result
	slices.SortStableFunc(all, func(a, b policyv1alpha1.VirtualMachinePolicy) int { // those that fail most first
		return cmp.Or(cmp.Compare(errorsOf(&b), errorsOf(&a)), strings.Compare(a.Name, b.Name))
	})
	for i := range all {
		if r := c.policy(&all[i]); r.State == OK {
			fine++
		} else {
			results = append(results, r)
		}
	}
	if fine == len(all) {
		return []Result{{Subject: "VirtualMachinePolicies", State: OK, Message: texts.Count(fine, "policy is", "policies are") + " active, and none failed in the last 24 hours"}}
	}
	return results
}

func errorsOf(p *policyv1alpha1.VirtualMachinePolicy) int64 {
	if p.Status.EvaluationErrors == nil {
		return 0
	}
	return *p.Status.EvaluationErrors
}

// policy reports whether one policy is active and does not fail.
func (c *cluster) policy(p *policyv1alpha1.VirtualMachinePolicy) Result {
	r := Result{Subject: p.Name, State: OK}
	broken := Warning
	if p.Spec.Enforcement == policyv1alpha1.PolicyDeny && p.Spec.FailurePolicy != policyv1alpha1.PolicyIgnore {
		broken = Error
	}
	ready := meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyReady)
	failing := meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.PolicyEvaluated)
	switch {
	case ready == nil || p.Status.ObservedGeneration != p.Generation:
		if c.now.Sub(changedAt(p)) > statusLate {
			r.State, r.Message, r.Remedy = Warning, "it has no status of its last change", "check whether the process "+processes.Controller+" is ready"
		}
	case ready.Status == metav1.ConditionFalse:
		r.State, r.Message, r.Remedy = broken, ready.Reason+": "+ready.Message, "kubectl describe vmpol "+p.Name
	case failing != nil && failing.Status == metav1.ConditionFalse:
		r.State, r.Message = broken, texts.Count(int(errorsOf(p)), "evaluation failed", "evaluations failed")+": "+failures(p)
		if broken == Error {
			r.Message += "; the policy denies these requests"
		}
		r.Remedy = fmt.Sprintf("%s policy lint finds the usual causes; %s explain -f vm.yaml --from-cluster shows the error for one virtual machine", c.program, c.program)
	}
	return r
}

// statusLate is the time after which a policy must have a status.
const statusLate = 2 * time.Minute

// changedAt returns the time of the last change of an object that a field manager recorded, or that of its creation.
func changedAt(p *policyv1alpha1.VirtualMachinePolicy) time.Time {
	last := p.CreationTimestamp.Time
	for i := range p.ManagedFields {
		if at := p.ManagedFields[i].Time; at != nil && p.ManagedFields[i].Subresource == "" && at.After(last) {
			last = at.Time
		}
	}
	return last
}

// failures returns the expressions of a policy that failed.
func failures(p *policyv1alpha1.VirtualMachinePolicy) string {
	failed := make([]string, 0, len(p.Status.Errors))
	for i := range p.Status.Errors {
		e := &p.Status.Errors[i]
		failed = append(failed, fmt.Sprintf("%s (%s) %d, the last at %s", e.Field, e.Reason, e.Count, e.Last.UTC().Format(time.RFC3339)))
	}
	return strings.Join(failed, "; ")
}

// denials lists the policies that denied most requests.
func (c *cluster) denials(ctx context.Context) []Result {
	all, err := c.readPolicies(ctx)
	if err != nil {
		return nil // the check policies reports it
	}
	all = slices.DeleteFunc(all, func(p policyv1alpha1.VirtualMachinePolicy) bool { return p.Status.Denials == nil })
	slices.SortStableFunc(all, func(a, b policyv1alpha1.VirtualMachinePolicy) int {
		return cmp.Or(cmp.Compare(b.Status.Denials.Count, a.Status.Denials.Count), strings.Compare(a.Name, b.Name))
	})
	var results []Result
	for i := range all[:min(len(all), mostShown)] {
		d := all[i].Status.Denials
		results = append(results, Result{
			Subject: all[i].Name, State: OK,
			Message: fmt.Sprintf("%s since %s, the last at %s", texts.Count(int(d.Count), "request denied", "requests denied"), d.Since.UTC().Format(time.RFC3339), d.Last.UTC().Format(time.RFC3339)),
		})
	}
	return results
}

// exceptions reports the exceptions that end soon, and those without an effect.
func (c *cluster) exceptions(ctx context.Context) []Result {
	results := c.ownExceptions(ctx)
	objects, err := c.list(ctx, policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicyexceptions"), "", "")
	switch {
	case err != nil && absent(err):
		return results // the values of the chart leave them out
	case err != nil:
		return append(results, unknown("VirtualMachinePolicyExceptions", err))
	}
	counts := map[string]int{}
	var ending []Result
	for i := range objects {
		_, reason, message := condition(&objects[i], policyv1alpha1.ExceptionActive)
		counts[reason]++
		r := Result{Subject: objects[i].GetNamespace() + "/" + objects[i].GetName(), State: Warning, Message: message}
		switch reason {
		case policyv1alpha1.ExceptionReasonExpiring:
			r.Remedy = "change the virtual machines, or create another exception"
		case policyv1alpha1.ExceptionReasonNotPermitted, policyv1alpha1.ExceptionReasonTooLong, policyv1alpha1.ExceptionReasonTooMany, policyv1alpha1.ExceptionReasonInvalid:
			r.Message, r.Remedy = "no effect: "+message, "kubectl describe vmpolex "+objects[i].GetName()+" --namespace "+objects[i].GetNamespace()
		default:
			continue
		}
		ending = append(ending, r)
	}
	if len(ending) > mostShown {
		more := len(ending) - mostShown
		ending = append(ending[:mostShown], Result{Subject: "VirtualMachinePolicyExceptions", State: Warning, Message: texts.Count(more, "other ends soon or has", "others end soon or have") + " no effect", Remedy: "kubectl get vmpolex --all-namespaces"})
	}
	if len(ending)+len(results) == 0 {
		active := counts[policyv1alpha1.ExceptionReasonActive]
		return []Result{{Subject: "VirtualMachinePolicyExceptions", State: OK, Message: texts.Count(active, "is active, and does not end", "are active, and none ends") + " soon"}}
	}
	return append(results, ending...)
}

// ownExceptions reports the exceptions in the specs of policies that end soon.
func (c *cluster) ownExceptions(ctx context.Context) []Result {
	all, err := c.readPolicies(ctx)
	if err != nil {
		return nil // the check policies reports it
	}
	var results []Result
	for i := range all {
		for j := range all[i].Spec.Exceptions {
			ends := all[i].Spec.Exceptions[j].Expires
			if ends == nil || ends.Sub(c.now) > policies.ExpiresSoon || ends.Time.Before(c.now) {
				continue
			}
			results = append(results, Result{
				Subject: all[i].Name, State: Warning, Message: fmt.Sprintf("spec.exceptions[%d] ends at %s", j, ends.UTC().Format(time.RFC3339)),
				Remedy: "change the virtual machines, or the exception",
			})
		}
	}
	if len(results) > mostShown {
		more := len(results) - mostShown
		results = append(results[:mostShown], Result{Subject: "VirtualMachinePolicies", State: Warning, Message: texts.Count(more, "other exception ends", "other exceptions end") + " soon", Remedy: "kubectl get vmpol --output yaml"})
	}
	return results
}
