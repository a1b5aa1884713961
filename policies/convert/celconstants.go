package convert

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/virtward/virtward/policies/export"
)

// constantOf is a value that an expression has for each pod.
type constantOf int

const (
	// variable: the value can differ, or is not computed.
	variable constantOf = iota
	isFalse
	isTrue
	isEmpty // a list without elements
)

// maxComputed bounds the constants that are computed of an expression: those inside of others are computed several times.
const maxComputed = 1 << 16

// of returns the constant of a bool.
func (constantOf) of(is bool) constantOf {
	if is {
		return isTrue
	}
	return isFalse
}

// constant returns the value of a node for each pod, if it follows from the parameters, or from the operation. What has no effect then is
// not checked: a template about images has none if its parameters name no image.
func (p *celPods) constant(node celast.Expr, around *celNames) constantOf {
	if p.computed++; p.computed > maxComputed {
		return variable
	}
	switch node.Kind() {
	case celast.LiteralKind:
		if is, ok := node.AsLiteral().(types.Bool); ok {
			return variable.of(bool(is))
		}
	case celast.ListKind:
		if node.AsList().Size() == 0 {
			return isEmpty
		}
	case celast.IdentKind:
		return around.constant(node.AsIdent())
	case celast.SelectKind:
		return p.constantField(node, around)
	case celast.CallKind:
		return p.constantCall(node.AsCall(), around)
	case celast.ComprehensionKind:
		return p.constantLoop(node.AsComprehension(), around)
	case celast.MapKind, celast.StructKind, celast.UnspecifiedExprKind:
	}
	return variable
}

// constant returns the constant that a macro's name has.
func (n *celNames) constant(name string) constantOf {
	for ; n != nil; n = n.around {
		if n.name == name {
			return n.is
		}
	}
	return variable
}

// constantField returns the constant of a variable, of a parameter, or of whether the operation is there.
func (p *celPods) constantField(node celast.Expr, around *celNames) constantOf {
	steps, root := export.Chain(node)
	if _, declared := around.find(root); declared || root == "" || rootOf(node.AsSelect().Operand()) == nil {
		return variable
	}
	tests := node.AsSelect().IsTestOnly()
	switch {
	case root == "variables" && len(steps) == 1 && !tests:
		return p.constants[steps[0]]
	case root == "request" && slices.Equal(steps, []string{"operation"}) && tests:
		if place, ok := p.tree.SourceInfo().GetOffsetRange(rootOf(node.AsSelect().Operand()).ID()); ok && !slices.Contains(p.certain, int(place.Start)) {
			p.certain = append(p.certain, int(place.Start))
		}
		return isTrue
	case root == "params" && p.params != nil:
		value, found := any(p.params), true
		for i, step := range steps {
			fields, ok := value.(map[string]any)
			if !ok {
				return variable
			}
			if value, found = fields[step]; !found && i < len(steps)-1 {
				return variable
			}
		}
		if tests {
			return variable.of(found)
		}
		return constantValue(value)
	}
	return variable
}

// constantValue returns the constant of a parameter.
func constantValue(value any) constantOf {
	switch v := value.(type) {
	case bool:
		return variable.of(v)
	case []any:
		if len(v) == 0 {
			return isEmpty
		}
	}
	return variable
}

// constantCall returns the constant of an operator.
func (p *celPods) constantCall(c celast.CallExpr, around *celNames) constantOf {
	args := c.Args()
	if len(args) < arity[c.FunctionName()] {
		return variable
	}
	of := func(i int) constantOf { return p.constant(args[i], around) }
	switch c.FunctionName() {
	case operators.LogicalNot:
		switch of(0) {
		case isFalse:
			return isTrue
		case isTrue:
			return isFalse
		case isEmpty, variable:
		}
	case operators.LogicalAnd, operators.LogicalOr:
		return junction(c.FunctionName(), of(0), of(1))
	case operators.Conditional:
		switch of(0) {
		case isTrue:
			return of(1)
		case isFalse:
			return of(2)
		case isEmpty, variable:
		}
	case operators.Add:
		if of(0) == isEmpty && of(1) == isEmpty {
			return isEmpty
		}
	case operators.In, operators.OldIn:
		if of(1) == isEmpty && p.exists(args[0], around) {
			return isFalse
		}
	case operators.Equals, operators.NotEquals, operators.Greater:
		return p.constantComparison(c.FunctionName(), args, around)
	}
	return variable
}

