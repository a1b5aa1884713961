package inspect

import (
	"encoding/json"
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
)

// The languages of expressions.
const (
	CEL  = "cel"
	Rego = "rego"
)

// Languages returns the languages of expressions.
func Languages() []string { return []string{CEL, Rego} }

// Result is what an expression resulted in.
type Result struct {
	Expression string `json:"expression"`
	// Type is the type that the compiler knows in CEL, and that of the value in Rego.
	Type string `json:"type,omitempty"`
	// Value is the value as JSON; empty if there is none.
	Value json.RawMessage `json:"value,omitempty"`
	// Undefined reports that a Rego expression has no value.
	Undefined bool `json:"undefined,omitempty"`
	// Cost is in units of CEL, and for Rego in steps.
	Cost uint64 `json:"cost"`
	// Parts are the parts of the expression, outer ones first.
	Parts []Part `json:"parts,omitempty"`
	// Problems are why there is no value.
	Problems []diagnostics.Problem `json:"problems,omitempty"`
}

// Part is a part of an expression, and its value.
type Part struct {
	Expression string          `json:"expression"`
	Value      json.RawMessage `json:"value,omitempty"`
	Undefined  bool            `json:"undefined,omitempty"`
	// Large reports that the value is too large to show.
	Large bool   `json:"large,omitempty"`
	Error string `json:"error,omitempty"`
	// Depth counts the parts that this one is in.
	Depth int `json:"depth"`
}

// Inspector evaluates expressions of one kind of objects. It is safe for concurrent use.
type Inspector struct {
	scope  *cel.Scope
	params map[string]any
}

// Options are what expressions can read besides the documents.
type Options struct {
	// Kind is the kind of the object, for the types of its fields.
	Kind string
	// Params are the parameters, and Schema their schema.
	Params map[string]any
	Schema *apiextensionsv1.JSONSchemaProps
	// Variables are the variables of a policy.
	Variables []policyv1alpha1.PolicyVariable
}

// New returns an Inspector, or what is wrong with the variables.
func New(env *cel.Environment, o Options) (*Inspector, []diagnostics.Problem) {
	scope := cel.ScopeOptions{Kinds: []string{o.Kind}, Values: o.Params, Params: o.Schema}
	for _, v := range o.Variables {
		scope.Variables = append(scope.Variables, cel.Expression{Name: v.Name, Expression: v.Expression})
	}
	made, problems := env.Scope(scope)
	if made == nil {
		return nil, problems
	}
	return &Inspector{made, o.Params}, nil
}

// CEL evaluates an expression with the documents.
func (i *Inspector) CEL(expression string, documents *cel.Documents) *Result {
	r := &Result{Expression: expression}
	program, problems := i.scope.Compile(expression, cel.Any)
	if program == nil {
		r.Problems = problems
		return r
	}
	r.Type = program.Type()
	activation, budget := i.scope.Activation(documents), cel.NewBudget()
	before := budget.Left()
	value, err := program.Eval(activation, budget)
	r.Cost = before - budget.Left()
	if err != nil {
		r.Problems = []diagnostics.Problem{problem(err)}
	} else if r.Value, err = json.Marshal(value); err != nil {
		r.Problems = []diagnostics.Problem{problem(err)}
	}
	for _, part := range program.Observe(i.scope.Activation(documents)) {
		one := Part{Expression: part.Expression, Depth: part.Depth}
		switch raw, err := json.Marshal(part.Value); {
		case part.Large:
			one.Large = true
		case part.Err != nil:
			one.Error = diagnostics.Problem{Message: part.Err.Error()}.Message
		case err == nil:
			one.Value = raw
		}
		r.Parts = append(r.Parts, one)
	}
	return r
}

// problem returns an error of an evaluation, with its position. A variable's has none in the expression.
func problem(err error) diagnostics.Problem {
	var failed *cel.Error
	if !errors.As(err, &failed) || failed.Variable != "" {
		return diagnostics.Problem{Message: err.Error()}
	}
	return diagnostics.Problem{Line: failed.Line, Column: failed.Column, Message: failed.Err.Error()}
}
