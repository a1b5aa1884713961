package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// The evaluator looks for a value among the elements of a set, the keys of an object and the arguments of a function by its hash, and
// compares it with what it finds. A compiled module charges for each value that may be large, or have the hash of others. A search for
// a name or an index, which almost all are, is not charged.

// searching are the functions that charge for searches. The steps of find and weigh are free; the step of keep is not, because it also
// charges for memory.
func searching() map[string]counter {
	return map[string]counter{
		// keep takes bytes, and charges for a search for a new element or a key.
		keepName: {types.NewFunction(types.Args(types.N, types.A), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			b.charge(charge{keeps: count(operands, 0)})
			b.finds(operands[1])
			b.agrees(operands[1], sorting)
			return ast.InternedTerm(true)
		}},
		findName: {types.NewFunction(types.Args(types.A), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			b.finds(operands[0])
			b.refund()
			return ast.InternedTerm(true)
		}},
		// weigh charges for comparing a variable, if it has a value, with the elements of another one down to a depth.
		weighName: {types.NewFunction(types.Args(types.A, types.N), types.A), func(b *budget, operands []*ast.Term) *ast.Term {
			value := operands[2]
			if size := comparedSize(value); size >= comparedPerStep {
				elements := 1
				enumerated(operands[0], count(operands, 1), &elements)
				b.work(times(elements, size) / comparedPerStep)
			}
			b.refund()
			return value
		}},
	}
}

// comparedSize is the size of a text, a list, a set or an object, in bytes. Comparing another value takes next to nothing: 0.
func comparedSize(value *ast.Term) int {
	switch value.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number:
		return 0
	}
	if !value.IsGround() {
		return 0 // a variable without a value
	}
	return weight(value)
}

// sorting is how often an element of a set is compared, when the set is sorted.
const sorting = 8

// refund gives a step back that only charges.
func (b *budget) refund() {
	if b.exceeded == "" {
		b.steps -= b.step
	}
}

func newAccountant(module *ast.Module) *accountant {
	a := &accountant{
		rules: map[string][]*ast.Rule{}, documents: true, searched: map[string]bool{}, makesObject: map[string]bool{},
		numbers: map[string]int{}, several: map[*ast.Rule]bool{}, constants: map[string]bool{}, below: map[string]int{}, parts: map[ast.Var]int{},
	}
	for _, rule := range module.Rules {
		name := nameOf(rule)
		a.rules[name] = append(a.rules[name], rule)
		a.makesObject[name] = a.makesObject[name] || !rule.Ref().IsGround()
	}
	for name, rules := range a.rules {
		a.constants[name] = len(rules) == 1 && constantOfNames(rules[0])
		for path := rules[0].Ref().GroundPrefix(); len(path) > 0; path = path[:len(path)-1] {
			a.below[path.String()]++
		}
	}
	ast.WalkExprs(module, func(expr *ast.Expr) bool {
		for _, with := range expr.With {
			replaced, _ := with.Target.Value.(ast.Ref)
			if replaced.HasPrefix(ast.InputRootRef) && !ast.IsScalar(with.Value.Value) {
				a.documents = false
			}
		}
		return false
	})
	for _, rule := range module.Rules {
		for ; rule != nil; rule = rule.Else {
			a.surveyRule(rule)
		}
	}
	return a
}

// surveyRule notes the rules among whose elements a rule searches.
func (a *accountant) surveyRule(rule *ast.Rule) {
	seen := known{}
	for _, arg := range rule.Head.Args {
		seen.see(arg)
	}
	for _, key := range headKeys(rule) {
		ast.WalkVars(key, func(v ast.Var) bool { seen.add(v, mayHave); return false })
	}
	a.several[rule] = a.survey(rule.Body, seen)
	for _, term := range []*ast.Term{rule.Head.Key, rule.Head.Value} {
		if term != nil {
			a.surveyWithin(term, seen)
		}
	}
}

// survey reports whether a body may have several solutions.
func (a *accountant) survey(body ast.Body, seen known) (several bool) {
	for _, expr := range body {
		if terms, ok := expr.Terms.([]*ast.Term); ok && !expr.Negated {
			name, _ := terms[0].Value.(ast.Ref)
			several = several || len(name) == 1 && name[0].Equal(walkFunction)
		}
		for _, ref := range referencesIn(expr) {
			several = several || !expr.Negated && firstOpen(ref, seen) > 0
			name, rest := a.ruleAt(ref)
			for _, part := range rest {
				v, isVar := part.Value.(ast.Var)
				if isVar && seen.has(v, hasValue|mayHave) && !seen.has(v, isPlain) || !isVar && !plainKey(part) {
					a.searched[name] = true
				}
			}
		}
		a.surveyWithin(expr, seen)
		seen.learn(expr, a.documents)
	}
	return several
}

