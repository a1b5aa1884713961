package status

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/texts"
)

// switched reports which webhook configurations are on. A deliberate disable is a warning.
func (c *cluster) switched(ctx context.Context) []Result {
	var results []Result
	for _, kind := range killswitch.Kinds() {
		if !kind.Webhook {
			continue
		}
		objects, err := c.configurations(ctx, kind)
		if err != nil {
			results = append(results, unknown(kind.Name, err))
			continue
		}
		for i := range objects {
			results = append(results, c.switchedOf(&objects[i]))
		}
		if len(objects) == 0 {
			results = append(results, Result{Subject: kind.Name, State: Warning, Message: missing(kind.Name), Remedy: "upgrade the release, unless its values leave it out"})
		}
	}
	return results
}

// configurations returns the objects of Virtward of a kind.
func (c *cluster) configurations(ctx context.Context, kind killswitch.Kind) ([]unstructured.Unstructured, error) {
	objects, err := killswitch.List(ctx, c.client, kind)
	if err != nil {
		return nil, &readError{verb: "list", resource: kind.Resource, err: errors.Unwrap(err)}
	}
	return objects, nil
}

// missing says what it means that Virtward has no object of a kind.
func missing(kind string) string {
	meaning := map[string]string{
		"MutatingWebhookConfiguration":   "objects are not completed",
		"ValidatingWebhookConfiguration": "objects are not validated",
		"ValidatingAdmissionPolicy":      "there are no guards",
	}[kind]
	return "Virtward has none: " + meaning
}

// switchedOf reports whether an object is on.
func (c *cluster) switchedOf(object *unstructured.Unstructured) Result {
	r := Result{Subject: object.GetKind() + " " + object.GetName(), State: OK, Message: "on"}
	switch off, all := killswitch.Disabled(object); {
	case all == 0:
		r.State, r.Message, r.Remedy = Error, "it has no webhooks", "upgrade the release"
	case off == 0:
	case off == all:
		r.State, r.Message, r.Remedy = Warning, offBecause("off", object), c.program+" enable"
	default:
		r.State, r.Message = Error, offBecause(fmt.Sprintf("off in part (%d of %d)", off, all), object)
		r.Remedy = fmt.Sprintf("%s enable, or %s disable to switch off the rest", c.program, c.program)
	}
	return r
}

// offBecause adds the reason to a state.
func offBecause(state string, object *unstructured.Unstructured) string {
	if why := killswitch.Why(object); why != "" {
		return state + ": " + why
	}
	return state
}

// guards reports which admission policies are active, in one result for each state and reason.
func (c *cluster) guards(ctx context.Context) []Result {
	kind := killswitch.Kinds()[2]
	objects, err := c.configurations(ctx, kind)
	if err != nil {
		return []Result{unknown(kind.Name, err)}
	}
	if len(objects) == 0 {
		return []Result{{Subject: kind.Name, State: Error, Message: missing(kind.Name), Remedy: "upgrade the release"}}
	}
	bindings, err := c.list(ctx, admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"), "", "")
	if err != nil {
		return []Result{unknown("ValidatingAdmissionPolicyBinding", err)}
	}
	bound := map[string]bool{}
	for i := range bindings {
		bound[text(&bindings[i], "spec", "policyName")] = true
	}
	on := 0
	var results []Result
	for i := range objects {
		one := c.switchedOf(&objects[i])
		switch {
		case !bound[objects[i].GetName()]:
			one.State, one.Message, one.Remedy = Error, "it has no binding, so it has no effect", "upgrade the release, or wait a minute if it is an exported policy"
		case one.State == OK:
			on++
			continue
		}
		results = append(results, one)
	}
	if on > 0 {
		results = append([]Result{{Subject: kind.Name, State: OK, Message: texts.Count(on, "policy is", "policies are") + " on"}}, results...)
	}
	return results
}

// answers asks the webhook that validates: a dry run of RuleSettings that it rejects. So the result is that of the API server, with
// its certificates and its network.
func (c *cluster) answers(ctx context.Context) []Result {
	r := Result{Subject: "webhook"}
	objects, err := c.configurations(ctx, killswitch.Kinds()[1])
	if err == nil && len(objects) == 0 {
		return nil
	}
	for i := range objects {
		if off, _ := killswitch.Disabled(&objects[i]); off > 0 {
			r.State, r.Message = OK, "not called: the webhook is switched off"
			return []Result{r}
		}
	}
	probe := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"rules": []any{map[string]any{"rule": probeRule, "severity": "Warn"}}}}}
	probe.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("RuleSettings"))
	probe.SetName("virtward-status-probe")
	resource := policyv1alpha1.GroupVersion.WithResource("rulesettings")
	_, err = c.client.Resource(resource).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	const remedy = "check the pods of " + processes.Webhook + " and their log; until they answer, switch off: "
	switch {
	case err == nil:
		r.State, r.Message, r.Remedy = Error, "the API server does not call the webhook: it admitted RuleSettings with a rule that does not exist", "check the webhooks of ValidatingWebhookConfiguration validate.virtward.io, and upgrade the release"
	case strings.Contains(err.Error(), probeRule) && apierrors.IsInvalid(err):
		r.State, r.Message = OK, "it answers the API server"
	case strings.Contains(err.Error(), "failed calling webhook"):
		r.State, r.Message, r.Remedy = Error, err.Error(), remedy+c.program+" disable --reason TEXT"
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err):
		r.State, r.Message, r.Remedy = Error, "it answers, but cannot evaluate: "+err.Error(), remedy+c.program+" disable --reason TEXT"
	default:
		return []Result{unknown(r.Subject, &readError{verb: "create", resource: resource, err: err})}
	}
	return []Result{r}
}

// probeRule is a rule that does not exist.
const probeRule = "status-probe"
