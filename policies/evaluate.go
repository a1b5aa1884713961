package policies

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// Evaluator evaluates the requirements of a policy: validations in CEL, or a module in Rego. It is immutable and safe
// for concurrent use.
type Evaluator interface {
	// FindViolations returns the violations of a case, and the errors of what could not be evaluated.
	FindViolations(c *Case) ([]diagnostics.Violation, []EvaluationError)
	// Unauditable returns why the audit cannot evaluate it; nil if it can.
	Unauditable() []string
	// Reads reports whether it reads a document, by its name in expressions.
	Reads(document string) bool
	// References returns the kinds of referenced objects that it reads: those of cel.ReferenceKinds.
	References() []string
	// EstimatedCost returns the most that one evaluation costs, in units of CEL; 0 if it is unknown.
	EstimatedCost() uint64
}

// Case is what one policy is evaluated on.
type Case struct {
	// Documents have the parameters of the policy.
	Documents *cel.Documents

	input *input
	// budget is what the policy may spend.
	budget *cel.Budget
	// spare has the memory that the policies that do not deny share; nil for a policy that denies.
	spare *cel.Budget
}

// EvaluationError is why an expression or a module could not be evaluated.
type EvaluationError struct {
	// Field of the policy: spec.validations[0].expression.
	Field string
	Err   error
}

// validations is the Evaluator of CEL.
type validations struct {
	scope *cel.Scope
	all   []assertion
}

// assertion is a compiled validation.
type assertion struct {
	spec *policyv1alpha1.PolicyValidation
	// path is the path of the validation in the policy.
	path string
	// message is nil without a messageExpression.
	expression, message *cel.Program
}

// compileValidations compiles the validations of a policy, and its variables.
func compileValidations(env *cel.Environment, spec *policyv1alpha1.VirtualMachinePolicySpec, p *params) (*validations, []diagnostics.Problem) {
	scope, issues := env.Scope(scopeOptions(spec, p, true))
	problems := diagnostics.In("spec", issues)
	if scope == nil {
		return nil, problems
	}
	v := &validations{scope: scope, all: make([]assertion, 0, len(spec.Validations))}
	var programs []*cel.Program
	for i := range spec.Validations {
		one := assertion{spec: &spec.Validations[i], path: fmt.Sprintf("spec.validations[%d]", i)}
		one.expression, issues = scope.Compile(one.spec.Expression, cel.Bool)
		problems = append(problems, diagnostics.In(one.path+".expression", issues)...)
		if one.spec.MessageExpression != "" {
			one.message, issues = scope.Compile(one.spec.MessageExpression, cel.String)
			problems = append(problems, diagnostics.In(one.path+".messageExpression", issues)...)
		}
		v.all, programs = append(v.all, one), append(programs, one.expression, one.message)
	}
	return v, append(problems, tooManyPatterns("spec.validations", scope, programs)...)
}

// maxPatterns bounds the compiled patterns of the validations, or of the match conditions, of a policy together, in bytes.
const maxPatterns = 2 << 20

func tooManyPatterns(of string, scope *cel.Scope, programs []*cel.Program) []diagnostics.Problem {
	if bytes := scope.PatternBytes(programs...); bytes > maxPatterns {
		return []diagnostics.Problem{{Field: of, Message: fmt.Sprintf("the regular expressions take %d bytes of memory together when they are compiled: at most %d; repeat fewer characters", bytes, maxPatterns)}}
	}
	return nil
}

func scopeOptions(spec *policyv1alpha1.VirtualMachinePolicySpec, p *params, variables bool) cel.ScopeOptions {
	options := cel.ScopeOptions{Params: p.declared, Values: p.value}
	for _, kind := range spec.Match.Kinds {
		options.Kinds = append(options.Kinds, string(kind))
	}
	for i := range spec.Variables {
		if variables {
			options.Variables = append(options.Variables, cel.Expression{Name: spec.Variables[i].Name, Expression: spec.Variables[i].Expression})
		}
	}
	return options
}

// FindViolations implements Evaluator.
func (v *validations) FindViolations(c *Case) ([]diagnostics.Violation, []EvaluationError) {
	var violations []diagnostics.Violation
	var errs []EvaluationError
	activation, budget := v.scope.Activation(c.Documents), c.budget
	for i := range v.all {
		one := &v.all[i]
		if c.spare != nil && c.Documents.OutOfTime() {
			return nil, []EvaluationError{{one.path + ".expression", errNoTime}}
		}
		holds, err := one.expression.Eval(activation, budget)
		if err != nil {
			errs = append(errs, EvaluationError{one.path + ".expression", err})
			if errors.Is(err, cel.ErrBudget) { // the others would fail too
				break
			}
			continue
		}
		if holds != true {
			violations = append(violations, diagnostics.Violation{Message: one.text(activation, budget), Literal: one.spec.Message, Field: one.spec.FieldPath, Reason: one.spec.Reason})
		}
	}
	return violations, errs
}

// errNoTime ends a policy that does not deny.
var errNoTime = errors.New("there was no time")