// walkFunction is the function that returns several values.
var walkFunction = ast.VarTerm(guardPrefix + "walk")

// surveyWithin looks into the bodies of a term or an expression.
func (a *accountant) surveyWithin(x any, seen known) {
	inner := func(body ast.Body, elements ...*ast.Term) {
		own := seen.inner()
		a.survey(body, own)
		for _, element := range elements {
			a.surveyWithin(element, own)
		}
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch v := x.(type) {
		case *ast.Every:
			a.surveyWithin(v.Domain, seen)
			a.survey(v.Body, a.elementOf(v, seen))
		case *ast.ArrayComprehension:
			inner(v.Body, v.Term)
		case *ast.SetComprehension:
			inner(v.Body, v.Term)
		case *ast.ObjectComprehension:
			inner(v.Body, v.Key, v.Value)
		case *ast.Not:
			inner(v.Body)
		case *ast.LogicalAnd:
			inner(v.Lhs)
			inner(v.Rhs)
		case *ast.LogicalOr:
			inner(v.Lhs)
			inner(v.Rhs)
		default:
			return false
		}
		return true
	}).Walk(x)
}

// nameOf is what all references to a rule begin with.
func nameOf(rule *ast.Rule) string { return rule.Ref().GroundPrefix().String() }

// ruleAt returns the name of the rules that a reference begins with, and its parts after the name; nil for none.
func (a *accountant) ruleAt(ref ast.Ref) (name string, rest ast.Ref) {
	if !ref[0].Equal(ast.DefaultRootDocument) {
		return "", nil
	}
	for end := len(ref.GroundPrefix()); end > 1; end-- {
		if name := ref[:end].String(); len(a.rules[name]) > 0 {
			return name, ref[end:]
		}
	}
	return "", nil
}

// headKeys are the terms of the head of a rule that become elements of a set, or keys of an object.
func headKeys(rule *ast.Rule) []*ast.Term {
	var keys []*ast.Term
	ref := rule.Ref()
	keys = append(keys, ref[len(ref.GroundPrefix()):]...)
	if rule.Head.RuleKind() == ast.MultiValue && rule.Head.Key != nil {
		keys = append(keys, rule.Head.Key)
	}
	return keys
}

// searchedKeys are the terms that may be large, or may have the hash of others. Integers, booleans and null are counted.
func searchedKeys(keys []*ast.Term, seen known) []*ast.Term {
	var searched []*ast.Term
	for _, key := range keys {
		if v, ok := key.Value.(ast.Var); ok && seen.has(v, isPlain) && !seen.has(v, isInteger|isBoolean) || plainKey(key) && kindOf(key) != zeroOrOne {
			continue
		}
		searched = append(searched, key)
	}
	return searched
}

// keep takes bytes, and charges for searches for keys.
func keep(bytes int, location *ast.Location, keys []*ast.Term) []*ast.Expr {
	if len(keys) == 0 {
		return []*ast.Expr{take(bytes, location)}
	}
	all := []*ast.Expr{charging(keepName, location, ast.IntNumberTerm(bytes), keys[0])}
	return append(all, finds(keys[1:], location)...)
}

func finds(keys []*ast.Term, location *ast.Location) []*ast.Expr {
	var all []*ast.Expr
	for _, key := range keys {
		all = append(all, charging(findName, location, key))
	}
	return all
}

// searches are the charges for the searches of an expression by values that are known before.
func (a *accountant) searches(expr *ast.Expr, seen known) []*ast.Expr {
	var all []*ast.Expr
	for _, ref := range referencesIn(expr) {
		if seen.document(ref, a.documents) {
			continue
		}
		name, rest := a.ruleAt(ref)
		if work := a.treeWork(ref, name, rest); work > 0 {
			all = append(all, charging(workName, expr.Location, ast.IntNumberTerm(work)))
		}
		first := len(ref) - len(rest) // the part that is looked for in the value of the rules
		for i, part := range ref {
			v, isVar := part.Value.(ast.Var)
			switch {
			case i == 0 || plainKey(part) && kindOf(part) != zeroOrOne || i == first && a.constants[name]:
			case isVar && !seen.has(v, hasValue) && seen.has(v, mayHave):
				all = append(all, a.weighed(nil, 0, part, expr))
			case isVar && seen.has(v, isPlain) && !seen.has(v, isBoolean) || unbound(part, seen):
			default:
				all = append(all, charging(findName, expr.Location, part))
			}
		}
	}
	return all
}

// fewRules are so many rules that a step pays for comparing their heads. Of more, a step pays for one.
const fewRules = 16

// mergedPerStep are the pairs of rules below a name that the evaluator puts together in a step.
const mergedPerStep = 64

