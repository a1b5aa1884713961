package advice

import (
	"maps"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// place is where a value is in the documents of an evaluation: the fields, keys and elements that lead to it.
type place struct {
	// root is the document: vm, object, instancetype …
	root string
	// steps are names of fields, keys of maps as they are written between brackets, and element.
	steps []string
	// optional reports whether the value is an optional: reading a field of it never fails.
	optional bool
	// texts are the values of a variable of a macro over a list of texts, which is in no document.
	texts []string
}

// element is the step to an element of a list.
const element = "[]"

// keyOf returns the step to a key of a map that is an expression: the key is not known.
func keyOf(expression string) string { return "[" + expression + "]" }

func (r place) step(name string, optional bool) place {
	return place{root: r.root, steps: append(slices.Clone(r.steps), name), optional: r.optional || optional}
}

// String returns the place as an expression.
func (r place) String() string {
	var text strings.Builder
	text.WriteString(r.root)
	for _, step := range r.steps {
		switch {
		case strings.HasPrefix(step, "["):
			text.WriteString(step)
		case plain.MatchString(step):
			text.WriteString("." + step)
		default:
			text.WriteString("['" + step + "']")
		}
	}
	return text.String()
}

// id identifies a place.
func (r place) id() string { return r.root + "\x00" + strings.Join(r.steps, "\x00") }

// read is a node that reads a field or a key, and fails without it.
type read struct {
	e    *expression
	node celast.Expr
	at   place
}

// reads are all reads of the expressions of a policy, and what the policy tests.
type reads struct {
	policy *policy
	all    []read
	// tested are the ids of the places that an expression tests with has() or in, reads as an optional, or compares with
	// null. keys are those of maps whose keys an expression goes through.
	tested, keys map[string]bool
}

// scope are the variables of the macros around a node.
type scope map[string]place

func (s scope) with(name string, at place) scope {
	inner := make(scope, len(s)+1)
	maps.Copy(inner, s)
	inner[name] = at
	return inner
}

// without returns the scope in which a variable of a macro has an unknown place. It hides a document of the same name.
func (s scope) without(name string) scope { return s.with(name, place{}) }

// readsOf collects the reads of all expressions.
func readsOf(p *policy) *reads {
	r := &reads{policy: p, tested: map[string]bool{}, keys: map[string]bool{}}
	for _, e := range p.all {
		r.visit(e, e.tree.Expr(), scope{})
	}
	return r
}

// visit notes what a node and the nodes below it read.
func (r *reads) visit(e *expression, node celast.Expr, in scope) {
	switch node.Kind() {
	case celast.SelectKind:
		s := node.AsSelect()
		r.note(e, node, in, s.IsTestOnly())
		r.visit(e, s.Operand(), in)
	case celast.CallKind:
		call := node.AsCall()
		switch call.FunctionName() {
		case operators.Index:
			r.note(e, node, in, false)
		case operators.OptSelect, operators.OptIndex:
			r.note(e, node, in, true)
		case operators.In, operators.OldIn:
			if of, ok := r.locate(call.Args()[1], in); ok {
				r.tested[of.step(stepOf(e, call.Args()[0]), false).id()] = true
			}
		case operators.Equals, operators.NotEquals:
			for i, side := range call.Args() {
				if at, ok := r.locate(side, in); ok && isNull(call.Args()[1-i]) {
					r.tested[at.id()] = true
				}
			}
		}
		if call.IsMemberFunction() {
			r.visit(e, call.Target(), in)
		}
		for _, arg := range call.Args() {
			r.visit(e, arg, in)
		}
	case celast.ComprehensionKind:
		c := node.AsComprehension()
		r.visit(e, c.IterRange(), in)
		r.visit(e, c.AccuInit(), in)
		inner := r.inside(c, in)
		for _, part := range []celast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.visit(e, part, inner)
		}
	default:
		for _, part := range partsOf(node) {
			r.visit(e, part, in)
		}
	}
}

// each calls a function for a node and the nodes below it, with the variables of the macros around them.
func (r *reads) each(node celast.Expr, in scope, f func(celast.Expr, scope)) {
	f(node, in)
	switch node.Kind() {
	case celast.SelectKind:
		r.each(node.AsSelect().Operand(), in, f)
	case celast.CallKind:
		if node.AsCall().IsMemberFunction() {
			r.each(node.AsCall().Target(), in, f)
		}
		for _, arg := range node.AsCall().Args() {
			r.each(arg, in, f)
		}
	case celast.ComprehensionKind:
		c := node.AsComprehension()
		r.each(c.IterRange(), in, f)
		r.each(c.AccuInit(), in, f)
		inner := r.inside(c, in)
		for _, part := range []celast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.each(part, inner, f)
		}
	default:
		for _, part := range partsOf(node) {
			r.each(part, in, f)
		}
	}
}

