package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// The evaluator keeps a list, a set or an object that a rule writes out as it is written, and puts the values of its variables into it each
// time that it is used. A compiled module makes the value of a large one once.

const makeName = guardPrefix + "make"

// largeLiteral is how many parts a literal has that is made once.
const largeLiteral = 64

// making is the function that returns a literal with the values of its variables.
func making() *topdown.Builtin {
	declaration := &ast.Builtin{Name: makeName, Decl: types.NewFunction(types.Args(types.A), types.A)}
	return &topdown.Builtin{Decl: declaration, Func: func(_ topdown.BuiltinContext, operands []*ast.Term, yield func(*ast.Term) error) error {
		return yield(operands[0])
	}}
}

// makes reports whether an expression gives a variable without a value a large literal. It notes how many parts the variable has otherwise.
func (a *accountant) makes(variable, literal *ast.Term, seen known) bool {
	v, ok := variable.Value.(ast.Var)
	parts := a.partsOf(literal)
	if !ok || seen.has(v, hasValue|mayHave) || parts == 0 {
		return false
	}
	if parts >= largeLiteral && listed(literal) && !unbound(literal, seen) {
		return true
	}
	a.parts[v] = parts
	return false
}

// partsOf is how many parts a term has, with those of its variables.
func (a *accountant) partsOf(term *ast.Term) int {
	if _, ok := term.Value.(ast.Ref); ok {
		return 0
	}
	parts := writtenOut(term)
	ast.WalkVars(term, func(v ast.Var) bool { parts = min(parts+a.parts[v], tooHeavy); return false })
	return parts
}

// made gives a variable the value of a literal.
func made(variable, literal *ast.Term, location *ast.Location) *ast.Expr {
	return charging(makeName, location, literal, variable)
}

// once replaces a large literal by a variable that has its value.
func (a *accountant) once(term *ast.Term, seen known, location *ast.Location) (*ast.Term, []*ast.Expr) {
	if term == nil || a.partsOf(term) < largeLiteral || unbound(term, seen) {
		return term, nil
	}
	a.variables++
	variable := ast.VarTerm(chargedName(a.variables)).SetLocation(location)
	seen.add(variable.Value.(ast.Var), hasValue)
	return variable, []*ast.Expr{made(variable, term, location)}
}

// collisions is what making a set or an object again takes besides, in bytes: its keys are compared with all that have the same hash, and in a
// set also with those that follow.
func collisions(terms ...*ast.Term) int {
	total := 0
	for _, term := range terms {
		var keys []*ast.Term
		each := func(key *ast.Term) {
			if kindOf(key) >= sharedInteger {
				keys = append(keys, key)
			}
		}
		switch v := term.Value.(type) {
		case ast.Set:
			v.Foreach(each)
		case ast.Object:
			v.Foreach(func(key, _ *ast.Term) { each(key) })
		case *ast.Array:
			v.Foreach(func(element *ast.Term) {
				switch element.Value.(type) {
				case ast.Set, ast.Object:
					total = min(total+collisions(element), tooHeavy)
				default:
					each(element)
				}
			})
		}
		total = min(total+probed(keys), tooHeavy)
	}
	return total
}

// probed is what adding keys to a set one after the other compares, in bytes.
func probed(keys []*ast.Term) int {
	if len(keys) < 2 {
		return 0
	}
	slices.SortFunc(keys, func(a, b *ast.Term) int {
		switch x, y := a.Hash(), b.Hash(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	largest := 0
	probes, slot := 0, keys[0].Hash()
	for _, key := range keys {
		hash := key.Hash()
		slot = max(slot, hash)
		if slot > hash {
			largest = max(largest, comparing(key, kindOf(key)))
		}
		probes = min(probes+slot-hash, tooHeavy)
		slot++
	}
	return times(probes, largest)
}