// junction returns the constant of "and" and "or".
func junction(operator string, left, right constantOf) constantOf {
	decides, other := isFalse, isTrue
	if operator == operators.LogicalOr {
		decides, other = other, decides
	}
	switch {
	case left == decides || right == decides: // also if the other one is an error
		return decides
	case left == other && right == other:
		return other
	}
	return variable
}

// apart returns the same without what was read, for a part that is not read yet.
func (p *celPods) apart() *celPods {
	one := *p
	one.problem, one.reads, one.literals, one.certain = nil, nil, nil, nil
	return &one
}

// skipped notes whether a part that is not read reads fields that are not known if the parameters are others.
func (p *celPods) skipped(node celast.Expr, around *celNames) {
	if p.unread || p.params == nil && p.constants == nil {
		return
	}
	one := p.apart()
	one.params, one.constants = nil, nil
	one.whole(one.visit(node, around))
	p.computed, p.unread = one.computed, one.problem != nil || one.unread
}

// exists reports whether the value of a node is there for each pod, if not known.
func (p *celPods) exists(node celast.Expr, around *celNames) bool {
	one := p.apart()
	one.inert = true
	one.whole(one.visit(node, around))
	p.computed, p.unread = one.computed, p.unread || one.problem == nil && one.unread
	return one.problem == nil
}

// constantComparison returns the constant of a comparison of the operation, or of the number of elements of an empty list.
func (p *celPods) constantComparison(operator string, args []celast.Expr, around *celNames) constantOf {
	if steps, root := export.Chain(args[0]); root == "request" && slices.Equal(steps, []string{"operation"}) && operator != operators.Greater {
		if _, declared := around.find(root); declared {
			return variable
		}
		if text, ok := args[1].AsLiteral().(types.String); ok {
			return variable.of((text == "CREATE") == (operator == operators.Equals))
		}
	}
	n, ok := args[1].AsLiteral().(types.Int)
	if !ok || args[0].Kind() != celast.CallKind || args[0].AsCall().FunctionName() != "size" {
		return variable
	}
	call := args[0].AsCall()
	list := call.Target()
	if !call.IsMemberFunction() {
		if len(call.Args()) == 0 {
			return variable
		}
		list = call.Args()[0]
	}
	if p.constant(list, around) != isEmpty {
		return variable
	}
	switch operator {
	case operators.Equals:
		return variable.of(n == 0)
	case operators.NotEquals:
		return variable.of(n != 0)
	}
	return variable.of(n < 0)
}

// constantLoop returns the constant of a macro: of a list without elements, or with conditions that are the same for each element.
func (p *celPods) constantLoop(c celast.ComprehensionExpr, around *celNames) constantOf {
	if c.Result().Kind() != celast.IdentKind || c.Result().AsIdent() != c.AccuVar() {
		return variable
	}
	first := p.constant(c.AccuInit(), around)
	if first == variable || p.constant(c.IterRange(), around) == isEmpty {
		return first
	}
	one := p.apart()
	var elements []path
	if over := one.visit(c.IterRange(), around); len(over) > 0 {
		elements = one.elements(over)
	}
	if p.computed = one.computed; one.problem != nil {
		return variable
	}
	inside := &celNames{around: around, name: c.AccuVar(), is: first}
	if c.HasIterVar2() {
		inside = &celNames{around: &celNames{around: inside, name: c.IterVar()}, name: c.IterVar2(), paths: elements}
	} else {
		inside = &celNames{around: inside, name: c.IterVar(), paths: elements}
	}
	if p.constant(c.LoopStep(), inside) == first {
		return first
	}
	return variable
}