// partsOf returns the parts of a list, a map or an object that an expression creates.
func partsOf(node celast.Expr) (parts []celast.Expr) {
	switch node.Kind() {
	case celast.ListKind:
		return node.AsList().Elements()
	case celast.MapKind:
		for _, entry := range node.AsMap().Entries() {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case celast.StructKind:
		for _, f := range node.AsStruct().Fields() {
			parts = append(parts, f.AsStructField().Value())
		}
	}
	return parts
}

// note notes a read or a test of a place. A variable of the policy is not a read: its expression is.
func (r *reads) note(e *expression, node celast.Expr, in scope, test bool) {
	at, ok := r.locate(node, in)
	switch {
	case !ok || len(at.steps) == 0 || node.Kind() == celast.SelectKind && isVariables(node.AsSelect().Operand()):
	case test:
		r.tested[at.id()] = true
	case !at.optional:
		r.all = append(r.all, read{e, node, at})
	}
}

// inside returns the scope in a macro.
func (r *reads) inside(c celast.ComprehensionExpr, in scope) scope {
	inner := in
	if of, ok := r.locate(c.IterRange(), in); ok {
		item := of.step(element, false)
		item.optional, item.texts = false, r.policy.texts(c.IterRange())
		if c.HasIterVar2() {
			inner = inner.without(c.IterVar()).with(c.IterVar2(), item)
		} else {
			inner = inner.with(c.IterVar(), item)
		}
		if r.keys != nil {
			r.keys[of.id()] = true
		}
	} else {
		inner = inner.with(c.IterVar(), place{texts: r.policy.texts(c.IterRange())})
		if c.HasIterVar2() {
			inner = inner.without(c.IterVar2())
		}
	}
	if bound, ok := r.locate(c.AccuInit(), in); ok && c.IterRange().Kind() == celast.ListKind && c.IterRange().AsList().Size() == 0 { // optMap and bind
		return inner.with(c.AccuVar(), bound)
	}
	return inner.without(c.AccuVar())
}

// locate returns the place of the value of a node; false if it is none, or not known.
func (r *reads) locate(node celast.Expr, in scope) (place, bool) {
	return r.follow(node, in, len(r.policy.variables))
}

// follow is locate. A variable can read only those before it, so there are at most so many.
func (r *reads) follow(node celast.Expr, in scope, variables int) (place, bool) {
	switch node.Kind() {
	case celast.IdentKind:
		if at, bound := in[node.AsIdent()]; bound {
			return at, at.root != ""
		}
		return place{root: node.AsIdent()}, true
	case celast.SelectKind:
		s := node.AsSelect()
		if isVariables(s.Operand()) {
			v := r.policy.variables[s.FieldName()]
			if v == nil || variables == 0 {
				return place{}, false
			}
			return r.follow(v.tree.Expr(), scope{}, variables-1)
		}
		if of, ok := r.follow(s.Operand(), in, variables); ok {
			return of.step(s.FieldName(), false), true
		}
	case celast.ComprehensionKind:
		if c := node.AsComprehension(); filters(c) {
			return r.follow(c.IterRange(), in, variables)
		}
	case celast.CallKind:
		return r.called(node.AsCall(), in, variables)
	}
	return place{}, false
}

func isVariables(node celast.Expr) bool {
	return node.Kind() == celast.IdentKind && node.AsIdent() == "variables"
}

// called is locate for calls.
func (r *reads) called(call celast.CallExpr, in scope, variables int) (place, bool) {
	args := call.Args()
	switch call.FunctionName() {
	case operators.OptSelect, operators.Index, operators.OptIndex:
		if of, ok := r.follow(args[0], in, variables); ok {
			return of.step(stepOf(nil, args[1]), call.FunctionName() != operators.Index), true
		}
	case "orValue", "value", "or":
		if !call.IsMemberFunction() {
			break
		}
		of, ok := r.follow(call.Target(), in, variables)
		of.optional = call.FunctionName() == "or"
		return of, ok
	case "dyn":
		if len(args) == 1 {
			return r.follow(args[0], in, variables)
		}
	case operators.Conditional:
		for i, branch := range args[1:] {
			if blank(args[2-i]) {
				return r.follow(branch, in, variables)
			}
		}
	}
	return place{}, false
}

// stepOf returns the step of an index: the key that is written, an element of a list, or an expression.
func stepOf(e *expression, index celast.Expr) string {
	if index.Kind() == celast.LiteralKind {
		if text, ok := index.AsLiteral().(types.String); ok {
			return string(text)
		}
		return element
	}
	var info *celast.SourceInfo
	if e != nil {
		info = e.tree.SourceInfo()
	} else {
		info = celast.NewSourceInfo(nil)
	}
	text, err := parser.Unparse(index, info)
	if err != nil || len(text) > maxKey || strings.Contains(text, "\n") {
		return element // an unknown key is not found
	}
	return keyOf(text)
}

// maxKey bounds the expression of a key.
const maxKey = 80

// blank reports whether a node is an empty map, an empty list, or null.
func blank(node celast.Expr) bool {
	switch node.Kind() {
	case celast.MapKind:
		return node.AsMap().Size() == 0
	case celast.ListKind:
		return node.AsList().Size() == 0
	}
	return isNull(node)
}

// filters reports whether a comprehension is the macro filter, whose elements are those of its range.
func filters(c celast.ComprehensionExpr) bool {
	step := c.LoopStep()
	if step.Kind() != celast.CallKind || step.AsCall().FunctionName() != operators.Conditional {
		return false
	}
	added := step.AsCall().Args()[1]
	if added.Kind() != celast.CallKind || added.AsCall().FunctionName() != operators.Add {
		return false
	}
	list := added.AsCall().Args()[1]
	if list.Kind() != celast.ListKind || list.AsList().Size() != 1 {
		return false
	}
	one := list.AsList().Elements()[0]
	return one.Kind() == celast.IdentKind && one.AsIdent() == c.IterVar()
}
