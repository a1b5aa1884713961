package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// Besides searches and equalities, the evaluator compares what a rule, a function or an object results in with what it resulted in before,
// the arguments of a function with its patterns, and a variable that a pattern has twice. A compiled module charges for these where the
// values may be large. Values of less than small are not charged. The steps of agree and work are free; those of enter and fill are not,
// because they also charge for memory.

const (
	agreeName = guardPrefix + "agree"
	workName  = guardPrefix + "work"
	enterName = guardPrefix + "enter"
	fillName  = guardPrefix + "fill"
)

// agreeing are the functions that charge for comparing values of the same place.
func agreeing() map[string]counter {
	charges := func(call func(b *budget, operands []*ast.Term), args ...types.Type) counter {
		return counter{types.NewFunction(types.Args(args...), types.B), func(b *budget, operands []*ast.Term) *ast.Term {
			call(b, operands)
			return ast.InternedTerm(true)
		}}
	}
	return map[string]counter{
		// agree charges for comparing a value so many times.
		agreeName: charges(func(b *budget, operands []*ast.Term) {
			b.agrees(operands[0], count(operands, 1))
			b.refund()
		}, types.A, types.N),
		workName: charges(func(b *budget, operands []*ast.Term) {
			b.work(count(operands, 0))
			b.refund()
		}, types.N),
		// enter takes bytes for a member of an object that a rule makes.
		enterName: charges(func(b *budget, operands []*ast.Term) {
			b.charge(charge{keeps: count(operands, 0)})
			b.enters(count(operands, 1), operands[2])
		}, types.N, types.N, types.A),
		// fill takes bytes for a member of an object that a comprehension makes.
		fillName: charges(func(b *budget, operands []*ast.Term) {
			b.charge(charge{keeps: count(operands, 0)})
			b.fills(count(operands, 1), operands[2], operands[3])
		}, types.N, types.N, types.A, types.A),
	}
}

// agrees charges for comparing a value with others.
func (b *budget) agrees(value *ast.Term, often int) {
	if listed(value) {
		b.compares(times(often, weight(value)))
	}
}

// enteredPerStep are the members with which the evaluator compares the path of a new one in a step.
const enteredPerStep = 64

// enters charges for a new member of an object that a rule makes: its path is compared with those of all others.
func (b *budget) enters(rule int, key *ast.Term) {
	if b.entered == nil {
		b.entered = map[int]int{}
	}
	others := b.entered[rule]
	b.entered[rule]++
	b.work(others / enteredPerStep)
	kind, size := sizeOf(key)
	if kind >= sharedInteger {
		takes := times(others, size)
		b.inOrder = b.inOrder || takes >= small
		b.compares(takes)
	}
	b.findsSized(key, kind, size)
}

// fewMembersMade are so many that the hashes of their values are added up in a step.
const fewMembersMade = 32

// filling has the keys of objects that a comprehension has made.
type filling struct {
	keys map[int]bool
	// count are the members, and longest is the longest text among their values.
	count, longest int
}

// fills charges for a member of an object that a comprehension makes: if there is one with its key, the values are compared, and the hashes
// of all values are computed again.
func (b *budget) fills(comprehension int, key, value *ast.Term) {
	b.finds(key)
	b.agrees(value, 1)
	if b.filled == nil {
		b.filled = map[int]*filling{}
	}
	f := b.filled[comprehension]
	if f == nil {
		f = &filling{}
		b.filled[comprehension] = f
	}
	if f.count++; f.count <= fewMembersMade {
		return
	}
	if f.keys == nil {
		f.keys = map[int]bool{}
	}
	hash := key.Hash()
	if !f.keys[hash] {
		f.keys[hash] = true
		return
	}
	const perHash = 32
	length := 0
	if text, ok := value.Value.(ast.String); ok {
		length = len(text)
	}
	f.longest = max(f.longest, length)
	steps := times(len(f.keys)+fewMembersMade, perHash+f.longest/hashedFaster) / readPerStep
	b.inOrder = b.inOrder || steps > 0
	b.work(steps)
}

// hashedFaster is how much faster a text is hashed than it is read.
const hashedFaster = 8

