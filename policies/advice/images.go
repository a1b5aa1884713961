package advice

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/policies/rego"
)

// bound are the variables of the macros around a node, with the lists that they iterate over.
type bound struct {
	around *bound
	name   string
	list   celast.Expr
}

func (b *bound) of(name string) celast.Expr {
	for ; b != nil; b = b.around {
		if b.name == name {
			return b.list
		}
	}
	return nil
}

// imagePrefixes finds prefixes that admit images and URLs of other hosts, or of other repositories.
func imagePrefixes(p *policy, e *expression) {
	p.prefixes(e, e.tree.Expr(), nil, false)
}

// prefixes finds them below a node. negated reports whether the node is negated.
func (p *policy) prefixes(e *expression, node celast.Expr, around *bound, negated bool) {
	if node.Kind() == celast.ComprehensionKind {
		c := node.AsComprehension()
		p.prefixes(e, c.IterRange(), around, false)
		inside := &bound{around, c.IterVar(), c.IterRange()}
		for _, part := range []celast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			p.prefixes(e, part, inside, negated)
		}
		return
	}
	if node.Kind() != celast.CallKind {
		for _, child := range export.Children(node) {
			p.prefixes(e, child, around, negated)
		}
		return
	}
	call := node.AsCall()
	if call.IsMemberFunction() && len(call.Args()) == 1 {
		if what := p.address(call.Target(), around); what != "" {
			p.prefix(e, node, what, p.elements(call.Args()[0], around), negated)
		}
	}
	negated = negated != (call.FunctionName() == operators.LogicalNot)
	for _, child := range export.Children(node) {
		p.prefixes(e, child, around, negated)
	}
}

// prefix warns of the first text of a call that admits too much.
func (p *policy) prefix(e *expression, node celast.Expr, what rego.Address, prefixes []string, negated bool) {
	for _, text := range prefixes {
		if wrong := rego.WrongPrefix(what, node.AsCall().FunctionName(), text, negated); wrong != "" {
			p.warn(e, node, "%s", wrong)
			return
		}
	}
}

// address reports what an expression reads: the address of an image, its normal form, or a URL; empty for something else.
func (p *policy) address(node celast.Expr, around *bound) rego.Address {
	switch node.Kind() {
	case celast.IdentKind:
		if list := around.of(node.AsIdent()); list != nil {
			return p.addresses(list, around)
		}
	case celast.CallKind:
		call := node.AsCall()
		switch name := call.FunctionName(); {
		case call.IsMemberFunction() && slices.Contains([]string{"orValue", "lowerAscii", "trim"}, name):
			return p.address(call.Target(), around)
		case name == "string" || name == "dyn":
			return p.address(call.Args()[0], around)
		}
	case celast.SelectKind:
		s := node.AsSelect()
		if made := s.Operand(); made.Kind() == celast.CallKind && made.AsCall().IsMemberFunction() && isFunctionOfAddresses(made.AsCall()) {
			return rego.NormalForm(s.FieldName())
		}
	}
	steps, root := export.Chain(node)
	if root == "variables" && len(steps) == 1 {
		if v := p.variables[steps[0]]; v != nil && p.enter(steps[0]) {
			defer p.leave(steps[0])
			return p.address(v.tree.Expr(), nil)
		}
		return ""
	}
	if root == "" {
		steps = export.Tail(node)
	}
	return rego.AddressAt(steps)
}

// addresses reports what the elements of a list are.
func (p *policy) addresses(list celast.Expr, around *bound) rego.Address {
	if steps, root := export.Chain(list); root == "variables" && len(steps) == 1 {
		if v := p.variables[steps[0]]; v != nil && p.enter(steps[0]) {
			defer p.leave(steps[0])
			return p.addresses(v.tree.Expr(), nil)
		}
		return ""
	}
	if list.Kind() != celast.ComprehensionKind {
		return ""
	}
	c := list.AsComprehension()
	inside := &bound{around, c.IterVar(), c.IterRange()}
	found := rego.Address("")
	celast.PreOrderVisit(c.LoopStep(), celast.NewExprVisitor(func(node celast.Expr) {
		if node.Kind() != celast.ListKind || len(node.AsList().Elements()) != 1 {
			return
		}
		element := node.AsList().Elements()[0]
		if element.Kind() == celast.IdentKind && element.AsIdent() == c.IterVar() { // filter
			found = p.addresses(c.IterRange(), around)
			return
		}
		if what := p.address(element, inside); what != "" {
			found = what
		}
	}))
	return found
}

// elements returns the texts that an argument can be: a text, a parameter, or the elements of the list of a macro.
func (p *policy) elements(node celast.Expr, around *bound) []string {
	if node.Kind() == celast.IdentKind {
		if list := around.of(node.AsIdent()); list != nil {
			return p.texts(list)
		}
		return nil
	}
	return p.texts(node)
}

// isFunctionOfAddresses reports whether a call is virtward.image or virtward.url.
func isFunctionOfAddresses(call celast.CallExpr) bool {
	return call.Target().Kind() == celast.IdentKind && call.Target().AsIdent() == "virtward" && slices.Contains([]string{"image", "url"}, call.FunctionName())
}

// enter reports whether a variable is not being read already. A variable can read only those before it, if it compiles.
func (p *policy) enter(name string) bool {
	if p.reading[name] {
		return false
	}
	if p.reading == nil {
		p.reading = map[string]bool{}
	}
	p.reading[name] = true
	return true
}

func (p *policy) leave(name string) { delete(p.reading, name) }
