package policies

import (
	"fmt"
	"slices"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/texts"
)

// maxProblems bounds the problems of one policy.
const maxProblems = policyv1alpha1.MaxPolicyProblems

// Policy is a compiled VirtualMachinePolicy. It is immutable and safe for concurrent use.
type Policy struct {
	name string
	// spec has the defaults filled in.
	spec    *policyv1alpha1.VirtualMachinePolicySpec
	kinds   map[policyv1alpha1.PolicyKind]*kind
	matcher *matcher
	// conditions are nil if there are none, and evaluator if the policy is broken.
	conditions *conditions
	params     params
	evaluator  Evaluator
	// broken says why the policy cannot be evaluated; empty if it can.
	broken      string
	unauditable []string
	// readsRequest tells that it reads what only a request has.
	readsRequest bool
	// readsNamespace tells that it matters what the object's namespace is like.
	readsNamespace bool
}

// namespaceObject is the document that is the namespace of the object.
const namespaceObject = "namespaceObject"

// Compile prepares a policy, and says what is wrong with it or doubtful in it. There is a Policy in any case: one
// that is broken, which is one with a Problem that is no warning, cannot be evaluated about what it matches, so that
// its failurePolicy decides. The ConfigMap of its parameters is read now: compile the policy again when that
// changes. resolve may be nil: then there is no ConfigMap. found are problems that the caller knows of, such as a part
// of the object that could not be read; they count as the others.
func Compile(env *cel.Environment, policy *policyv1alpha1.VirtualMachinePolicy, resolve ParamsResolver, found ...diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	spec, problems := fitted(policy)
	p := &Policy{name: firstOf(policy.Name, "unnamed"), spec: &spec, kinds: map[policyv1alpha1.PolicyKind]*kind{}}
	assumed(&p.spec.Match)
	for _, k := range evaluated() {
		if slices.Contains(p.spec.Match.Kinds, k.name) {
			p.kinds[k.name] = &k
		}
	}
	if diagnostics.Broken(problems) { // it may be out of all bounds: nothing more is read of it
		return p.unread(slices.Concat(found, problems))
	}
	problems = slices.Concat(found, problems)
	var more []diagnostics.Problem
	p.matcher, more = newMatcher(p.spec)
	problems = append(problems, more...)
	var errs field.ErrorList
	p.params, errs = readParams(p.spec.Params, resolve)
	problems = append(problems, problemsOf(errs)...)
	problems = append(problems, p.doubtfulFields()...)
	if bytes := expressionBytes(p.spec); bytes > maxExpressions {
		return p.finish(append(problems, diagnostics.Problem{Field: "spec", Message: fmt.Sprintf("its expressions have %d bytes together, where %d are the most", bytes, maxExpressions)}))
	}
	p.conditions, more = compileConditions(env, p.spec, &p.params)
	problems = append(problems, more...)
	p.evaluator, more = newEvaluator(env, p.name, p.spec, &p.params)
	problems = append(problems, more...)
	return p.finish(append(problems, p.doubtfulKinds()...))
}

// LeftOut is a policy that is not compiled, for a reason which counts as a problem of it. It is broken.
func LeftOut(policy *policyv1alpha1.VirtualMachinePolicy, why diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	p := &Policy{name: firstOf(policy.Name, "unnamed"), spec: policy.Spec.DeepCopy(), kinds: map[policyv1alpha1.PolicyKind]*kind{}}
	assumed(&p.spec.Match)
	return p.unread([]diagnostics.Problem{why})
}

// unread is the policy as one of which nothing is known but what it is asked about.
func (p *Policy) unread(problems []diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	p.matcher = &matcher{kinds: p.spec.Match.Kinds, operations: p.spec.Match.Operations}
	return p.finish(problems)
}

// Size is what a policy consists of, in bytes: its expressions, its module, its values and their schema, and something
// for the rest. Compiled, it takes up to a hundred times as much memory.
func Size(spec *policyv1alpha1.VirtualMachinePolicySpec) int {
	const rest = 512
	bytes := rest + expressionBytes(spec)
	if spec.Rego != nil {
		bytes += len(spec.Rego.Module)
	}
	if p := spec.Params; p != nil {
		for _, part := range []*apiextensionsv1.JSON{p.Values, p.Schema} {
			if part != nil {
				bytes += len(part.Raw)
			}
		}
	}
	return bytes
}

