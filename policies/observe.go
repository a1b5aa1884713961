package policies

import (
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies/rego"
)

// Observer is called before a policy is evaluated on an object, with the documents of the evaluation. It must not keep
// the documents.
type Observer func(*Policy, *cel.Documents)

// Observed returns the set with an observer. It is for tests of policies: its cost is not part of any budget.
func (s *Set) Observed(observe Observer) *Set {
	other := *s
	other.observe = observe
	return &other
}

// Step is one expression of a policy, and its result.
type Step struct {
	// Field of the policy: spec.validations[0].expression.
	Field string
	// Expression is the source.
	Expression string
	// Value is the result, as decoded JSON.
	Value any
	Err   error
	// Reads are the variables that this step is the first to read.
	Reads []string
	// Parts of the expression, if requested.
	Parts []cel.Part
}

// Observe evaluates the policy again, and returns the evaluated expressions in their order: the conditions and, if they
// are true, the validations, each with its message if it is false. With parts, each step has its subexpressions. A
// module in Rego has no steps: its evaluation is recorded in a coverage of the module and in a Trace; both can be nil.
// The documents are those of an Observer.
func (p *Policy) Observe(d *cel.Documents, parts bool, coverage topdown.QueryTracer, trace *rego.Trace) []Step {
	o := &observation{parts: parts}
	for _, v := range p.spec.Variables {
		o.variables = append(o.variables, v.Name)
	}
	if !o.conditions(p.conditions, d) {
		return o.steps
	}
	switch e := p.evaluator.(type) {
	case *validations:
		o.validations(e, d)
	case *module:
		in, err := (&input{}).of(d)
		if err == nil {
			_, err = e.compiled.EvalWith(in, rego.Limits{Violations: maxViolations}, coverage, trace)
		}
		if err != nil {
			o.steps = append(o.steps, Step{Field: moduleField, Err: err})
		}
	}
	return o.steps
}

// observation collects steps.
type observation struct {
	parts bool
	// variables are the names of the variables of the policy.
	variables []string
	steps     []Step
}

// conditions reports whether all conditions are true.
func (o *observation) conditions(c *conditions, d *cel.Documents) bool {
	if c == nil {
		return true
	}
	hold := true
	activation := c.scope.Activation(d)
	for i := range c.all {
		if o.step(c.all[i].path, c.all[i].program, activation) != true {
			hold = false
		}
	}
	return hold
}

func (o *observation) validations(v *validations, d *cel.Documents) {
	activation := v.scope.Activation(d)
	for i := range v.all {
		one := &v.all[i]
		if holds := o.step(one.path+".expression", one.expression, activation); holds == false && one.message != nil {
			o.step(one.path+".messageExpression", one.message, activation)
		}
	}
}

// step evaluates an expression with its own budget, and returns its value.
func (o *observation) step(field string, program *cel.Program, activation *cel.Activation) any {
	var unread []string
	for _, name := range o.variables {
		if !activation.HasRead(name) {
			unread = append(unread, name)
		}
	}
	value, err := program.Eval(activation, cel.NewBudget())
	step := Step{Field: field, Expression: program.Expression(), Value: value, Err: err}
	for _, name := range unread {
		if activation.HasRead(name) {
			step.Reads = append(step.Reads, name)
		}
	}
	if o.parts {
		step.Parts = program.Observe(activation)
	}
	o.steps = append(o.steps, step)
	return value
}
