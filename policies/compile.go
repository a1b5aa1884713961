package policies

import (
	"fmt"
	"reflect"
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
	// spec has all defaults.
	spec    *policyv1alpha1.VirtualMachinePolicySpec
	kinds   map[policyv1alpha1.PolicyKind]*kind
	matcher *matcher
	// conditions are nil if there are none, and evaluator if the policy is broken.
	conditions *conditions
	params     params
	evaluator  Evaluator
	// broken is why the policy cannot be evaluated; empty if it can.
	broken string
	// notEnabled says which kinds of referenced objects the policy reads, but Virtward may not; empty if there are none.
	notEnabled  string
	unauditable []string
	// readsRequest reports whether the policy reads what only a request has.
	readsRequest bool
	// readsNamespace reports whether the policy reads the namespace of the object.
	readsNamespace bool
	// readsPod, readsDomain and readsTargets report which previews the policy reads.
	readsPod, readsDomain, readsTargets bool
	// references are the kinds of referenced objects that the policy reads, sorted.
	references []string
	// gathered are also the kinds that variables need which the policy reads, as far as Virtward may read them.
	gathered []string
	// recorder receives the outcomes of evaluations; nil for none.
	recorder Recorder
}

// namespaceObject is the name of the document with the namespace of the object.
const namespaceObject = "namespaceObject"

// Compile compiles a policy, and returns its problems. It always returns a Policy. If one of the problems is an error,
// the policy is invalid: it cannot be evaluated, and its failurePolicy applies to every object that it matches. The
// ConfigMap of its parameters is read now: compile the policy again when that changes. resolve can be nil: then there
// is no ConfigMap. found are problems that the caller knows, such as a part of the object that could not be decoded.
func Compile(env *cel.Environment, policy *policyv1alpha1.VirtualMachinePolicy, resolve ParamsResolver, found ...diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	spec, problems := fitted(policy)
	p := &Policy{name: firstOf(policy.Name, "unnamed"), spec: &spec, kinds: map[policyv1alpha1.PolicyKind]*kind{}}
	assumed(&p.spec.Match)
	for _, k := range evaluated() {
		if slices.Contains(p.spec.Match.Kinds, k.name) {
			p.kinds[k.name] = &k
		}
	}
	if diagnostics.Broken(problems) { // the spec can exceed every bound: nothing more of it is read
		return p.unread(slices.Concat(found, problems))
	}
	problems = slices.Concat(found, problems)
	var more []diagnostics.Problem
	p.matcher, more = newMatcher(p.spec)
	problems = append(problems, more...)
	var errs field.ErrorList
	p.params, errs = readParams(p.spec.Params, resolve)
	problems = append(problems, problemsOfParams(errs)...)
	problems = append(problems, p.doubtfulFields()...)
	if bytes := expressionBytes(p.spec); bytes > maxExpressions {
		return p.finish(append(problems, diagnostics.Problem{Field: "spec", Message: fmt.Sprintf("the expressions have %d bytes together: at most %d", bytes, maxExpressions)}))
	}
	p.conditions, more = compileConditions(env, p.spec, &p.params)
	problems = append(problems, more...)
	p.evaluator, more = newEvaluator(env, p.name, p.spec, &p.params)
	problems = append(problems, more...)
	return p.finish(slices.Concat(problems, p.doubtfulKinds(), p.doubtfulDeletions()))
}

// WithReferences returns a compiled policy as it is if Virtward may read only some kinds of referenced objects, with its problems.
// A policy that reads others cannot be evaluated. enabled are plural names of resources.
func WithReferences(p *Policy, enabled []string, problems []diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	var missing []string
	for _, kind := range p.references {
		if !slices.Contains(enabled, strings.ToLower(kind)) {
			missing = append(missing, kind)
		}
	}
	without := *p
	if len(missing) == 0 {
		without.gathered = slices.DeleteFunc(slices.Clone(p.gathered), func(kind string) bool { return !slices.Contains(enabled, strings.ToLower(kind)) })
		return &without, problems
	}
	without.notEnabled = fmt.Sprintf("the policy reads references.%s, which are not enabled: add %s to the chart's value policies.references",
		strings.Join(missing, " and references."), strings.ToLower(strings.Join(missing, ", ")))
	return without.finish(append([]diagnostics.Problem{{Field: "spec", Message: without.notEnabled}}, problems...))
}

