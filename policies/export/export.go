package export

import (
	"fmt"
	"slices"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	celgo "github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/cel/environment"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
)

// Prefix is the prefix of the names of native policies and bindings. The name of the policy follows.
const Prefix = "virtward-policy-"

// ManagedBy is the label of exported objects, and Manager its value.
const (
	ManagedBy = "app.kubernetes.io/managed-by"
	Manager   = "virtward"
)

// Cluster has the facts about the cluster that a native policy depends on.
type Cluster struct {
	// Namespace is Virtward's own, which no policy applies to, and Exempt are the other namespaces that the webhooks do
	// not match.
	Namespace string
	Exempt    []string
	// ExemptByLabel tells that the webhooks do not match namespaces with the label policyv1alpha1.ExemptLabel either.
	ExemptByLabel bool
	// KubeVirt are the names of KubeVirt's own accounts.
	KubeVirt []string
}

// Native is a policy in the form that the API server evaluates.
type Native struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Notes are the differences to the webhook.
	Notes []string
	// Until is when the next exception expires, which makes this form outdated; nil if none does.
	Until *time.Time
}

// Export returns the native form of a policy, with the exceptions that are active now; or the reasons why there is
// none, at fields of the policy. It does not read exportTo.
func Export(p *policies.Policy, cluster Cluster, now time.Time) (*Native, []diagnostics.Problem) {
	spec := p.Spec()
	if problems := hopeless(p); len(problems) > 0 {
		return nil, problems
	}
	x, err := newExporter(p)
	if err != nil {
		return nil, []diagnostics.Problem{{Field: "spec", Message: err.Error()}}
	}
	conditions := append(always(&spec.Match), users(&spec.Match, p.ReadsRequest(), cluster.KubeVirt)...)
	excepted, until := exceptions(&spec.Match, spec.Exceptions, now)
	x.notes.ends = until
	conditions = x.conditions(append(conditions, excepted...))
	validations := x.validations()
	native := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: Prefix + p.Name(), Labels: map[string]string{ManagedBy: Manager}},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.FailurePolicyType(spec.FailurePolicy)),
			MatchConstraints: constraints(&spec.Match, &cluster),
			MatchConditions:  conditions,
			Variables:        x.declared,
			Validations:      validations,
		},
	}
	if len(x.problems) > 0 {
		return nil, x.problems
	}
	return &Native{Policy: native, Binding: binding(native, spec.Enforcement), Notes: x.notes.all(), Until: until}, nil
}

func binding(native *admissionregistrationv1.ValidatingAdmissionPolicy, enforcement policyv1alpha1.PolicyEnforcement) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: native.APIVersion, Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: *native.ObjectMeta.DeepCopy(),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        native.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.ValidationAction(enforcement)},
		},
	}
}

// hopeless returns the parts of the policy that the API server cannot evaluate.
func hopeless(p *policies.Policy) []diagnostics.Problem {
	spec := p.Spec()
	var problems []diagnostics.Problem
	reject := func(applies bool, field, message string) {
		if applies {
			problems = append(problems, diagnostics.Problem{Field: field, Message: message})
		}
	}
	reject(p.Broken() != "", "spec", p.Broken())
	reject(p.ParamsMissing() != "", "spec.params.configMap", p.ParamsMissing())
	reject(spec.Rego != nil, "spec.rego", "the API server cannot evaluate Rego")
	reject(len(spec.Match.Hypervisors) > 0, "spec.match.hypervisors", "the API server does not know the hypervisor")
	reject(len(spec.Match.Architectures) > 0, "spec.match.architectures", "the API server does not know the default architecture")
	reject(!slices.ContainsFunc(spec.Match.Kinds, func(kind policyv1alpha1.PolicyKind) bool { _, ok := resources[kind]; return ok }),
		"spec.match.kinds", "VirtualMachineTemplates cannot be matched by the exported policy")
	return problems
}

// exporter rewrites the expressions of one policy.
type exporter struct {
	policy *policies.Policy
	spec   *policyv1alpha1.VirtualMachinePolicySpec
	env    *celgo.Env
	proof  *proof
	// params are the values of the policy in CEL, and paramsName the variable that has them.
	params, paramsName string
	// before maps the variables that depend on the object to the same variables of the object before the update.
	before   map[string]string
	taken    map[string]bool
	declared []admissionregistrationv1.Variable
	notes    notes
	problems []diagnostics.Problem
}

