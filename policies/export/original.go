package export

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
)

// Original returns the policy that Export converted into a native policy, and false if it cannot be found: the native
// policy is not from Virtward, was changed, or has exceptions. The result is exact, because it is exported again and
// compared. It lacks what native policies do not have: the title, the description, fieldPaths and names.
func Original(env *cel.Environment, native *admissionregistrationv1.ValidatingAdmissionPolicySpec, name string, enforcement policyv1alpha1.PolicyEnforcement) (*policyv1alpha1.VirtualMachinePolicy, bool) {
	name, exported := strings.CutPrefix(name, Prefix)
	if !exported || native.MatchConstraints == nil || native.FailurePolicy == nil {
		return nil, false
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec := &policy.Spec
	spec.Enforcement, spec.FailurePolicy = enforcement, policyv1alpha1.PolicyFailure(*native.FailurePolicy)
	cluster := guessMatch(native.MatchConstraints, &spec.Match)
	for _, c := range native.MatchConditions {
		switch c.Name {
		case "not-being-deleted", "something-changed", "not-deleted-again", "not-deleted-by-the-system":
		case "not-kubevirt":
			cluster.KubeVirt = guessList(c.Expression, "request.userInfo.username in ")
		case "not-excluded":
			rest := c.Expression[strings.LastIndex(c.Expression, "!(")+1:]
			spec.Match.ExcludedUsers = guessList(rest, "request.userInfo.username in ")
			spec.Match.ExcludedGroups = guessList(rest, "group in ")
		default:
			spec.Match.MatchConditions = append(spec.Match.MatchConditions, policyv1alpha1.PolicyCondition{Name: c.Name, Expression: c.Expression})
		}
	}
	params := guessVariables(env, native.Variables, spec)
	for i := range native.Validations {
		spec.Validations = append(spec.Validations, guessValidation(&native.Validations[i], name, params, spec))
	}
	compiled, _ := policies.Compile(env, policy, nil)
	again, problems := Export(compiled, cluster, time.Time{})
	if len(problems) > 0 || !equality.Semantic.DeepEqual(&again.Policy.Spec, native) {
		return nil, false
	}
	return policy, true
}

// guessMatch reads what a policy matches, and returns the namespaces that the webhooks do not match.
func guessMatch(constraints *admissionregistrationv1.MatchResources, match *policyv1alpha1.PolicyMatch) Cluster {
	cluster := Cluster{}
	for _, rule := range constraints.ResourceRules {
		for _, kind := range Kinds() {
			if slices.Contains(rule.Resources, resources[kind].name) {
				match.Kinds = append(match.Kinds, kind)
			}
		}
		match.Operations = nil
		for _, operation := range rule.Operations {
			match.Operations = append(match.Operations, policyv1alpha1.PolicyOperation(operation))
		}
	}
	if selector := constraints.NamespaceSelector; selector != nil && len(selector.MatchExpressions) > 0 {
		own := selector.DeepCopy()
		last := len(own.MatchExpressions) - 1
		if own.MatchExpressions[last].Key == corev1.LabelMetadataName {
			cluster.Exempt = own.MatchExpressions[last].Values
			own.MatchExpressions = own.MatchExpressions[:last]
			if last > 0 && own.MatchExpressions[last-1].Key == policyv1alpha1.ExemptLabel {
				cluster.ExemptByLabel = true
				own.MatchExpressions = own.MatchExpressions[:last-1]
			}
		}
		if len(own.MatchLabels) > 0 || len(own.MatchExpressions) > 0 {
			match.NamespaceSelector = own
		}
	}
	if selector := constraints.ObjectSelector; selector != nil && (len(selector.MatchLabels) > 0 || len(selector.MatchExpressions) > 0) {
		match.ObjectSelector = selector.DeepCopy()
	}
	return cluster
}

// guessList reads the list of texts behind a prefix.
func guessList(text, prefix string) []string {
	_, rest, found := strings.Cut(text, prefix+"[")
	if !found {
		return nil
	}
	var list []string
	for {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return list
		}
		one, err := strconv.Unquote(quoted)
		if err != nil {
			return list
		}
		list, rest = append(list, one), strings.TrimPrefix(rest[len(quoted):], ", ")
	}
}

var paramsVariable = regexp.MustCompile(`^params[0-9]*$`)

// guessVariables reads the variables of the policy and the parameters. It returns the name of the variable that has them.
func guessVariables(env *cel.Environment, all []admissionregistrationv1.Variable, spec *policyv1alpha1.VirtualMachinePolicySpec) (params string) {
	names := map[string]bool{}
	for i, v := range all {
		if i == 0 && paramsVariable.MatchString(v.Name) {
			if values, ok := guessValues(env, v.Expression); ok {
				spec.Params, params = &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: values}}, v.Name
				continue
			}
		}
		if before, found := strings.CutSuffix(strings.TrimRight(v.Name, "0123456789"), "Before"); found && names[before] {
			continue
		}
		names[v.Name] = true
		spec.Variables = append(spec.Variables, policyv1alpha1.PolicyVariable{Name: v.Name, Expression: namedParams(v.Expression, params)})
	}
	return params
}

// guessValues evaluates a constant object.
func guessValues(env *cel.Environment, literal string) ([]byte, bool) {
	scope, problems := env.Scope(cel.ScopeOptions{})
	if len(problems) > 0 {
		return nil, false
	}
	program, problems := scope.Compile(literal, cel.Any)
	if len(problems) > 0 || len(program.Reads()) > 0 {
		return nil, false
	}
	value, err := program.Eval(scope.Activation(&cel.Documents{}), cel.NewBudget())
	if _, ok := value.(map[string]any); err != nil || !ok {
		return nil, false
	}
	raw, err := json.Marshal(value)
	return raw, err == nil
}

func namedParams(text, params string) string {
	if params == "" {
		return text
	}
	return strings.ReplaceAll(text, nameVariables+"."+params, nameParams)
}

// guessValidation reads a validation: the first half of its expression, and the message without the rule and the remedy.
func guessValidation(v *admissionregistrationv1.Validation, name, params string, spec *policyv1alpha1.VirtualMachinePolicySpec) policyv1alpha1.PolicyValidation {
	text := unbracketed(strings.TrimSuffix(v.Expression, " && true"), v.Expression)
	if slices.Contains(spec.Match.Operations, policyv1alpha1.PolicyUpdate) {
		for _, updates := range []string{updateOnly, updateNotDeletion} {
			if now, _, found := strings.Cut(text, ") || ("+updates+" && !("); found {
				text = strings.TrimSuffix(strings.TrimPrefix(now, "("), "\n")
			}
		}
	}
	made := policyv1alpha1.PolicyValidation{Expression: namedParams(text, params), MessageExpression: namedParams(v.MessageExpression, params)}
	message, remedy, _ := strings.Cut(v.Message, fmt.Sprintf(" [virtward/%s%s]", policies.RulePrefix, name))
	if spec.Remedy = strings.TrimSpace(remedy); !strings.HasPrefix(message, "this expression is false: ") {
		made.Message = message
	}
	if v.Reason != nil {
		made.Reason = policyv1alpha1.PolicyReason(*v.Reason)
	}
	return made
}

// unbracketed removes the brackets around a text that lost its suffix; the text stays as it was without a suffix.
func unbracketed(text, before string) string {
	if text == before {
		return text
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(text, "("), ")"), "\n")
}