// LeftOut returns a policy that is not compiled, with the reason as its problem. It is broken.
func LeftOut(policy *policyv1alpha1.VirtualMachinePolicy, why diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	p := &Policy{name: firstOf(policy.Name, "unnamed"), spec: policy.Spec.DeepCopy(), kinds: map[policyv1alpha1.PolicyKind]*kind{}}
	assumed(&p.spec.Match)
	return p.unread([]diagnostics.Problem{why})
}

// unread returns the policy with only its kinds and operations.
func (p *Policy) unread(problems []diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	p.matcher = &matcher{kinds: p.spec.Match.Kinds, operations: p.spec.Match.Operations}
	return p.finish(problems)
}

// Size returns the size of a policy in bytes: its expressions, its module, its values and their schema, an eighth of its other
// texts, and a constant for the rest. The compiled policy needs up to a hundred times as much memory.
func Size(spec *policyv1alpha1.VirtualMachinePolicySpec) int {
	const (
		rest = 512
		// shrunk is what other texts, such as messages and the values of selectors, take less than expressions.
		shrunk = 8
	)
	bytes := expressionBytes(spec)
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
	return rest + bytes + (Bytes(spec)-bytes)/shrunk
}

// Bytes returns the bytes of all texts of a policy.
func Bytes(spec *policyv1alpha1.VirtualMachinePolicySpec) int {
	return textBytes(reflect.ValueOf(spec))
}

// textBytes returns the bytes of the texts in a value of an API type, the keys of maps included, and wordBytes for each element
// of a list.
func textBytes(v reflect.Value) int {
	const wordBytes = 16
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return textBytes(v.Elem())
	case reflect.String:
		return v.Len()
	case reflect.Struct:
		bytes := 0
		for i := range v.NumField() {
			bytes += textBytes(v.Field(i))
		}
		return bytes
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // JSON
			return v.Len()
		}
		bytes := wordBytes * v.Len()
		for i := range v.Len() {
			bytes += textBytes(v.Index(i))
		}
		return bytes
	case reflect.Map:
		bytes := wordBytes * v.Len()
		for entries := v.MapRange(); entries.Next(); {
			bytes += textBytes(entries.Key()) + textBytes(entries.Value())
		}
		return bytes
	default:
		return 0
	}
}

// maxExpressions bounds the expressions of a policy together, in bytes. Compiling them takes up to a second and ten
// megabytes, which stay allocated.
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

// newEvaluator compiles the validations or the module; it returns nil if that fails.
func newEvaluator(env *cel.Environment, name string, spec *policyv1alpha1.VirtualMachinePolicySpec, p *params) (Evaluator, []diagnostics.Problem) {
	if spec.Rego != nil {
		return compileModule(name, spec, p)
	}
	v, problems := compileValidations(env, spec, p)
	if v == nil || diagnostics.Broken(problems) {
		return nil, problems
	}
	return v, problems
}

// assumed adds the defaults of the definition, for a policy that does not fit it.
func assumed(match *policyv1alpha1.PolicyMatch) {
	if len(match.Kinds) == 0 {
		match.Kinds = []policyv1alpha1.PolicyKind{policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyVirtualMachineInstance}
	}
	if len(match.Operations) == 0 {
		match.Operations = []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyCreate, policyv1alpha1.PolicyUpdate}
	}
}

