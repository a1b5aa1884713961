package rego

import (
	"fmt"
	"maps"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// What functions take is charged when they are called. What remains are lists and objects that a rule writes out, the
// elements of comprehensions and of sets, the results of rules and functions, which the evaluator keeps, and values that
// are compared by unification. For these, a compiled module gets additional
// expressions, which only charge and compare.

const (
	takeName   = guardPrefix + "take"
	keepName   = guardPrefix + "keep"
	findName   = guardPrefix + "find"
	sameName   = guardPrefix + "same"
	weighName  = guardPrefix + "weigh"
	modifyName = guardPrefix + "modify"
	eachName   = guardPrefix + "each"
)

// What a value that a rule makes takes, in bytes: each part of a list or an object that is written out, an element of a
// comprehension or a set besides, and a result that is kept.
const (
	perPart    = 128
	perElement = 192
	perResult  = 512
)

// counter is a function that charges. A step that it gives back is free.
type counter struct {
	function *types.Function
	call     func(b *budget, operands []*ast.Term) (result *ast.Term)
}

// accounting are the functions that only charge.
func accounting() map[string]*topdown.Builtin {
	all := map[string]counter{
		takeName: {types.NewFunction(types.Args(types.N), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			b.charge(charge{keeps: count(operands, 0)})
			return ast.InternedTerm(true)
		}},
		modifyName: {types.NewFunction(types.Args(types.N), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			b.charge(charge{documents: count(operands, 0)})
			return ast.InternedTerm(true)
		}},
		// each charges for the elements of a value down to a depth.
		eachName: {types.NewFunction(types.Args(types.A, types.N), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			elements := 0
			enumerated(operands[0], count(operands, 1), &elements)
			b.work(elements / enumeratedPerStep)
			return ast.InternedTerm(true)
		}},
		// same charges for comparing two values, and compares them.
		sameName: {types.NewFunction(types.Args(types.A, types.A), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			if cost, _ := compared(operands); !b.charge(cost) {
				return ast.InternedTerm(false)
			}
			return ast.InternedTerm(operands[0].Equal(operands[1]))
		}},
	}
	for _, more := range []map[string]counter{searching(), agreeing(), making()} {
		maps.Copy(all, more)
	}
	made := map[string]*topdown.Builtin{}
	for name, c := range all {
		made[name] = c.builtin(name)
	}
	return made
}

// builtin is the function that the evaluator calls.
func (c counter) builtin(name string) *topdown.Builtin {
	return &topdown.Builtin{
		Decl: &ast.Builtin{Name: name, Decl: c.function},
		Func: func(bctx topdown.BuiltinContext, operands []*ast.Term, yield func(*ast.Term) error) error {
			b, ok := bctx.Cancel.(*budget)
			if !ok {
				return nil
			}
			result := c.call(b, operands)
			if b.exceeded != "" {
				return stopped(bctx, b)
			}
			return yield(result)
		},
	}
}

// count is an operand that the accountant has written.
func count(operands []*ast.Term, i int) int {
	n, _ := integer(operands, i)
	return int(n)
}

func stopped(bctx topdown.BuiltinContext, b *budget) error {
	return topdown.Halt{Err: &topdown.Error{Code: topdown.BuiltinErr, Message: b.exceeded, Location: bctx.Location}}
}

// account adds the expressions that charge to a compiled module.
func account(module *ast.Module) {
	forgetIndices(module)
	a := newAccountant(module)
	for _, rule := range module.Rules {
		a.rule(rule)
	}
}

// forgetIndices makes the evaluator evaluate each comprehension where it is. Otherwise it evaluates those that compare a variable from
// outside once without it, when the expressions that charge have no value to compare.
func forgetIndices(module *ast.Module) {
	ast.WalkExprs(module, func(expr *ast.Expr) bool {
		terms, _ := expr.Terms.([]*ast.Term)
		for i, term := range terms {
			if ast.IsComprehension(term.Value) {
				again := *term // the compiler has the indices by the addresses of terms
				terms[i] = &again
			}
		}
		return false
	})
}

type accountant struct {
	variables int
	// rules are those of the module, by the names that they begin with.
	rules map[string][]*ast.Rule
	// documents reports that input has documents only, which no rule replaces by other values.
	documents bool
	// searched are the rules among whose elements the module looks for values that may be large, by their names.
	searched map[string]bool
	// makesObject are the names whose rules are members of an object together.
	makesObject map[string]bool
	// several are the rules whose bodies may have several solutions.
	several map[*ast.Rule]bool
	// numbers are those of names, and objects is how many comprehensions make an object.
	numbers map[string]int
	objects int
	// constants are the names of constants all of whose keys are names or indices.
	constants map[string]bool
	// below is how many names of rules each path begins.
	below map[string]int
	// parts are how many parts the literals have that are the values of variables of a rule.
	parts map[ast.Var]int
}

func (a *accountant) rule(rule *ast.Rule) {
	seen := known{}
	clear(a.parts)
	a.learnParts(largeLiteral, seen, rule.Head.Args...)
	for _, arg := range rule.Head.Args {
		seen.see(arg)
	}
	if a.searched[nameOf(rule)] {
		for _, key := range headKeys(rule) {
			ast.WalkVars(key, func(v ast.Var) bool { seen.add(v, mayHave); return false })
		}
	}
	rule.Body = a.body(rule.Body, seen)
	parts := 0
	for _, term := range []*ast.Term{rule.Head.Key, rule.Head.Value} {
		if term != nil {
			a.within(term, seen)
			parts += writtenOut(term)
		}
	}
	if rule.Head.Value != nil {
		value, before := a.once(rule.Head.Value, seen, rule.Location)
		rule.Head.Value, rule.Body = value, append(rule.Body, before...)
	}
	// What a rule without arguments and keys results in is kept once, and there are few rules, so it is not charged.
	kind := rule.Head.RuleKind()
	if parts > 0 || len(rule.Head.Args) > 0 || kind == ast.MultiValue || rule.Head.Key != nil || a.makesObject[nameOf(rule)] {
		rule.Body = append(rule.Body, a.result(rule, perResult+perPart*parts, seen)...)
	}
	if kind == ast.SingleValue && (a.several[rule] || a.alternatives(rule) > 1) {
		rule.Body = append(rule.Body, a.agreeing(rule.Head.Value, 1, seen, rule.Location)...)
	}
	rule.Body = numbered(rule.Body)
	if rule.Else != nil {
		a.rule(rule.Else)
	}
}

// body is a body with the expressions that charge. seen are the variables that may have a value before.
func (a *accountant) body(body ast.Body, seen known) ast.Body {
	var made ast.Body
	for _, expr := range body {
		made = append(made, a.expression(expr, seen)...)
		seen.learn(expr, a.documents)
	}
	return numbered(made)
}

// numbered counts the expressions of a body, as the evaluator wants them.
func numbered(body ast.Body) ast.Body {
	for i := range body {
		body[i].Index = i
	}
	return body
}

func (a *accountant) expression(expr *ast.Expr, seen known) []*ast.Expr {
	before := a.searches(expr, seen)
	a.within(expr, seen)
	if len(expr.With) > 0 {
		before = append(before, modify(len(expr.With), expr.Location))
	}
	if expr.IsEquality() && len(expr.Operands()) == 2 {
		return append(before, a.equality(expr, seen)...)
	}
	terms, ok := expr.Terms.([]*ast.Term)
	if !ok {
		if term, ok := expr.Terms.(*ast.Term); ok {
			before = append(before, a.enumerating(term, seen, expr)...)
		}
		return append(before, expr)
	}
	parts := 0
	for _, term := range terms[1:] {
		parts += writtenOut(term)
	}
	if name, ok := terms[0].Value.(ast.Ref); parts > 0 && (!ok || len(name) > 1 || guardedBuiltins()[name.String()] == nil) { // others are charged by their arguments
		before = append(before, take(perPart*parts, expr.Location))
	}
	for _, term := range terms[1:] {
		before = append(before, finds(keysIn(term, seen), expr.Location)...)
	}
	return append(before, a.call(expr, terms, seen)...)
}

// equality charges for comparing two values either of which may be large. One that gives a variable its value compares
// nothing, and one with a constant no more than that.
func (a *accountant) equality(expr *ast.Expr, seen known) []*ast.Expr {
	left, right := expr.Operand(0), expr.Operand(1)
	var before []*ast.Expr
	if parts := writtenOut(left) + writtenOut(right); parts > 0 {
		before = append(before, take(perPart*parts, expr.Location))
	}
	for _, pair := range [][2]*ast.Term{{left, right}, {right, left}} {
		if !expr.Negated && a.makes(pair[0], pair[1], seen) {
			before = append(before, finds(keysIn(pair[1], seen), expr.Location)...)
			return append(before, made(pair[0], pair[1], expr.Location))
		}
	}
	a.learnParts(a.partsOf(left, right), seen, left, right)
	if simple(left, seen) || simple(right, seen) {
		before = append(before, finds(append(keysIn(left, seen), keysIn(right, seen)...), expr.Location)...)
		before = append(before, a.perhaps(left, right, seen, expr)...)
		return append(append(before, a.enumeratingEquality(left, right, seen, expr)...), expr)
	}
	before = append(before, a.enumeratingEquality(left, right, seen, expr)...)
	operands := [2]*ast.Term{left, right}
	pattern := false
	for i, operand := range operands {
		switch operand.Value.(type) {
		case ast.Var:
		case ast.Ref, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			variable, assigned := a.assigned(operand, expr)
			before, operands[i] = append(before, assigned), variable
		default: // of a pattern, only the variables are compared that have a value
			pattern = true
			before = append(before, a.ofPattern(operand, seen, expr)...)
		}
	}
	all := before
	if pattern {
		for i, operand := range operands {
			if _, ok := operand.Value.(ast.Var); ok && repeats(seen, operands[1-i]) {
				all = append(all, charging(sameName, expr.Location, operand, operand))
			}
		}
		all = append(all, placed(ast.Equality.Expr(operands[0], operands[1]), expr.Location))
	} else { // both have a value by now
		all = append(all, charging(sameName, expr.Location, operands[0], operands[1]))
	}
	if !expr.Negated {
		return all
	}
	return []*ast.Expr{placed(ast.NewExpr(&ast.Not{Body: numbered(all), Location: expr.Location}), expr.Location)}
}

// enumeratedPerStep are the elements that are looked at in one step.
const enumeratedPerStep = 4

// enumeratingEquality charges for a reference whose elements are compared with the other side. If the other side is a
// variable without a value, each element is followed by a step.
func (a *accountant) enumeratingEquality(left, right *ast.Term, seen known, expr *ast.Expr) []*ast.Expr {
	var all []*ast.Expr
	for _, pair := range [][2]*ast.Term{{left, right}, {right, left}} {
		if v, ok := pair[1].Value.(ast.Var); ok && !seen.has(v, hasValue) && open(pair[0], seen) < 2 {
			continue
		}
		all = append(all, a.enumerating(pair[0], seen, expr)...)
	}
	return all
}

// open counts the variables without a value in a reference.
func open(term *ast.Term, seen known) int {
	ref, ok := term.Value.(ast.Ref)
	if !ok {
		return 0
	}
	count := 0
	for _, part := range ref[1:] {
		if unbound(part, seen) {
			count++
		}
	}
	return count
}

func unbound(part *ast.Term, seen known) bool {
	found := false
	ast.WalkVars(part, func(v ast.Var) bool { found = found || !seen.has(v, hasValue); return found })
	return found
}

// enumerating charges for the elements of a reference with variables that have no value.
func (a *accountant) enumerating(term *ast.Term, seen known, expr *ast.Expr) []*ast.Expr {
	ref, ok := term.Value.(ast.Ref)
	if !ok || expr.Negated {
		return nil
	}
	first := firstOpen(ref, seen)
	if first == 0 {
		return nil
	}
	depth := len(ref) - first
	elements, assigned := a.prefix(ref, first, expr)
	all := []*ast.Expr{assigned, charging(eachName, expr.Location, elements, ast.IntNumberTerm(depth))}
	for _, pattern := range ref[first:] {
		if _, ok := pattern.Value.(ast.Var); ok {
			continue
		}
		for _, v := range valued(pattern, seen) { // a pattern is compared with each element
			all = append(all, a.weighed(elements, depth, v, expr))
		}
	}
	return all
}

// enumerated counts the elements of a value down to a depth.
func enumerated(term *ast.Term, depth int, total *int) {
	if _, number := term.Value.(ast.Number); depth == 0 && !number || *total > maxWeight {
		return
	}
	within := func(element *ast.Term) bool {
		*total++
		enumerated(element, depth-1, total)
		return *total > maxWeight
	}
	if number, ok := term.Value.(ast.Number); ok { // a long one takes as long as several elements
		*total += longSteps(magnitude(string(number))) * enumeratedPerStep
		return
	}
	until(term.Value, within, func(_, value *ast.Term) bool { return within(value) })
}

// valued are the variables of a pattern that have a value.
func valued(pattern *ast.Term, seen known) []*ast.Term {
	var names []*ast.Term
	ast.WalkVars(pattern, func(v ast.Var) bool {
		if seen.has(v, hasValue) {
			names = append(names, ast.NewTerm(v))
		}
		return false
	})
	return names
}

// within looks into the comprehensions, and other bodies, of a term or an expression.
func (a *accountant) within(x any, seen known) {
	set := false
	inner := func(body ast.Body, element ...*ast.Term) ast.Body {
		own := seen.inner()
		body = a.body(body, own)
		if len(element) == 0 {
			return body
		}
		parts := 0
		for _, term := range element {
			a.within(term, own)
			parts += writtenOut(term)
		}
		bytes := perElement*len(element) + perPart*parts
		switch {
		case len(element) == 2:
			body = append(body, a.fill(bytes, element[0], element[1]))
		case set:
			body = append(body, keep(bytes, element[0].Location, searchedKeys(element, own))...)
		default:
			body = append(body, take(bytes, element[0].Location))
		}
		return numbered(body)
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch v := x.(type) {
		case *ast.ArrayComprehension:
			v.Body = inner(v.Body, v.Term)
		case *ast.SetComprehension:
			set = true
			v.Body = inner(v.Body, v.Term)
			set = false
		case *ast.ObjectComprehension:
			v.Body = inner(v.Body, v.Key, v.Value)
		case *ast.Every:
			a.within(v.Domain, seen)
			outer := seen
			for _, element := range []*ast.Term{v.Key, v.Value} {
				if element != nil {
					a.learnParts(a.partsOf(v.Domain), seen, element)
				}
			}
			seen = a.elementOf(v, seen)
			v.Body = inner(v.Body)
			seen = outer
		case *ast.Not:
			v.Body = inner(v.Body)
		case *ast.LogicalAnd:
			v.Lhs, v.Rhs = inner(v.Lhs), inner(v.Rhs)
		case *ast.LogicalOr:
			v.Lhs, v.Rhs = inner(v.Lhs), inner(v.Rhs)
		default:
			return false
		}
		return true
	}).Walk(x)
}

