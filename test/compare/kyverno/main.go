// Command kyverno evaluates the policies of the comparison with Kyverno's engine for ValidatingPolicies, with the compiler, the
// matcher and the predicates of its webhook.
//
// What is measured starts at a decoded AdmissionRequest, whose object is still bytes, and ends at the results of all rules.
// Kyverno's HTTP server, the decoding of the AdmissionReview, metrics, reports, events, and the encoding of the answer are left out.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	policiesv1beta1 "github.com/kyverno/api/api/policies.kyverno.io/v1beta1"
	celengine "github.com/kyverno/kyverno/pkg/cel/engine"
	"github.com/kyverno/kyverno/pkg/cel/libs"
	"github.com/kyverno/kyverno/pkg/cel/matching"
	vpolcompiler "github.com/kyverno/kyverno/pkg/cel/policies/vpol/compiler"
	vpolengine "github.com/kyverno/kyverno/pkg/cel/policies/vpol/engine"
	engineapi "github.com/kyverno/kyverno/pkg/engine/api"
	admissionutils "github.com/kyverno/kyverno/pkg/utils/admission"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/compare/engine"
)

func main() {
	logf.SetLogger(logr.Discard())
	engine.Serve(func(load *engine.Load) (engine.Engine, error) { return compile(load) })
}

// kyverno has the engine with all policies.
type kyverno struct {
	engine    vpolengine.Engine
	context   libs.Context
	predicate vpolengine.Predicate
	requests  []admissionv1.AdmissionRequest
}

func compile(load *engine.Load) (*kyverno, error) {
	all, names := make([]policiesv1beta1.ValidatingPolicyLike, 0, len(load.Policies)), make([]string, 0, len(load.Policies))
	for _, policy := range load.Policies {
		validating, err := validatingPolicy(policy)
		if err != nil {
			return nil, err
		}
		all, names = append(all, validating), append(names, policy.Name)
	}
	provider, err := vpolengine.NewProvider(vpolcompiler.NewCompiler(), all, nil)
	if err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: load.Namespace.Name, Labels: load.Namespace.Labels}}
	k := &kyverno{
		engine:    vpolengine.NewEngine(provider, func(string) *corev1.Namespace { return namespace }, matching.NewMatcher()),
		context:   libs.GetLibsCtx(),
		predicate: vpolengine.And(vpolengine.MatchNames(names...), vpolengine.ClusteredPolicy()),
	}
	for _, data := range load.Reviews {
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(data, review); err != nil {
			return nil, err
		}
		k.requests = append(k.requests, *review.Request)
	}
	return k, nil
}

// validatingPolicy returns a policy for instances of its namespaces.
func validatingPolicy(policy engine.Policy) (*policiesv1beta1.ValidatingPolicy, error) {
	if policy.Rego != "" {
		return nil, fmt.Errorf("policy %s: Kyverno has no Rego", policy.Name)
	}
	policy, err := policy.Inlined("object")
	if err != nil {
		return nil, err
	}
	match := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualmachineinstances"}},
		},
	}}}
	if len(policy.NamespaceLabels) > 0 {
		match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: policy.NamespaceLabels}
	}
	validating := &policiesv1beta1.ValidatingPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	validating.Spec.MatchConstraints = match
	validating.Spec.ValidationAction = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	for _, c := range policy.Conditions {
		validating.Spec.MatchConditions = append(validating.Spec.MatchConditions, admissionregistrationv1.MatchCondition(c))
	}
	for _, v := range policy.Variables {
		validating.Spec.Variables = append(validating.Spec.Variables, admissionregistrationv1.Variable(v))
	}
	for _, v := range policy.Validations {
		validating.Spec.Validations = append(validating.Spec.Validations,
			admissionregistrationv1.Validation{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression})
	}
	return validating, nil
}

// Evaluate implements engine.Engine.
func (k *kyverno) Evaluate(request int) (any, error) { return k.evaluate(k.requests[request]) }

// evaluate does what Kyverno's webhook does with a decoded request.
func (k *kyverno) evaluate(request admissionv1.AdmissionRequest) (vpolengine.EngineResponse, error) {
	return k.engine.Handle(context.Background(), celengine.RequestFromAdmission(k.context, request), k.predicate)
}

// Denying returns the policies with a rule that failed. A rule with an error is an error here: the verdicts would differ.
func (k *kyverno) Denying(answer any) ([]string, error) {
	response, ok := answer.(vpolengine.EngineResponse)
	if !ok {
		return nil, fmt.Errorf("the answer is a %T", answer)
	}
	var names []string
	for _, policy := range response.Policies {
		for _, rule := range policy.Rules {
			switch rule.Status() {
			case engineapi.RuleStatusFail:
				names = append(names, policy.Policy.GetName())
			case engineapi.RuleStatusError:
				return nil, fmt.Errorf("policy %s: %s", policy.Policy.GetName(), rule.Message())
			}
		}
	}
	return names, nil
}

// Review implements engine.Webhook, with the answers of Kyverno's webhook.
func (k *kyverno) Review(body []byte) ([]byte, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, err
	}
	request := review.Request
	answer, err := k.evaluate(*request)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, policy := range answer.Policies {
		for _, rule := range policy.Rules {
			if status := rule.Status(); status == engineapi.RuleStatusFail || status == engineapi.RuleStatusError {
				errs = append(errs, fmt.Errorf("policy %s: %s", policy.Policy.GetName(), rule.Message()))
			}
		}
	}
	response := admissionutils.Response(request.UID, errors.Join(errs...))
	review.Request, review.Response = nil, &response
	return json.Marshal(review)
}
