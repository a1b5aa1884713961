package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/architectures"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/compare/engine"
	"github.com/virtward/virtward/webhooks"
)

// virtward is the validating webhook without its HTTP server: the bytes of an AdmissionReview in, the bytes of the answer out, with
// all built-in rules.
type virtward struct {
	validator *webhooks.Validator
	reviews   [][]byte
}

func newVirtward(load *engine.Load) (engine.Engine, error) {
	env, err := cel.NewEnvironment()
	if err != nil {
		return nil, err
	}
	compiled := make([]*policies.Policy, 0, len(load.Policies))
	for _, policy := range load.Policies {
		p, problems := policies.Compile(env, virtwardPolicy(policy), nil)
		if diagnostics.Broken(problems) {
			return nil, fmt.Errorf("policy %s: %v", policy.Name, problems)
		}
		compiled = append(compiled, p)
	}
	validator, err := newValidator(policies.NewSet("virtward-system", compiled...), load.Namespace)
	if err != nil {
		return nil, err
	}
	v := &virtward{validator: validator}
	for _, review := range load.Reviews {
		v.reviews = append(v.reviews, append([]byte(nil), review...))
	}
	return v, nil
}

// virtwardPolicy returns a policy for instances of its namespaces.
func virtwardPolicy(policy engine.Policy) *policyv1alpha1.VirtualMachinePolicy {
	result := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	spec := &result.Spec
	spec.Enforcement = policyv1alpha1.PolicyDeny
	spec.Match.Kinds = []policyv1alpha1.PolicyKind{policyv1alpha1.PolicyVirtualMachineInstance}
	if len(policy.NamespaceLabels) > 0 {
		spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: policy.NamespaceLabels}
	}
	if len(policy.Params) > 0 {
		spec.Params = &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: policy.Params}}
	}
	if policy.Rego != "" {
		policy = policy.Replaced("input.vm", "input.params")
		spec.Rego = &policyv1alpha1.PolicyRego{Module: "package " + strings.ReplaceAll(policy.Name, "-", "_") + "\n" + policy.Rego}
		return result
	}
	policy = policy.Replaced("vm", "params")
	for _, c := range policy.Conditions {
		spec.Match.MatchConditions = append(spec.Match.MatchConditions, policyv1alpha1.PolicyCondition(c))
	}
	for _, v := range policy.Variables {
		spec.Variables = append(spec.Variables, policyv1alpha1.PolicyVariable(v))
	}
	for _, v := range policy.Validations {
		spec.Validations = append(spec.Validations,
			policyv1alpha1.PolicyValidation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression})
	}
	return result
}

func newPipeline() (*effective.Pipeline, *hypervisors.Registry, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, nil, err
	}
	return effective.NewPipeline(registry), registry, nil
}

func newValidator(set *policies.Set, in engine.Namespace) (*webhooks.Validator, error) {
	pipeline, registry, err := newPipeline()
	if err != nil {
		return nil, err
	}
	rules, err := registry.Validator(platform.KVM, architectures.AMD64)
	if err != nil {
		return nil, err
	}
	objects, err := references.NewMemory(in.Name)
	if err != nil {
		return nil, err
	}
	metrics, err := webhooks.NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} },
		func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		return nil, err
	}
	facts := platform.Defaults(platform.Settings{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.Name, Labels: in.Labels}}
	live := &evaluator.Live{
		GetFacts:     func() *platform.Facts { return facts },
		GetPolicies:  func() *policies.Set { return set },
		GetNamespace: func(context.Context, string) (*corev1.Namespace, error) { return namespace, nil },
	}
	return webhooks.NewValidator(webhooks.Validator{
		Evaluator: evaluator.New(pipeline, objects, live), Rules: rules.Rules(), Metrics: metrics, Log: logr.Discard(), Clock: clock.RealClock{},
	}), nil
}

// Evaluate implements engine.Engine.
func (v *virtward) Evaluate(request int) (any, error) {
	return v.validator.Review(context.Background(), v.reviews[request])
}

// Denying returns the policies among the findings. A built-in rule is an error: the peers do not have it.
func (v *virtward) Denying(answer any) ([]string, error) {
	review := &admissionv1.AdmissionReview{}
	data, ok := answer.([]byte)
	if !ok {
		return nil, fmt.Errorf("the answer is a %T", answer)
	}
	if err := json.Unmarshal(data, review); err != nil {
		return nil, err
	}
	findings := review.Response.AuditAnnotations["findings"]
	if (findings == "") != review.Response.Allowed {
		return nil, fmt.Errorf("findings and verdict differ: %s", data)
	}
	if findings == "" {
		return nil, nil
	}
	var names []string
	for rule := range strings.SplitSeq(findings, ",") {
		name, of := strings.CutPrefix(rule, policies.RulePrefix)
		if !of {
			return nil, fmt.Errorf("the object violates the rule %s", rule)
		}
		names = append(names, name)
	}
	return names, nil
}

// decoding decodes the objects, and nothing more.
type decoding struct{ objects [][]byte }

func newDecoding(load *engine.Load) (engine.Engine, error) {
	d := &decoding{}
	for _, data := range load.Reviews {
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(data, review); err != nil {
			return nil, err
		}
		d.objects = append(d.objects, review.Request.Object.Raw)
	}
	return d, nil
}

// Evaluate implements engine.Engine.
func (d *decoding) Evaluate(request int) (any, error) {
	return nil, sigsjson.UnmarshalCaseSensitivePreserveInts(d.objects[request], &v1.VirtualMachineInstance{})
}

// Denying implements engine.Engine.
func (d *decoding) Denying(any) ([]string, error) { return nil, nil }