// treeWork are the steps of evaluating a reference to many rules: those of a set, whose heads are compared with the element, or those with
// other names below it, whose results are put together one after the other. The name and the rest are those of ruleAt.
func (a *accountant) treeWork(ref ast.Ref, name string, rest ast.Ref) int {
	if !ref[0].Equal(ast.DefaultRootDocument) {
		return 0
	}
	if name != "" {
		if rules := len(a.rules[name]); len(rest) > 0 && rules >= fewRules {
			return rules
		}
		return 0
	}
	below := a.below[ref.GroundPrefix().String()]
	return times(below, below) / mergedPerStep
}

// referencesIn are the references of an expression, without those of its bodies.
func referencesIn(expr *ast.Expr) []ast.Ref {
	var refs []ast.Ref
	visitor := ast.NewGenericVisitor(func(x any) bool {
		switch v := x.(type) {
		case ast.Ref:
			refs = append(refs, v)
		case ast.Body, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		}
		return false
	})
	switch terms := expr.Terms.(type) {
	case *ast.Term:
		visitor.Walk(terms)
	case []*ast.Term:
		for _, term := range terms[1:] {
			visitor.Walk(term)
		}
	}
	return refs
}

// constantOfNames reports whether a rule is a constant, all of whose keys are names or few integers.
func constantOfNames(rule *ast.Rule) bool {
	if rule.Else != nil || rule.Head.RuleKind() != ast.SingleValue || rule.Head.Value == nil || !rule.Ref().IsGround() {
		return false
	}
	plain, integers := true, 0
	each := func(key *ast.Term) {
		plain = plain && plainKey(key)
		if kindOf(key) == ownValue {
			integers++
		}
	}
	switch v := rule.Head.Value.Value.(type) {
	case ast.Set:
		v.Foreach(each)
	case ast.Object:
		v.Foreach(func(key, _ *ast.Term) { each(key) })
	case *ast.Array:
	default:
		return false
	}
	return plain && integers < fewIntegers && ast.IsConstant(rule.Head.Value.Value)
}

// perhaps charges for comparing a variable to which a search may have given a value.
func (a *accountant) perhaps(left, right *ast.Term, seen known, expr *ast.Expr) []*ast.Expr {
	var all []*ast.Expr
	for _, pair := range [][2]*ast.Term{{left, right}, {right, left}} {
		v, ok := pair[0].Value.(ast.Var)
		if !ok || !seen.has(v, mayHave) || seen.has(v, hasValue) || ast.IsScalar(pair[1].Value) {
			continue
		}
		if ref, ok := pair[1].Value.(ast.Ref); ok {
			if i := firstOpen(ref, seen); i > 0 {
				prefix, assigned := a.prefix(ref, i, expr)
				all = append(all, assigned, a.weighed(prefix, len(ref)-i, pair[0], expr))
				continue
			}
		}
		all = append(all, a.weighed(nil, 0, pair[0], expr))
	}
	return all
}

// firstOpen is the place of the first part of a reference that has no value; 0 if all have one.
func firstOpen(ref ast.Ref, seen known) int {
	for i, part := range ref {
		if i > 0 && unbound(part, seen) {
			return i
		}
	}
	return 0
}

// prefix gives a variable the first parts of a reference.
func (a *accountant) prefix(ref ast.Ref, parts int, expr *ast.Expr) (*ast.Term, *ast.Expr) {
	return a.assigned(ast.NewTerm(ref[:parts:parts]).SetLocation(expr.Location), expr)
}

// assigned gives a new variable the value of a part of an expression.
func (a *accountant) assigned(part *ast.Term, expr *ast.Expr) (*ast.Term, *ast.Expr) {
	variable := a.fresh(part.Location)
	equality := placed(ast.Equality.Expr(variable, part), expr.Location)
	equality.With = expr.With
	return variable, equality
}

// fresh is a variable that the module does not have.
func (a *accountant) fresh(location *ast.Location) *ast.Term {
	a.variables++
	return ast.VarTerm(chargedName(a.variables)).SetLocation(location)
}

// weighed charges for comparing a variable that may have a value with the elements of another one; nil for comparing it once.
func (*accountant) weighed(elements *ast.Term, depth int, variable *ast.Term, expr *ast.Expr) *ast.Expr {
	if elements == nil {
		elements = ast.InternedNullTerm
	}
	return charging(weighName, expr.Location, elements, ast.IntNumberTerm(depth), variable)
}

// elementOf are the variables within the body of an every: its key and its value have values.
func (a *accountant) elementOf(every *ast.Every, seen known) known {
	own := seen.inner()
	domain, _ := every.Domain.Value.(ast.Var)
	for _, term := range []*ast.Term{every.Key, every.Value} {
		if term == nil {
			continue
		}
		own.see(term)
		if v, ok := term.Value.(ast.Var); ok && seen.has(domain, isDocument) {
			if term == every.Key {
				own.add(v, isPlain)
			} else {
				own.add(v, isDocument)
			}
		}
	}
	return own
}