// finish derives the state of the policy from its problems.
func (p *Policy) finish(problems []diagnostics.Problem) (*Policy, []diagnostics.Problem) {
	problems = distinct(problems)
	if diagnostics.Broken(problems) {
		p.broken = "the policy is invalid: " + diagnostics.Summary(diagnostics.Public(problems))
		p.conditions, p.evaluator = nil, nil
	}
	p.unauditable, p.readsRequest = p.whyNotAuditable(), len(p.whatReadsRequest()) > 0
	p.readsNamespace = p.matcher.namespaces != nil || p.reads(namespaceObject)
	p.readsPod, p.readsDomain, p.readsTargets = p.reads("pod"), p.reads("domain"), p.reads("migrationTargets")
	p.references = p.conditions.references()
	if p.evaluator != nil {
		p.references = append(p.references, p.evaluator.References()...)
	}
	slices.Sort(p.references)
	p.references = slices.Compact(p.references)
	p.gathered = p.references
	if p.readsTargets {
		p.gathered = slices.Concat(p.references, cel.TargetReferences())
	}
	if more := len(problems) - maxProblems; more > 0 {
		problems = problems[:maxProblems]
		problems[maxProblems-1].Message = texts.Shorten(fmt.Sprintf("%s (and %d more problems)", problems[maxProblems-1].Message, more), diagnostics.MaxMessage)
	}
	return p, problems
}

// reads reports whether the policy reads a document.
func (p *Policy) reads(document string) bool {
	return p.conditions.reads(document) || p.evaluator != nil && p.evaluator.Reads(document)
}

// distinct returns the problems without duplicates, errors first.
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

