// Command gatekeeper evaluates the policies of the comparison with Gatekeeper: its constraint client with the drivers of CEL
// (K8sNativeValidation) and of Rego, and the options of its webhook.
//
// What is measured starts at a decoded AdmissionRequest, whose object is still bytes, and ends at the violations. Gatekeeper's HTTP
// server, the decoding of the AdmissionReview, expansion templates, and the encoding of the answer are left out.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/frameworks/constraint/pkg/apis/constraints"
	constraintclient "github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	regoschema "github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego/schema"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/reviews"
	"github.com/open-policy-agent/frameworks/constraint/pkg/core/templates"
	"github.com/open-policy-agent/frameworks/constraint/pkg/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel"
	celschema "github.com/open-policy-agent/gatekeeper/v3/pkg/drivers/k8scel/schema"
	mutationtypes "github.com/open-policy-agent/gatekeeper/v3/pkg/mutation/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/util"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/compare/engine"
)

func main() {
	shared := flag.Bool("shared", false, "one template for all policies of a kind, instead of one for each policy")
	flag.Parse()
	logf.SetLogger(logr.Discard())
	engine.Serve(func(load *engine.Load) (engine.Engine, error) { return compile(load, *shared) })
}

// gatekeeper has the client with all templates and constraints.
type gatekeeper struct {
	client    *constraintclient.Client
	requests  []*admissionv1.AdmissionRequest
	namespace *corev1.Namespace
}

func compile(load *engine.Load, shared bool) (*gatekeeper, error) {
	ctx := context.Background()
	ofCEL, err := k8scel.New()
	if err != nil {
		return nil, err
	}
	ofRego, err := rego.New(rego.Tracing(false), rego.Externs())
	if err != nil {
		return nil, err
	}
	client, err := constraintclient.NewClient(constraintclient.Targets(&target.K8sValidationTarget{}), constraintclient.Driver(ofCEL),
		constraintclient.Driver(ofRego), constraintclient.EnforcementPoints(util.AuditEnforcementPoint, util.WebhookEnforcementPoint))
	if err != nil {
		return nil, err
	}
	g := &gatekeeper{client: client, namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: load.Namespace.Name, Labels: load.Namespace.Labels}}}
	added := map[string]bool{}
	for _, policy := range load.Policies {
		kind := kindOf(policy.Name)
		if shared {
			kind = kindOf(policy.Kind)
		}
		if !added[kind] {
			template, err := templateOf(kind, policy)
			if err != nil {
				return nil, err
			}
			if _, err := client.AddTemplate(ctx, template); err != nil {
				return nil, fmt.Errorf("policy %s: %w", policy.Name, err)
			}
			added[kind] = true
		}
		constraint, err := constraintOf(kind, policy)
		if err != nil {
			return nil, err
		}
		if _, err := client.AddConstraint(ctx, constraint); err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy.Name, err)
		}
	}
	for _, data := range load.Reviews {
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(data, review); err != nil {
			return nil, err
		}
		g.requests = append(g.requests, review.Request)
	}
	return g, nil
}

// kindOf returns the kind of a constraint: memory-cap-3 is MemoryCap3.
func kindOf(name string) string {
	kind := ""
	for part := range strings.SplitSeq(name, "-") {
		if part != "" {
			kind += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return kind
}

// templateOf returns the template of a policy. Its parameters have no schema, as in templates that keep unknown fields.
func templateOf(kind string, policy engine.Policy) (*templates.ConstraintTemplate, error) {
	code := templates.Code{}
	if policy.Rego != "" {
		policy = policy.Replaced("input.review.object", "input.parameters")
		module := "package " + strings.ToLower(kind) + "\n" + strings.ReplaceAll(policy.Rego, "deny contains {", "violation contains {")
		code.Engine = regoschema.Name
		code.Source = &templates.Anything{Value: (&regoschema.Source{Rego: module, Version: "v1"}).ToUnstructured()}
	} else {
		policy = policy.Replaced("object", "variables.params")
		source := &celschema.Source{}
		for _, c := range policy.Conditions {
			source.MatchConditions = append(source.MatchConditions, celschema.MatchCondition(c))
		}
		for _, v := range policy.Variables {
			source.Variables = append(source.Variables, celschema.Variable(v))
		}
		for _, v := range policy.Validations {
			source.Validations = append(source.Validations, celschema.Validation(v))
		}
		code.Engine = celschema.Name
		code.Source = &templates.Anything{Value: source.MustToUnstructured()}
	}
	keep := true
	template := &templates.ConstraintTemplate{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind)}}
	template.Spec.CRD.Spec.Names.Kind = kind
	template.Spec.CRD.Spec.Validation = &templates.Validation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}
	template.Spec.Targets = []templates.Target{{Target: target.Name, Code: []templates.Code{code}}}
	return template, nil
}

