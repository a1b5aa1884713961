package policies

import (
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies/rego"
)

// Observer is told of each policy that is about to be asked about an object, with the documents that it sees. It may
// read them while it is told.
type Observer func(*Policy, *cel.Documents)

// Observed is the set with an observer. It is for tests of policies: what an admission costs has no room for one.
func (s *Set) Observed(observe Observer) *Set {
	other := *s
	other.observe = observe
	return &other
}

// Step is one expression of a policy, and what came of it.
type Step struct {
	// Field of the policy: spec.validations[0].expression.
	Field string
	// Expression as it is written.
	Expression string
	// Value is in the form of JSON.
	Value any
	Err   error
	// Parts of the expression, if they were asked for.
	Parts []cel.Part
}

// Observe asks the policy once more, and returns the expressions that were evaluated, in their order: the conditions
// and, if they hold, the validations, each with its message if it does not hold. With parts, it says what each of them consists of. A module in Rego has no steps: what came of it is noted in
// a Coverage of the module and in a Trace, either of which may be nil. The documents are those that an Observer is told
// of.
func (p *Policy) Observe(d *cel.Documents, parts bool, coverage *rego.Coverage, trace *rego.Trace) []Step {
	o := &observation{parts: parts}
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

// observation gathers steps.
type observation struct {
	parts bool
	steps []Step
}

// conditions reports whether all of them hold.
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

// step evaluates an expression, with a budget of its own, and returns its value.
func (o *observation) step(field string, program *cel.Program, activation *cel.Activation) any {
	value, err := program.Eval(activation, cel.NewBudget())
	step := Step{Field: field, Expression: program.Expression(), Value: value, Err: err}
	if o.parts {
		step.Parts = program.Observe(activation)
	}
	o.steps = append(o.steps, step)
	return value
}