// doubtfulFields returns errors about fieldPaths that no kind has, and warnings about fieldPaths that some kinds do not
// have.
func (p *Policy) doubtfulFields() []diagnostics.Problem {
	var problems []diagnostics.Problem
	for i := range p.spec.Validations {
		v := &p.spec.Validations[i]
		at := fmt.Sprintf("spec.validations[%d]", i)
		if v.FieldPath == "" {
			if v.MessageExpression == "" && !p.onlyDeletes() {
				problems = append(problems, diagnostics.Problem{Field: at, Warning: true, Message: "without a fieldPath and a messageExpression, an update that makes a violation worse is admitted with a warning: it cannot be distinguished from one that does not change it"})
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

// doubtfulKinds warns if a policy applies to VMs but not to their instances, and reads what can change before a VM
// starts.
func (p *Policy) doubtfulKinds() []diagnostics.Problem {
	kinds := p.spec.Match.Kinds
	if !slices.Contains(kinds, policyv1alpha1.PolicyVirtualMachine) || slices.Contains(kinds, policyv1alpha1.PolicyVirtualMachineInstance) || p.onlyDeletes() {
		return nil
	}
	if !slices.ContainsFunc([]string{"vm", "provenance", "instancetype", "preference", "pod", "domain", "migrationTargets"}, p.reads) {
		return nil
	}
	return []diagnostics.Problem{{
		Field: matchPath.Child("kinds").String(), Warning: true,
		Message: "without VirtualMachineInstance, the policy is not evaluated again when a VM starts: it misses changes of the instancetype and the preference",
	}}
}

// onlyDeletes reports whether the policy is evaluated only on deletions.
func (p *Policy) onlyDeletes() bool {
	return slices.Equal(p.spec.Match.Operations, []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyDelete})
}

// doubtfulDeletions warns of expressions that read fields of the object, which is null on DELETE.
func (p *Policy) doubtfulDeletions() []diagnostics.Problem {
	if !slices.Contains(p.spec.Match.Operations, policyv1alpha1.PolicyDelete) {
		return nil
	}
	var problems []diagnostics.Problem
	doubt := func(field, message string) {
		problems = append(problems, diagnostics.Problem{Field: field, Warning: true, Message: message})
	}
	const advice = "object is null on DELETE: read oldObject, or test object == null first"
	guarded := false
	if p.conditions != nil {
		for _, one := range p.conditions.all {
			if one.program == nil {
				continue
			}
			guarded = guarded || one.program.Guards("object")
			if one.program.ReadsUnguarded("object") {
				doubt(one.path, advice)
			}
		}
	}
	switch e := p.evaluator.(type) {
	case *validations:
		for i := range e.all {
			if !guarded && e.all[i].expression.ReadsUnguarded("object") {
				doubt(e.all[i].path+".expression", advice)
			}
		}
	case *module:
		if e.Reads("object") && !e.Reads("oldObject") {
			doubt(moduleField, "input.object is undefined on DELETE, so a rule that reads it has no result: read input.oldObject")
		}
	}
	return problems
}

// maxReasons bounds the reasons of whyNotAuditable.
const maxReasons = 16

func (p *Policy) whyNotAuditable() []string {
	var reasons []string
	if p.broken != "" {
		reasons = append(reasons, p.broken)
	}
	if !slices.Contains(p.spec.Match.Operations, policyv1alpha1.PolicyCreate) {
		reasons = append(reasons, "spec.match.operations: the audit evaluates objects as if they were created")
	}
	reasons = append(reasons, p.whatReadsRequest()...)
	return reasons[:min(len(reasons), maxReasons)]
}

// whatReadsRequest returns which expressions read what only a request has.
func (p *Policy) whatReadsRequest() []string {
	reasons := p.conditions.unauditable()
	if p.evaluator != nil {
		reasons = append(reasons, p.evaluator.Unauditable()...)
	}
	return reasons
}

// ReadsRequest reports whether the policy reads the requester, or other data that only a request has.
func (p *Policy) ReadsRequest() bool { return p.readsRequest }

// References returns the kinds of referenced objects that the policy reads, sorted: those of cel.ReferenceKinds.
func (p *Policy) References() []string { return p.references }

// Name returns the name of the object.
func (p *Policy) Name() string { return p.name }

// Rule returns the rule of its findings: policy/NAME.
func (p *Policy) Rule() string { return RulePrefix + p.name }

// RulePrefix is the prefix of the rule of every finding of a policy.
const RulePrefix = "policy/"

// Spec returns the spec with its defaults. It is shared: do not change it.
func (p *Policy) Spec() *policyv1alpha1.VirtualMachinePolicySpec { return p.spec }

// Broken returns why the policy cannot be evaluated; empty if it can.
func (p *Policy) Broken() string { return p.broken }

// ParamsMissing returns why the parameters of the policy do not exist; empty if they do, or if it has none.
func (p *Policy) ParamsMissing() string { return p.params.missing }

// NotEnabled returns which kinds of referenced objects the policy reads, but Virtward may not; empty if there are none. The policy
// is broken then.
func (p *Policy) NotEnabled() string { return p.notEnabled }

// Params returns the parameters; nil if there are none. They are shared: do not change them.
func (p *Policy) Params() map[string]any { return p.params.value }

// Module returns the module of a policy in Rego, for coverage and traces; nil for other policies, and for broken ones.
func (p *Policy) Module() *rego.Module {
	if m, ok := p.evaluator.(*module); ok {
		return m.compiled
	}
	return nil
}

// Unauditable returns why the audit cannot evaluate the policy; nil if it can.
func (p *Policy) Unauditable() []string { return p.unauditable }

// EstimatedCost returns the most that one evaluation costs, in units of CEL; 0 if it is unknown.
func (p *Policy) EstimatedCost() uint64 {
	if p.evaluator == nil {
		return 0
	}
	return p.evaluator.EstimatedCost()
}

// NextExpiry returns when the next exception expires; zero if none does.
func (p *Policy) NextExpiry(now time.Time) time.Time {
	var next time.Time
	for i := range p.spec.Exceptions {
		if at := p.spec.Exceptions[i].Expires; at != nil && at.After(now) && (next.IsZero() || at.Time.Before(next)) {
			next = at.Time
		}
	}
	return next
}

// Expired returns the indices of the expired exceptions.
func (p *Policy) Expired(now time.Time) []int {
	var over []int
	for i := range p.spec.Exceptions {
		if expired(&p.spec.Exceptions[i], now) {
			over = append(over, i)
		}
	}
	return over
}