// maxExpressions bounds the expressions of a policy together, in bytes. Compiling as many takes up to a second, and ten
// megabytes that stay.
const maxExpressions = 64 << 10

func expressionBytes(spec *policyv1alpha1.VirtualMachinePolicySpec) int {
	bytes := 0
	for i := range spec.Match.MatchConditions {
		bytes += len(spec.Match.MatchConditions[i].Expression)
	}
	for i := range spec.Variables {
		bytes += len(spec.Variables[i].Expression)
	}
	for i := range spec.Validations {
		bytes += len(spec.Validations[i].Expression) + len(spec.Validations[i].MessageExpression)
	}
	return bytes
}

// newEvaluator compiles what the policy consists of; nil if that failed.
func newEvaluator(env *cel.Environment, name string, spec *policyv1alpha1.VirtualMachinePolicySpec, p *params) (Evaluator, []diagnostics.Problem) {
	if spec.Rego != nil {
		return compileModule(name, spec)
	}
	v, problems := compileValidations(env, spec, p)
	if v == nil || diagnostics.Broken(problems) {
		return nil, problems
	}
	return v, problems
}

// assumed fills in what the definition does, for a policy that does not fit it.
func assumed(match *policyv1alpha1.PolicyMatch) {
	if len(match.Kinds) == 0 {
		match.Kinds = []policyv1alpha1.PolicyKind{policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyVirtualMachineInstance}
	}
	if len(match.Operations) == 0 {
		match.Operations = []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyCreate, policyv1alpha1.PolicyUpdate}
	}
}

// finish notes what the problems mean.
func (p *Policy) finish(problems []diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	problems = distinct(problems)
	if diagnostics.Broken(problems) {
		p.broken = "the policy is broken: " + diagnostics.Summary(problems)
		p.conditions, p.evaluator = nil, nil
	}
	p.unauditable, p.readsRequest = p.whyNotAuditable(), len(p.whatReadsRequest()) > 0
	p.readsNamespace = p.matcher.namespaces != nil || p.conditions.reads(namespaceObject) || p.evaluator != nil && p.evaluator.Reads(namespaceObject)
	if more := len(problems) - maxProblems; more > 0 {
		problems = problems[:maxProblems]
		problems[maxProblems-1].Message = texts.Shorten(fmt.Sprintf("%s (and %d more problems)", problems[maxProblems-1].Message, more), diagnostics.MaxMessage)
	}
	return p, problems
}