// constraintOf returns the constraint of a policy, for instances of its namespaces.
func constraintOf(kind string, policy engine.Policy) (*unstructured.Unstructured, error) {
	params, err := policy.Values()
	if err != nil {
		return nil, err
	}
	match := map[string]any{"kinds": []any{map[string]any{"apiGroups": []any{"kubevirt.io"}, "kinds": []any{"VirtualMachineInstance"}}}}
	if len(policy.NamespaceLabels) > 0 {
		labels := map[string]any{}
		for key, value := range policy.NamespaceLabels {
			labels[key] = value
		}
		match["namespaceSelector"] = map[string]any{"matchLabels": labels}
	}
	spec := map[string]any{"enforcementAction": "deny", "match": match}
	if params != nil {
		spec["parameters"] = params
	}
	constraint := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	constraint.SetGroupVersionKind(schema.GroupVersionKind{Group: constraints.Group, Version: "v1beta1", Kind: kind})
	constraint.SetName(policy.Name)
	return constraint, nil
}

// Evaluate implements engine.Engine.
func (g *gatekeeper) Evaluate(request int) (any, error) {
	r := *g.requests[request]
	return g.evaluate(&r)
}

// evaluate does what Gatekeeper's webhook does with a decoded request.
func (g *gatekeeper) evaluate(r *admissionv1.AdmissionRequest) (any, error) {
	review := &target.AugmentedReview{AdmissionRequest: r, Namespace: g.namespace, Source: mutationtypes.SourceTypeOriginal, IsAdmission: true}
	options := []reviews.ReviewOpt{reviews.EnforcementPoint(util.WebhookEnforcementPoint), reviews.Tracing(false), reviews.Stats(false)}
	if option := util.NamespaceReviewOpt(g.namespace, logr.Discard()); option != nil {
		options = append(options, option)
	}
	return g.client.Review(context.Background(), review, options...)
}

// Denying returns the constraints with violations.
func (g *gatekeeper) Denying(answer any) ([]string, error) {
	responses, ok := answer.(*types.Responses)
	if !ok {
		return nil, fmt.Errorf("the answer is a %T", answer)
	}
	var names []string
	for _, result := range responses.Results() {
		names = append(names, result.Constraint.GetName())
	}
	return names, nil
}

// Review implements engine.Webhook.
func (g *gatekeeper) Review(body []byte) ([]byte, error) {
	review := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, review); err != nil {
		return nil, err
	}
	request := review.Request
	answer, err := g.evaluate(request)
	if err != nil {
		return nil, err
	}
	responses, ok := answer.(*types.Responses)
	if !ok {
		return nil, fmt.Errorf("the answer is a %T", answer)
	}
	var messages []string
	for _, result := range responses.Results() {
		messages = append(messages, "["+result.Constraint.GetName()+"] "+result.Msg)
	}
	review.Request, review.Response = nil, &admissionv1.AdmissionResponse{UID: request.UID, Allowed: len(messages) == 0}
	if len(messages) > 0 {
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: strings.Join(messages, "\n")}
	}
	return json.Marshal(review)
}
