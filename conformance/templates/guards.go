package templates

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/virtward/virtward/admissionpolicies"
)

// right is what the user of a case may do. A name that is empty or * is any.
type right struct {
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// rights is the authorizer of a case.
type rights []right

// Authorize implements authorizer.Authorizer.
func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, allowed := range r {
		if allowed.Verb == a.GetVerb() && allowed.Group == a.GetAPIGroup() && allowed.Resource == a.GetResource() && allowed.Subresource == a.GetSubresource() &&
			allowed.Namespace == a.GetNamespace() && (allowed.Name == "" || allowed.Name == "*" || allowed.Name == a.GetName()) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// guardPolicy is a guard of Virtward, compiled as the API server does.
type guardPolicy struct {
	*admissionregistrationv1.ValidatingAdmissionPolicy

	conditions, validations plugincel.ConditionEvaluator
	composed                *plugincel.CompositedCompiler
}

// expression is one expression of a guard.
type expression struct {
	name, text string
	types      []*cel.Type
}

func (e *expression) GetName() string          { return e.name }
func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return e.types }

// newGuardPolicies compiles the guards that cases are about.
func newGuardPolicies() ([]*guardPolicy, error) {
	objects, err := admissionpolicies.Objects()
	if err != nil {
		return nil, err
	}
	var guards []*guardPolicy
	for _, object := range objects {
		if object.GetKind() != "ValidatingAdmissionPolicy" || !slices.Contains([]string{admissionpolicies.TemplateCapture, admissionpolicies.TemplateRequestLabels}, object.GetName()) {
			continue
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			return nil, err
		}
		guard, err := newGuardPolicy(policy)
		if err != nil {
			return nil, err
		}
		guards = append(guards, guard)
	}
	return guards, nil
}

func newGuardPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (*guardPolicy, error) {
	composed, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, variable := range policy.Spec.Variables {
		composed.CompileAndStoreVariable(&expression{variable.Name, variable.Expression, []*cel.Type{cel.AnyType, cel.DynType}}, options, environment.StoredExpressions)
	}
	boolean := []*cel.Type{cel.BoolType}
	var conditions, validations []plugincel.ExpressionAccessor
	for _, condition := range policy.Spec.MatchConditions {
		conditions = append(conditions, &expression{condition.Name, condition.Expression, boolean})
	}
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, &expression{validation.Message, validation.Expression, boolean})
	}
	return &guardPolicy{
		ValidatingAdmissionPolicy: policy, composed: composed,
		conditions:  composed.CompileCondition(conditions, options, environment.StoredExpressions),
		validations: composed.CompileCondition(validations, options, environment.StoredExpressions),
	}, nil
}

// evaluate returns the checks that deny a request.
func (g *guardPolicy) evaluate(ctx context.Context, object, old *unstructured.Unstructured, allowed rights) ([]string, error) {
	kind := object.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"}
	operation := admission.Create
	var before runtime.Object
	if old != nil {
		operation, before = admission.Update, old
	}
	if !g.matches(resource, operation) {
		return nil, nil
	}
	attributes := admission.NewAttributesRecord(object, before, kind, object.GetNamespace(), object.GetName(), resource, "", operation, nil, false, &user.DefaultInfo{Name: "user"})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(before)}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
	evaluate := func(evaluator plugincel.ConditionEvaluator) ([]string, error) {
		results, _, err := evaluator.ForInput(g.composed.CreateContext(ctx), versioned, request, plugincel.OptionalVariableBindings{Authorizer: allowed}, nil, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return nil, err
		}
		var not []string
		for _, result := range results {
			if result.Error != nil {
				return nil, fmt.Errorf("%s: %w", g.Name, result.Error)
			}
			if holds, ok := result.EvalResult.Value().(bool); !ok || !holds {
				not = append(not, checkOf(result.ExpressionAccessor))
			}
		}
		return not, nil
	}
	if unmatched, err := evaluate(g.conditions); err != nil || len(unmatched) > 0 {
		return nil, err
	}
	return evaluate(g.validations)
}

// matches reports whether the guard is about a request.
func (g *guardPolicy) matches(resource schema.GroupVersionResource, operation admission.Operation) bool {
	return slices.ContainsFunc(g.Spec.MatchConstraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, resource.Group) && slices.Contains(rule.Resources, resource.Resource) &&
			slices.Contains(rule.Operations, admissionregistrationv1.OperationType(operation))
	})
}

// checks are the names of the cases for the rules of the guards.
var checks = map[string]string{
	"template-capture-source": "source", "template-capture-datavolumes": "datavolumes", "template-capture-templates": "virtualmachinetemplates",
}

// checkOf names a validation by the id that its message begins with.
func checkOf(of plugincel.ExpressionAccessor) string {
	named, ok := of.(*expression)
	if !ok {
		return "unknown"
	}
	id, _, _ := strings.Cut(named.name, ":")
	if check := checks[id]; check != "" {
		return check
	}
	return id
}
