package advice

import (
	"regexp"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/policies/rego"
)

// visit calls a function for each node of an expression.
func visit(e *expression, f func(celast.Expr)) {
	celast.PreOrderVisit(e.tree.Expr(), celast.NewExprVisitor(f))
}

// comparison returns the operator and both sides of a comparison.
func comparison(node celast.Expr) (operator string, left, right celast.Expr, ok bool) {
	if node.Kind() != celast.CallKind {
		return "", nil, nil, false
	}
	call := node.AsCall()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return call.FunctionName(), call.Args()[0], call.Args()[1], true
	}
	return "", nil, nil, false
}

// quantities finds quantities that are compared as strings.
func quantities(p *policy, e *expression) {
	visit(e, func(node celast.Expr) {
		operator, left, right, ok := comparison(node)
		if !ok || !p.quantity(left) && !p.quantity(right) {
			return
		}
		if operator != operators.Equals && operator != operators.NotEquals {
			p.warn(e, node, "a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))")
			return
		}
		for _, side := range []celast.Expr{left, right} {
			if text, ok := literal(side); ok {
				if canonical := rego.OtherQuantity(text); canonical != "" {
					p.warn(e, node, "%q is never equal to a quantity, whose canonical form is %q: use quantity()", text, canonical)
				}
			}
		}
	})
}

// quantity reports whether an expression reads a field that is a quantity.
func (p *policy) quantity(node celast.Expr) bool {
	steps, root := export.Chain(node)
	if root == "" && node.Kind() == celast.CallKind && node.AsCall().IsMemberFunction() && node.AsCall().FunctionName() == "orValue" {
		steps, root = export.Chain(node.AsCall().Target())
	}
	switch {
	case root == "variables" && len(steps) == 1 && p.variables[steps[0]] != nil:
		v := p.variables[steps[0]]
		// A variable can read only those before it, so this ends.
		return len(v.text) > 0 && !strings.Contains(v.text, "variables."+steps[0]) && p.quantity(v.tree.Expr())
	case !slices.Contains([]string{"vm", "object", "oldObject", "instancetype"}, root):
		return false
	}
	return rego.IsQuantity(steps)
}

// literal returns a string that is written in the expression.
func literal(node celast.Expr) (string, bool) {
	if node.Kind() != celast.LiteralKind {
		return "", false
	}
	text, ok := node.AsLiteral().(types.String)
	return string(text), ok
}

// patterns finds regular expressions in parameters that do not compile.
func patterns(p *policy, e *expression) {
	visit(e, func(node celast.Expr) {
		if node.Kind() != celast.CallKind || node.AsCall().FunctionName() != "matches" {
			return
		}
		args := node.AsCall().Args()
		steps, root := export.Chain(args[len(args)-1])
		if root != "params" || p.params == nil {
			return
		}
		if text, ok := rego.Parameter(p.params, steps).(string); ok {
			if _, err := regexp.Compile(text); err != nil {
				p.warn(e, node, "the pattern in params.%s does not compile: %v", strings.Join(steps, "."), err)
			}
		}
	})
}

// parameters finds names that the values do not have. With a schema, the compiler finds them.
func parameters(p *policy, e *expression) {
	if p.params == nil || p.spec.Params.Schema != nil {
		return
	}
	visit(e, func(node celast.Expr) {
		if node.Kind() != celast.SelectKind || node.AsSelect().IsTestOnly() || node.AsSelect().Operand().Kind() != celast.IdentKind || node.AsSelect().Operand().AsIdent() != "params" {
			return
		}
		name := node.AsSelect().FieldName()
		if _, ok := p.params[name]; ok || p.mentions("has(params."+name+")") || p.mentions("'"+name+"' in params") {
			return
		}
		p.warn(e, node, "spec.params.values has no %s, so the policy cannot be evaluated%s", name, rego.Suggestion(name, p.params))
	})
}

// mentions reports whether an expression of the policy has a text, with any spaces.
func (p *policy) mentions(text string) bool {
	squeeze := func(text string) string { return strings.Join(strings.Fields(strings.ReplaceAll(text, `"`, "'")), "") }
	return slices.ContainsFunc(p.all, func(e *expression) bool { return strings.Contains(squeeze(e.text), squeeze(text)) })
}

// nulls finds comparisons with null that have always the same result, or fail.
func nulls(p *policy, e *expression) {
	visit(e, func(node celast.Expr) {
		operator, left, right, ok := comparison(node)
		if !ok || operator != operators.Equals && operator != operators.NotEquals {
			return
		}
		read := left
		if isNull(left) {
			read = right
		} else if !isNull(right) {
			return
		}
		switch {
		case read.Kind() == celast.CallKind && slices.Contains([]string{operators.OptSelect, operators.OptIndex}, read.AsCall().FunctionName()):
			p.warn(e, node, "an optional is never null: use hasValue() or orValue()")
		case read.Kind() == celast.SelectKind && !read.AsSelect().IsTestOnly():
			if _, root := export.Chain(read); slices.Contains([]string{"vm", "object", "oldObject", "instancetype", "preference"}, root) {
				p.warn(e, node, "a field that is not set is absent, not null, and reading it fails: use has()")
			}
		}
	})
}

func isNull(node celast.Expr) bool {
	return node.Kind() == celast.LiteralKind && node.AsLiteral() == types.NullValue
}

// oldObjects finds reads of the old object in policies that are evaluated at creation, where it is null.
func oldObjects(p *policy, e *expression) {
	operations := p.spec.Match.Operations
	if len(operations) > 0 && !slices.Contains(operations, policyv1alpha1.PolicyCreate) {
		return
	}
	if slices.ContainsFunc(append([]*expression{e}, p.conditions...), distinguishes) {
		return
	}
	warned := false
	visit(e, func(node celast.Expr) {
		if warned || node.Kind() != celast.SelectKind && (node.Kind() != celast.CallKind || node.AsCall().FunctionName() != operators.Index) {
			return
		}
		if _, root := export.Chain(node); root == "oldObject" {
			warned = true
			p.warn(e, node, "oldObject is null on CREATE, so the policy cannot be evaluated: write oldObject == null || …, or match only UPDATE")
		}
	})
}

// distinguishes reports whether an expression reads the operation, or compares one of the objects with null.
func distinguishes(e *expression) bool {
	found := false
	visit(e, func(node celast.Expr) {
		if steps, root := export.Chain(node); root == "request" && len(steps) == 1 && steps[0] == "operation" {
			found = true
		}
		if _, left, right, ok := comparison(node); ok && (isNull(left) && isObject(right) || isNull(right) && isObject(left)) {
			found = true
		}
	})
	return found
}

func isObject(node celast.Expr) bool {
	return node.Kind() == celast.IdentKind && (node.AsIdent() == "oldObject" || node.AsIdent() == "object")
}