// fill keeps bytes for a new member of an object that a comprehension makes.
func (a *accountant) fill(bytes int, key, value *ast.Term) *ast.Expr {
	a.objects++
	return charging(fillName, key.Location, ast.IntNumberTerm(bytes), ast.IntNumberTerm(a.objects), key, value)
}

// result is the charge at the end of a rule for what it results in.
func (a *accountant) result(rule *ast.Rule, bytes int, seen known) []*ast.Expr {
	keys, name := headKeys(rule), nameOf(rule)
	if a.makesObject[name] && len(keys) > 0 {
		all := []*ast.Expr{charging(enterName, rule.Location, ast.IntNumberTerm(bytes), ast.IntNumberTerm(a.numberOf(name)), keys[0])}
		all = append(all, finds(searchedKeys(keys[1:], seen), rule.Location)...)
		return append(all, a.agreeing(rule.Head.Value, 1, seen, rule.Location)...)
	}
	return keep(bytes, rule.Location, searchedKeys(keys, seen))
}

// alternatives is how many rules with the name of a rule there are, without the default.
func (a *accountant) alternatives(rule *ast.Rule) int {
	count := 0
	for _, other := range a.rules[nameOf(rule)] {
		if !other.Default {
			count++
		}
	}
	return count
}

// numberOf is a number for the rules of a name.
func (a *accountant) numberOf(name string) int {
	if a.numbers[name] == 0 {
		a.numbers[name] = len(a.numbers) + 1
	}
	return a.numbers[name]
}

// agreeing charges for comparing what a term has so many times, if it may be large.
func (*accountant) agreeing(term *ast.Term, often int, seen known, location *ast.Location) []*ast.Expr {
	if term == nil || ast.IsScalar(term.Value) {
		return nil
	}
	if v, ok := term.Value.(ast.Var); ok && (!seen.has(v, hasValue) || seen.has(v, isPlain)) {
		return nil
	}
	if term.IsGround() {
		return constantWork(times(often, weight(term)), location)
	}
	return []*ast.Expr{charging(agreeName, location, term, ast.IntNumberTerm(often))}
}

// constantWork charges for comparing so many bytes of the module.
func constantWork(bytes int, location *ast.Location) []*ast.Expr {
	if bytes < small {
		return nil
	}
	return []*ast.Expr{charging(workName, location, ast.IntNumberTerm(bytes/comparedPerStep))}
}

// ofPattern are the charges for comparing the parts of a pattern that have a value.
func (a *accountant) ofPattern(pattern *ast.Term, seen known, expr *ast.Expr) []*ast.Expr {
	var all []*ast.Expr
	for _, name := range valued(pattern, seen) {
		all = append(all, charging(sameName, expr.Location, name, name))
	}
	ast.WalkVars(pattern, func(v ast.Var) bool {
		if seen.has(v, mayHave) && !seen.has(v, hasValue) {
			all = append(all, a.weighed(nil, 0, ast.NewTerm(v), expr))
		}
		return false
	})
	all = append(all, finds(keysIn(pattern, seen), expr.Location)...)
	return append(all, constantWork(constants(pattern), expr.Location)...)
}

// constants is the weight of the constant lists, sets and objects of a pattern.
func constants(pattern *ast.Term) int {
	total := 0
	ast.WalkTerms(pattern, func(term *ast.Term) bool {
		switch term.Value.(type) {
		case *ast.Array, ast.Set, ast.Object:
			if term.IsGround() {
				total += weight(term)
				return true
			}
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		}
		return false
	})
	return total
}

// keysIn are the elements of sets and the keys of objects of a term by which the evaluator searches.
func keysIn(term *ast.Term, seen known) []*ast.Term {
	var keys []*ast.Term
	ast.WalkTerms(term, func(t *ast.Term) bool {
		if t.IsGround() {
			return true
		}
		switch v := t.Value.(type) {
		case ast.Set:
			v.Foreach(func(key *ast.Term) { keys = append(keys, key) })
		case ast.Object:
			v.Foreach(func(key, _ *ast.Term) { keys = append(keys, key) })
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			return true
		}
		return false
	})
	return slices.DeleteFunc(searchedKeys(keys, seen), func(key *ast.Term) bool { return unbound(key, seen) })
}