func newExporter(p *policies.Policy) (*exporter, error) {
	env, err := environment.MustBaseEnvSet(oldest).Env(environment.NewExpressions)
	if err != nil {
		return nil, fmt.Errorf("making the CEL environment of Kubernetes: %w", err)
	}
	proof, err := newProof()
	if err != nil {
		return nil, fmt.Errorf("making the compiler of Kubernetes: %w", err)
	}
	x := &exporter{
		policy: p, spec: p.Spec(), env: env, proof: proof,
		before: map[string]string{}, taken: map[string]bool{}, notes: notes{spec: p.Spec()},
	}
	for i := range x.spec.Variables {
		x.taken[x.spec.Variables[i].Name] = true
	}
	var value any
	if values := p.Params(); values != nil {
		value = values
	}
	if x.params, err = literal(value); err != nil {
		return nil, fmt.Errorf("writing the parameters: %w", err)
	}
	x.paramsName = x.free(nameParams)
	return x, nil
}

// free returns a name for a variable that the policy does not have.
func (x *exporter) free(name string) string {
	found := name
	for i := 2; x.taken[found]; i++ {
		found = fmt.Sprintf("%s%d", name, i)
	}
	x.taken[found] = true
	return found
}

func (x *exporter) reject(field string, err error) {
	x.problems = append(x.problems, diagnostics.Problem{Field: field, Message: err.Error()})
}

// read parses an expression, and rejects names that the API server does not have.
func (x *exporter) read(text, field string) *expression {
	e, err := x.understood(text)
	if err != nil {
		x.reject(field, err)
		return nil
	}
	x.notes.compare(e, field)
	return e
}

func (x *exporter) understood(text string) (*expression, error) {
	e, err := parse(x.env, text)
	if err != nil {
		return nil, err
	}
	var unknown []string
	for _, name := range e.names() {
		if slices.Contains(cel.Names(), name) && !slices.Contains(native, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("it reads %s, which the API server does not have", strings.Join(unknown, " and "))
	}
	for _, r := range e.reads {
		if r.name == nameVariables && r.member == "" {
			return nil, fmt.Errorf("write variables.NAME to read a variable")
		}
	}
	return e, nil
}

// conditions returns the conditions of every native policy, and those of the policy. They cannot read variables, so
// parameters are inserted as values.
func (x *exporter) conditions(conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
	const at = "spec.match.matchConditions"
	if most := maxConditions - len(conditions); len(x.spec.Match.MatchConditions) > most {
		x.reject(at, fmt.Errorf("there are %d conditions: at most %d", len(x.spec.Match.MatchConditions), most))
		return conditions
	}
	for i := range conditions {
		if _, err := x.proof.condition(conditions[i].Expression); err != nil { // a bug in this program
			x.reject("spec.match", fmt.Errorf("the condition %s: %w", conditions[i].Name, err))
		}
	}
	for i := range x.spec.Match.MatchConditions {
		field := fmt.Sprintf("%s[%d].expression", at, i)
		e := x.read(x.spec.Match.MatchConditions[i].Expression, field)
		if e == nil {
			continue
		}
		if e.reading(nameNamespaceObject) {
			x.reject(field, fmt.Errorf("it reads namespaceObject, which conditions of the API server cannot read: read it in a validation"))
			continue
		}
		text, err := e.rewritten(substitution{names: map[string]replacement{nameParams: {text: x.params}}})
		if err == nil {
			text, err = x.proof.condition(text)
		}
		if err != nil {
			x.reject(field, err)
			continue
		}
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("policy-%d", i), Expression: text})
	}
	return conditions
}

// validations rewrites the variables and the validations of the policy.
func (x *exporter) validations() []admissionregistrationv1.Validation {
	x.variables()
	if len(x.problems) > 0 { // errors about missing variables would follow from these
		return nil
	}
	validations := make([]admissionregistrationv1.Validation, 0, len(x.spec.Validations))
	for i := range x.spec.Validations {
		v, at := &x.spec.Validations[i], fmt.Sprintf("spec.validations[%d]", i)
		made := admissionregistrationv1.Validation{Message: x.message(v)}
		if v.Reason != "" {
			made.Reason = new(reasonOf(v.Reason))
		}
		made.Expression = x.validation(v.Expression, at+".expression")
		if v.MessageExpression != "" {
			made.MessageExpression = x.messageExpression(v.MessageExpression, at+".messageExpression")
		}
		validations = append(validations, made)
	}
	return validations
}

// reasonOf returns the native form of a reason. The documentation of native policies lists Unauthorized, but their
// validation rejects it.
func reasonOf(reason policyv1alpha1.PolicyReason) metav1.StatusReason {
	if reason == policyv1alpha1.PolicyUnauthorized {
		return metav1.StatusReasonForbidden
	}
	return metav1.StatusReason(reason)
}