// simple reports whether comparing with a term takes next to nothing: it is a constant, or a variable that is about to
// have its value from the other side.
func simple(term *ast.Term, seen known) bool {
	switch v := term.Value.(type) {
	case ast.Null, ast.Boolean, ast.String:
		return true
	case ast.Number:
		return longSteps(magnitude(string(v))) == 0
	case ast.Var:
		return !seen.has(v, hasValue)
	}
	return false
}

// writtenOut is how many parts there are in the lists, sets and objects of a term that are made each time.
func writtenOut(term *ast.Term) int {
	if term.IsGround() {
		return 0
	}
	parts := 0
	ast.NewGenericVisitor(func(x any) bool {
		switch v := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		case *ast.Array:
			parts += 1 + v.Len()
		case ast.Set:
			parts += 2 + 2*v.Len()
		case ast.Object:
			parts += 2 + 3*v.Len()
		}
		return false
	}).Walk(term)
	return parts
}

func take(bytes int, location *ast.Location) *ast.Expr {
	return charging(takeName, location, ast.IntNumberTerm(bytes))
}

func modify(documents int, location *ast.Location) *ast.Expr {
	return charging(modifyName, location, ast.IntNumberTerm(documents))
}

func charging(name string, location *ast.Location, operands ...*ast.Term) *ast.Expr {
	return placed(ast.NewExpr(append([]*ast.Term{ast.NewTerm(ast.Ref{ast.VarTerm(name)})}, operands...)), location)
}

// placed gives a charging expression the location of the one that it charges for.
func placed(expr *ast.Expr, location *ast.Location) *ast.Expr {
	expr.Location = location
	return expr
}

// chargedName is the name of a variable that no module has.
func chargedName(n int) string { return fmt.Sprintf("__charged%d__", n) }