// repeats reports whether terms have a variable without a value twice.
func repeats(seen known, terms ...*ast.Term) bool {
	count, twice := map[ast.Var]bool{}, false
	for _, term := range terms {
		ast.WalkVars(term, func(v ast.Var) bool {
			twice = twice || count[v] && !seen.has(v, hasValue)
			count[v] = true
			return twice
		})
	}
	return twice
}

// call charges for comparing the arguments of a function with its patterns, and what it returns with a term that has a value.
func (a *accountant) call(expr *ast.Expr, terms []*ast.Term, seen known) []*ast.Expr {
	name, ok := terms[0].Value.(ast.Ref)
	if !ok {
		return []*ast.Expr{expr}
	}
	arity := -1
	var all []*ast.Expr
	if rules := a.rules[name.String()]; len(rules) > 0 {
		arity = len(rules[0].Head.Args)
		terms = slices.Clone(terms)
		for i := range terms[1:min(len(terms), arity+1)] {
			var before []*ast.Expr
			terms[i+1], before = a.once(terms[i+1], seen, expr.Location)
			all = append(all, before...)
		}
		if len(all) > 0 {
			called := *expr
			called.Terms = terms
			expr = &called
		}
		all = append(all, a.arguments(terms[1:min(len(terms), arity+1)], rules, seen, expr)...)
		a.learnParts(largeLiteral, seen, terms[min(len(terms), arity+1):]...)
	} else if called, ok := builtinName(name); ok {
		if declaration := declarationOf(called); declaration != nil && declaration.Decl.Result() != nil {
			arity = declaration.Decl.Arity()
		}
	}
	output := terms[len(terms)-1]
	if arity < 0 || len(terms)-1 != arity+1 || !a.comparesOutput(output, seen) {
		return append(all, expr)
	}
	fresh := a.fresh(output.Location)
	called := *expr
	called.Terms, called.Negated = append(append(make([]*ast.Term, 0, len(terms)), terms[:len(terms)-1]...), fresh), false
	seen.add(fresh.Value.(ast.Var), hasValue)
	body := append(ast.Body{&called}, a.equality(placed(ast.Equality.Expr(output, fresh), expr.Location), seen)...)
	if !expr.Negated {
		return append(all, body...)
	}
	return append(all, placed(ast.NewExpr(&ast.Not{Body: numbered(body), Location: expr.Location}), expr.Location))
}

func declarationOf(name string) *ast.Builtin {
	if own := guardedBuiltins()[name]; own != nil {
		return own.Decl
	}
	return ast.BuiltinMap[name]
}

// comparesOutput reports whether what a function returns may be compared with something large.
func (*accountant) comparesOutput(output *ast.Term, seen known) bool {
	if v, ok := output.Value.(ast.Var); ok {
		return seen.has(v, hasValue|mayHave) && !seen.has(v, isPlain)
	}
	if ast.IsScalar(output.Value) {
		return false
	}
	compares := repeats(seen, output) || constants(output) >= small
	ast.WalkVars(output, func(v ast.Var) bool {
		compares = compares || seen.has(v, hasValue|mayHave) && !seen.has(v, isPlain)
		return compares
	})
	return compares
}

// arguments charges for comparing arguments with the patterns of all rules of a function.
func (a *accountant) arguments(arguments []*ast.Term, rules []*ast.Rule, seen known, expr *ast.Expr) []*ast.Expr {
	often := 0
	for _, rule := range rules {
		for ; rule != nil; rule = rule.Else {
			if matches(rule.Head.Args) {
				often++
			}
		}
	}
	if often == 0 {
		return nil
	}
	var all []*ast.Expr
	for _, argument := range arguments {
		all = append(all, a.agreeing(argument, often, seen, expr.Location)...)
	}
	if often >= fewRules {
		all = append(all, charging(workName, expr.Location, ast.IntNumberTerm(often)))
	}
	return all
}

// matches reports whether the arguments of a rule are more than different variables and constants without elements.
func matches(args []*ast.Term) bool {
	if repeats(known{}, args...) {
		return true
	}
	for _, arg := range args {
		switch v := arg.Value.(type) {
		case ast.Set, ast.Object:
			return true
		case *ast.Array:
			nested := false
			v.Foreach(func(element *ast.Term) { nested = nested || listed(element) })
			if nested || v.Len() > 0 && arg.IsGround() {
				return true
			}
		}
	}
	return false
}