// now maps the names of an expression to those of the native policy; then maps them to those of the object before the
// update.
func (x *exporter) now() substitution {
	return substitution{names: map[string]replacement{nameParams: {nameVariables + "." + x.paramsName, nameVariables}}}
}

func (x *exporter) then() substitution {
	s := x.now()
	s.names[nameObject] = replacement{nameOldObject, nameOldObject}
	s.members = x.before
	return s
}

// dependent reports whether an expression can have another result for the object before the update.
func (x *exporter) dependent(e *expression) bool {
	return e.reading(nameObject) || slices.ContainsFunc(e.members(), func(name string) bool { return x.before[name] != "" })
}

func (x *exporter) updates() bool {
	return slices.Contains(x.spec.Match.Operations, policyv1alpha1.PolicyUpdate)
}

// variables rewrites the variables, and again for the object before the update if they depend on it.
func (x *exporter) variables() {
	if x.readsParams() {
		x.declare(x.paramsName, x.params, "spec.params")
	}
	for i := range x.spec.Variables {
		v, at := &x.spec.Variables[i], fmt.Sprintf("spec.variables[%d].expression", i)
		e := x.read(v.Expression, at)
		if e == nil {
			continue
		}
		if text, err := e.rewritten(x.now()); err != nil {
			x.reject(at, err)
		} else {
			x.declare(v.Name, text, at)
		}
		if !x.updates() || !x.dependent(e) {
			continue
		}
		text, err := e.rewritten(x.then())
		if err != nil {
			x.reject(at, err)
			continue
		}
		x.before[v.Name] = x.free(v.Name + "Before")
		x.declare(x.before[v.Name], text, at)
	}
}

func (x *exporter) declare(name, text, at string) {
	if err := x.proof.variable(name, text); err != nil {
		x.reject(at, fmt.Errorf("not every supported API server accepts it: %w", err))
		return
	}
	x.declared = append(x.declared, admissionregistrationv1.Variable{Name: name, Expression: text})
}

// readsParams reports whether a variable for the parameters is needed.
func (x *exporter) readsParams() bool {
	var texts []string
	for i := range x.spec.Variables {
		texts = append(texts, x.spec.Variables[i].Expression)
	}
	for i := range x.spec.Validations {
		texts = append(texts, x.spec.Validations[i].Expression, x.spec.Validations[i].MessageExpression)
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		e, err := parse(x.env, text)
		return text != "" && err == nil && e.reading(nameParams)
	})
}

// The tests for an update in policies without and with deletions.
const (
	updateOnly        = "oldObject != null"
	updateNotDeletion = "request.operation == 'UPDATE'"
)

// validation returns a validation that also admits an update of an object that violated it before, as Virtward's
// ratchet does.
func (x *exporter) validation(expression, at string) string {
	e := x.read(expression, at)
	if e == nil {
		return ""
	}
	text, err := e.rewritten(x.now())
	if err == nil && x.updates() {
		var then string
		then, err = e.rewritten(x.then())
		updates := updateOnly
		if deletes(&x.spec.Match) {
			updates = updateNotDeletion
		}
		text = bracketed(text) + " || (" + updates + " && !" + bracketed(then) + ")"
	}
	if err != nil {
		x.reject(at, err)
		return ""
	}
	if text, err = x.proof.condition(strings.TrimSpace(text)); err != nil {
		x.reject(at, fmt.Errorf("not every supported API server accepts it: %w", err))
	}
	return text
}

// messageExpression returns nothing if the API server cannot evaluate it: then message is used.
func (x *exporter) messageExpression(expression, at string) string {
	e, err := x.understood(expression)
	text := ""
	if err == nil {
		text, err = e.rewritten(x.now())
	}
	if err == nil {
		text, err = x.proof.message(text)
	}
	if err != nil {
		x.notes.messages = append(x.notes.messages, at)
		return ""
	}
	x.notes.compare(e, at)
	return text
}

// message returns the message as Virtward has it, without what it reads of the object.
func (x *exporter) message(v *policyv1alpha1.PolicyValidation) string {
	text := texts.OneLine(v.Message)
	if text == "" {
		text = "this expression is false: " + texts.OneLine(v.Expression)
	}
	text += " [virtward/" + x.policy.Rule() + "]"
	if remedy := texts.OneLine(x.spec.Remedy); remedy != "" {
		text += " " + remedy
	}
	return text
}
