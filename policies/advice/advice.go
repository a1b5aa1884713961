package advice

import (
	"encoding/json"
	"fmt"

	celast "github.com/google/cel-go/common/ast"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/policies/rego"
)

// check is a check of the expressions of a policy.
type check struct {
	name string
	find func(*policy, *expression)
}

// checks are all checks of expressions in CEL. Package rego has those of modules.
func checks() []check {
	return []check{
		{rego.CheckQuantities, quantities},
		{rego.CheckPatterns, patterns},
		{rego.CheckImages, imagePrefixes},
		{rego.CheckParameters, parameters},
		{CheckNull, nulls},
		{CheckOldObject, oldObjects},
		{rego.CheckAbsent, absentFields},
	}
}

// The names of the checks that only expressions in CEL have.
const (
	CheckNull      = "null-comparison"
	CheckOldObject = "old-object"
)

// policy is a policy whose expressions are parsed.
type policy struct {
	spec *policyv1alpha1.VirtualMachinePolicySpec
	// params are the values of the policy; nil if they are not known.
	params map[string]any
	// always are the fields below vm.spec that are never absent.
	always []string
	// reading are the variables that imagePrefixes follows.
	reading map[string]bool
	// conditions are the expressions of match.matchConditions.
	conditions []*expression
	// variables are the expressions of variables, by name.
	variables map[string]*expression
	all       []*expression
	found     []diagnostics.Advice
	// reads are those of all expressions; nil until a check needs them.
	reads *reads
}

// expression is an expression of the policy.
type expression struct {
	field string
	text  string
	tree  *celast.AST
}

// Of returns the advice about a policy. Expressions that cannot be parsed are skipped. always are the fields below vm.spec that each
// virtual machine has, of those that its type can leave out.
func Of(spec *policyv1alpha1.VirtualMachinePolicySpec, always []string) []diagnostics.Advice {
	p := &policy{spec: spec, always: always, variables: map[string]*expression{}}
	if spec.Params != nil && spec.Params.Values != nil {
		if err := json.Unmarshal(spec.Params.Values.Raw, &p.params); err != nil {
			p.params = nil
		}
	}
	if spec.Rego != nil {
		found := rego.Advise(spec.Rego.Module, p.params, spec.Params != nil && spec.Params.Schema != nil, p.canBeUndefined)
		for i := range found {
			found[i].Field, found[i].Warning = "spec.rego.module", true
		}
		return found
	}
	p.all = p.parse()
	for _, c := range checks() {
		for _, e := range p.all {
			before := len(p.found)
			c.find(p, e)
			for i := before; i < len(p.found); i++ {
				p.found[i].Check = c.name
			}
		}
	}
	return p.found
}

// parse parses all expressions.
func (p *policy) parse() []*expression {
	var all []*expression
	add := func(field, text string) *expression {
		tree, err := export.Tree(text)
		if text == "" || err != nil {
			return nil
		}
		e := &expression{field, text, tree}
		all = append(all, e)
		return e
	}
	for i := range p.spec.Match.MatchConditions {
		if e := add(fmt.Sprintf("spec.match.matchConditions[%d].expression", i), p.spec.Match.MatchConditions[i].Expression); e != nil {
			p.conditions = append(p.conditions, e)
		}
	}
	for i := range p.spec.Variables {
		if e := add(fmt.Sprintf("spec.variables[%d].expression", i), p.spec.Variables[i].Expression); e != nil {
			p.variables[p.spec.Variables[i].Name] = e
		}
	}
	for i := range p.spec.Validations {
		add(fmt.Sprintf("spec.validations[%d].expression", i), p.spec.Validations[i].Expression)
		add(fmt.Sprintf("spec.validations[%d].messageExpression", i), p.spec.Validations[i].MessageExpression)
	}
	return all
}

// warn adds a warning at a node.
func (p *policy) warn(e *expression, node celast.Expr, format string, values ...any) {
	found := diagnostics.Advice{Problem: diagnostics.Problem{Field: e.field, Message: fmt.Sprintf(format, values...), Warning: true}}
	// Of an operator, the library has the position of its sign.
	if at := e.tree.SourceInfo().GetStartLocation(node.ID()); at.Line() > 0 {
		found.Line, found.Column = at.Line(), at.Column()+1
	}
	p.found = append(p.found, found)
}