// distinct are the problems without those that are told already, errors first.
func distinct(problems []diagnostics.Problem) []diagnostics.Problem {
	var found []diagnostics.Problem
	for _, p := range problems {
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	diagnostics.SortBySeverity(found)
	return found
}

// doubtfulFields are the fieldPaths that no kind has, and warnings about those that some lack.
func (p *Policy) doubtfulFields() []diagnostics.Problem {
	var problems []diagnostics.Problem
	for i := range p.spec.Validations {
		v := &p.spec.Validations[i]
		at := fmt.Sprintf("spec.validations[%d]", i)
		if v.FieldPath == "" {
			if v.MessageExpression == "" {
				problems = append(problems, diagnostics.Problem{Field: at, Warning: true, Message: "without a fieldPath and a messageExpression, an update that makes a violation worse looks like one that leaves it as it was, and is let through with a warning"})
			}
			continue
		}
		var lacking []string
		said := ""
		for _, name := range p.spec.Match.Kinds {
			if k := p.kinds[name]; k != nil {
				if unknown := k.known(v.FieldPath); unknown != "" {
					lacking, said = append(lacking, string(name)), unknown
				}
			}
		}
		if len(lacking) > 0 {
			problems = append(problems, diagnostics.Problem{
				Field: at + ".fieldPath", Warning: len(lacking) < len(p.kinds),
				Message: fmt.Sprintf("in a %s: %s", strings.Join(lacking, " and a "), said),
			})
		}
	}
	return problems
}

// doubtfulKinds warns of a policy for VMs that is not for their instances, unless it reads nothing that may have become
// different by the time a VM starts.
func (p *Policy) doubtfulKinds() []diagnostics.Problem {
	kinds := p.spec.Match.Kinds
	if !slices.Contains(kinds, policyv1alpha1.PolicyVirtualMachine) || slices.Contains(kinds, policyv1alpha1.PolicyVirtualMachineInstance) {
		return nil
	}
	reads := func(document string) bool {
		return p.conditions.reads(document) || p.evaluator != nil && p.evaluator.Reads(document)
	}
	if !slices.ContainsFunc([]string{"vm", "provenance", "instancetype", "preference"}, reads) {
		return nil
	}
	return []diagnostics.Problem{{
		Field: matchPath.Child("kinds").String(), Warning: true,
		Message: "without VirtualMachineInstance the policy is not asked again when a VM starts: what its instancetype and preference say by then is not evaluated",
	}}
}

// maxReasons bounds what whyNotAuditable says.
const maxReasons = 16

func (p *Policy) whyNotAuditable() []string {
	var reasons []string
	if p.broken != "" {
		reasons = append(reasons, p.broken)
	}
	if !slices.Contains(p.spec.Match.Operations, policyv1alpha1.PolicyCreate) {
		reasons = append(reasons, "spec.match.operations: it is asked about changes, and there is none to evaluate")
	}
	reasons = append(reasons, p.whatReadsRequest()...)
	return reasons[:min(len(reasons), maxReasons)]
}

// whatReadsRequest says what of the policy reads what only a request has.
func (p *Policy) whatReadsRequest() []string {
	reasons := p.conditions.unauditable()
	if p.evaluator != nil {
		reasons = append(reasons, p.evaluator.Unauditable()...)
	}
	return reasons
}

// ReadsRequest reports whether the policy decides by who sends the request, or by anything else that only a request has.
func (p *Policy) ReadsRequest() bool { return p.readsRequest }

// Name is that of the object.
func (p *Policy) Name() string { return p.name }

// Rule is what its findings name: policy/NAME.
func (p *Policy) Rule() string { return RulePrefix + p.name }

// RulePrefix begins the rule of every finding of a policy.
const RulePrefix = "policy/"

// Spec is that of the object, with its defaults. It is shared: do not change it.
func (p *Policy) Spec() *policyv1alpha1.VirtualMachinePolicySpec { return p.spec }

// Broken says why the policy cannot be evaluated about anything; empty if it can.
func (p *Policy) Broken() string { return p.broken }

// ParamsMissing says why the policy has no parameters although it reads some; empty if it has, or reads none.
func (p *Policy) ParamsMissing() string { return p.params.missing }

// Params are the values that expressions read as params; nil if there are none. They are shared: do not change
// them.
func (p *Policy) Params() map[string]any { return p.params.value }

// Module is what the policy consists of if it is in Rego, for coverage and traces; nil if it is not, or is broken.
func (p *Policy) Module() *rego.Module {
	if m, ok := p.evaluator.(*module); ok {
		return m.compiled
	}
	return nil
}

// Unauditable says why the policy cannot be asked about what exists already; nothing if it can.
func (p *Policy) Unauditable() []string { return p.unauditable }

// EstimatedCost is what asking the policy about an object may cost at most, in units of CEL; 0 if nobody knows.
func (p *Policy) EstimatedCost() uint64 {
	if p.evaluator == nil {
		return 0
	}
	return p.evaluator.EstimatedCost()
}

// NextExpiry is when the next of its exceptions ends; zero if none does.
func (p *Policy) NextExpiry(now time.Time) time.Time {
	var next time.Time
	for i := range p.spec.Exceptions {
		if at := p.spec.Exceptions[i].Expires; at != nil && at.After(now) && (next.IsZero() || at.Time.Before(next)) {
			next = at.Time
		}
	}
	return next
}

// Expired are the indices of the exceptions that are over.
func (p *Policy) Expired(now time.Time) []int {
	var over []int
	for i := range p.spec.Exceptions {
		if expired(&p.spec.Exceptions[i], now) {
			over = append(over, i)
		}
	}
	return over
}
