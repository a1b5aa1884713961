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
	places := &reads{policy: p}
	places.each(e.tree.Expr(), scope{}, func(node celast.Expr, in scope) {
		quantity := func(node celast.Expr) bool { return places.quantity(node, in) }
		if operator, left, right, ok := comparison(node); ok && (quantity(left) || quantity(right)) {
			if operator != operators.Equals && operator != operators.NotEquals {
				p.warn(e, node, "a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))")
				return
			}
			for _, side := range []celast.Expr{left, right} {
				p.otherForm(e, node, side, in, quantity)
			}
			return
		}
		if node.Kind() != celast.CallKind {
			return
		}
		call := node.AsCall()
		switch {
		case call.FunctionName() == operators.In && quantity(call.Args()[0]):
			p.otherForm(e, node, call.Args()[1], in, quantity)
		case call.IsMemberFunction() && slices.Contains(textFunctions, call.FunctionName()) && quantity(call.Target()),
			slices.Contains(numberFunctions, call.FunctionName()) && len(call.Args()) == 1 && quantity(call.Args()[0]):
			p.warn(e, node, "the text of a quantity is its canonical form, such as '8Gi' for 8192Mi: use quantity() to read the amount")
		}
	})
}

// textFunctions are functions of strings whose results depend on the form of a quantity, and numberFunctions those that fail
// on most forms.
var (
	textFunctions = []string{
		"startsWith", "endsWith", "contains", "matches", "find", "findAll", "replace", "split", "substring", "indexOf", "lastIndexOf", "charAt", "size",
	}
	numberFunctions = []string{"int", "uint", "double"}
)

// otherForm warns of texts that are quantities in another than their canonical form: a text, the elements of a list, a variable of a
// macro over these, or a parameter with them.
func (p *policy) otherForm(e *expression, node, side celast.Expr, in scope, quantity func(celast.Expr) bool) {
	all := p.texts(side)
	if side.Kind() == celast.IdentKind {
		all = in[side.AsIdent()].texts
	}
	for _, text := range all {
		if canonical := rego.OtherQuantity(text); canonical != "" {
			p.warn(e, node, "%q is never equal to a quantity, whose canonical form is %q: use quantity()", text, canonical)
			return
		}
	}
	if steps, root := export.Chain(side); len(steps) > 0 && slices.Contains([]string{"params", "object", "oldObject", "namespaceObject"}, root) &&
		(root != "params" || p.params == nil) && !quantity(side) {
		p.warn(e, node, "%s.%s is equal to a quantity only in canonical form, such as '8Gi' for 8192Mi: use quantity()", root, strings.Join(steps, "."))
	}
}

// texts returns the strings that an expression consists of, as far as they are known.
func (p *policy) texts(node celast.Expr) (all []string) {
	if text, ok := literal(node); ok {
		return []string{text}
	}
	if node.Kind() == celast.ListKind {
		for _, element := range node.AsList().Elements() {
			all = append(all, p.texts(element)...)
		}
		return all
	}
	if steps, root := export.Chain(node); root == "params" && p.params != nil {
		return rego.Texts(rego.Parameter(p.params, steps))
	}
	return nil
}

// quantity reports whether an expression reads a field that is a quantity.
func (r *reads) quantity(node celast.Expr, in scope) bool {
	if node.Kind() == celast.CallKind && node.AsCall().FunctionName() == "string" && len(node.AsCall().Args()) == 1 {
		return r.quantity(node.AsCall().Args()[0], in)
	}
	at, ok := r.locate(node, in)
	if !ok || !slices.Contains([]string{"vm", "object", "oldObject", "instancetype", "pod"}, at.root) {
		return false
	}
	// The variable of a macro over a map is a key.
	return len(at.steps) > 0 && at.steps[len(at.steps)-1] != element && rego.IsQuantity(at.steps)
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
			if _, root := export.Chain(read); slices.Contains([]string{"vm", "object", "oldObject", "instancetype", "preference", "pod", "domain"}, root) {
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
	for r := range p.readsIn(e) {
		if _, root := export.Chain(r.node); root == rootOldObject {
			p.warn(e, r.node, "oldObject is null on CREATE, so the policy cannot be evaluated: write oldObject == null || …, or match only UPDATE")
			return
		}
	}
}

// distinguishes reports whether an expression reads the operation, tests a field of the old object, or compares one of the objects
// with null.
func distinguishes(e *expression) bool {
	found := false
	visit(e, func(node celast.Expr) {
		if steps, root := export.Chain(node); root == "request" && len(steps) == 1 && steps[0] == "operation" {
			found = true
		} else if root == rootOldObject && node.Kind() == celast.SelectKind && node.AsSelect().IsTestOnly() {
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