// text returns the message of a violation: the result of messageExpression or, with a note, message.
func (v *assertion) text(activation *cel.Activation, budget *cel.Budget) string {
	if v.message == nil {
		return v.spec.Message
	}
	made, err := v.message.Eval(activation, budget)
	text, _ := made.(string)
	if err == nil && strings.TrimSpace(text) != "" {
		return text
	}
	fallback := v.spec.Message
	if fallback == "" {
		fallback = "this expression is false: " + texts.Shorten(v.spec.Expression, diagnostics.MaxMessage/2)
	}
	if err == nil {
		return fallback + " (messageExpression is empty)"
	}
	return fallback + " (messageExpression failed: " + texts.Shorten(err.Error(), diagnostics.MaxMessage/4) + ")"
}

// Unauditable implements Evaluator.
func (v *validations) Unauditable() []string {
	var reasons []string
	for i := range v.all {
		reasons = append(reasons, unauditable(v.all[i].path+".expression", v.all[i].expression)...)
		if v.all[i].message != nil {
			reasons = append(reasons, unauditable(v.all[i].path+".messageExpression", v.all[i].message)...)
		}
	}
	return reasons
}

// Reads implements Evaluator.
func (v *validations) Reads(document string) bool {
	return slices.ContainsFunc(v.all, func(one assertion) bool {
		return slices.Contains(one.expression.Reads(), document) || one.message != nil && slices.Contains(one.message.Reads(), document)
	})
}

// References implements Evaluator.
func (v *validations) References() []string {
	var kinds []string
	for i := range v.all {
		kinds = append(kinds, v.all[i].expression.References()...)
		if v.all[i].message != nil {
			kinds = append(kinds, v.all[i].message.References()...)
		}
	}
	return kinds
}

// unauditable returns what a program reads that only a request has.
func unauditable(field string, p *cel.Program) []string {
	var reasons []string
	if p.UsesAuthorizer() {
		reasons = append(reasons, field+" reads authorizer")
	}
	if p.UsesRequest() {
		reasons = append(reasons, field+" reads the request")
	}
	return reasons
}

// EstimatedCost implements Evaluator.
func (v *validations) EstimatedCost() uint64 {
	var cost uint64
	for i := range v.all {
		cost = plus(cost, v.all[i].expression.EstimatedCost().Max)
		if v.all[i].message != nil {
			cost = plus(cost, v.all[i].message.EstimatedCost().Max)
		}
	}
	return cost
}

// plus adds costs without overflow.
func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// conditions are the matchConditions of a policy.
type conditions struct {
	scope *cel.Scope
	all   []condition
}

type condition struct {
	path    string
	program *cel.Program
}

// compileConditions compiles the conditions, in a scope without the policy's variables; it returns nil if there are
// none.
func compileConditions(env *cel.Environment, spec *policyv1alpha1.VirtualMachinePolicySpec, p *params) (*conditions, []diagnostics.Problem) {
	if len(spec.Match.MatchConditions) == 0 {
		return nil, nil
	}
	scope, issues := env.Scope(scopeOptions(spec, p, false))
	problems := diagnostics.In("spec", issues)
	if scope == nil {
		return nil, problems
	}
	c := &conditions{scope: scope}
	var programs []*cel.Program
	for i := range spec.Match.MatchConditions {
		one := condition{path: fmt.Sprintf("spec.match.matchConditions[%d].expression", i)}
		one.program, issues = scope.Compile(spec.Match.MatchConditions[i].Expression, cel.Bool)
		problems = append(problems, diagnostics.In(one.path, issues)...)
		c.all, programs = append(c.all, one), append(programs, one.program)
	}
	return c, append(problems, tooManyPatterns("spec.match.matchConditions", scope, programs)...)
}

// hold reports whether all conditions are true. If one is false, the errors of the others do not matter.
func (c *conditions) hold(d *cel.Documents, budget *cel.Budget) (bool, []EvaluationError) {
	if c == nil {
		return true, nil
	}
	var errs []EvaluationError
	activation := c.scope.Activation(d)
	for i := range c.all {
		holds, err := c.all[i].program.Eval(activation, budget)
		switch {
		case err != nil:
			errs = append(errs, EvaluationError{c.all[i].path, err})
		case holds != true:
			return false, nil
		}
	}
	return true, errs
}

// reads reports whether a condition reads a document. A condition that did not compile has no program.
func (c *conditions) reads(document string) bool {
	return c != nil && slices.ContainsFunc(c.all, func(one condition) bool {
		return one.program != nil && slices.Contains(one.program.Reads(), document)
	})
}

func (c *conditions) references() []string {
	if c == nil {
		return nil
	}
	var kinds []string
	for i := range c.all {
		if c.all[i].program != nil {
			kinds = append(kinds, c.all[i].program.References()...)
		}
	}
	return kinds
}

func (c *conditions) unauditable() []string {
	if c == nil {
		return nil
	}
	var reasons []string
	for i := range c.all {
		reasons = append(reasons, unauditable(c.all[i].path, c.all[i].program)...)
	}
	return reasons
}
