package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// The evaluator keeps a list, a set or an object that a rule writes out as it is written, and puts the values of its variables into it each
// time that it is used. A compiled module makes the value of a large one once. A small one may have variables whose values are literals that
// another rule writes out: arguments, and results. It counts as large then, so that no value has more parts than a small literal that are
// put together each time.

const (
	makeName = guardPrefix + "make"
	onceName = guardPrefix + "once"
)

// largeLiteral is how many parts a literal has that is made once.
const largeLiteral = 64

// making are the functions that return a literal with the values of its variables. The step of once is free.
func making() map[string]counter {
	function := types.NewFunction(types.Args(types.A), types.A)
	return map[string]counter{
		makeName: {function, func(_ *budget, operands []*ast.Term) *ast.Term { return operands[0] }},
		onceName: {function, func(b *budget, operands []*ast.Term) *ast.Term {
			b.refund()
			return operands[0]
		}},
	}
}

// makes reports whether an expression gives a variable without a value a large literal.
func (a *accountant) makes(variable, literal *ast.Term, seen known) bool {
	v, ok := variable.Value.(ast.Var)
	return ok && !seen.has(v, hasValue|mayHave) && listed(literal) && a.partsOf(literal) >= largeLiteral && !unbound(literal, seen)
}

// learnParts notes for the variables of terms that have no value yet that they may have so many parts.
func (a *accountant) learnParts(parts int, seen known, terms ...*ast.Term) {
	if parts == 0 {
		return
	}
	for _, term := range terms {
		ast.WalkVars(term, func(v ast.Var) bool {
			if !seen.has(v, hasValue|mayHave) {
				a.parts[v] = parts
			}
			return false
		})
	}
}

// partsOf is how many parts a term has, with those of its variables. A result of a rule may have as many as a literal that is not large.
func (a *accountant) partsOf(terms ...*ast.Term) int {
	parts := 0
	for _, term := range terms {
		switch v := term.Value.(type) {
		case ast.Null, ast.Boolean, ast.Number, ast.String:
			continue
		case ast.Var:
			parts = min(parts+a.parts[v], tooHeavy)
			continue
		}
		parts += writtenOut(term)
		ast.NewGenericVisitor(func(x any) bool {
			switch v := x.(type) {
			case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
				return true
			case ast.Ref:
				if v[0].Equal(ast.DefaultRootDocument) {
					parts += largeLiteral
				} else if head, ok := v[0].Value.(ast.Var); ok {
					parts += a.parts[head]
				}
				return true
			case ast.Var:
				parts += a.parts[v]
			}
			parts = min(parts, tooHeavy)
			return false
		}).Walk(term)
	}
	return parts
}

// made gives a variable the value of a literal.
func made(variable, literal *ast.Term, location *ast.Location) *ast.Expr {
	return charging(makeName, location, literal, variable)
}

// once replaces a large literal by a variable that has its value.
func (a *accountant) once(term *ast.Term, seen known, location *ast.Location) (*ast.Term, []*ast.Expr) {
	if term == nil || !listed(term) || a.partsOf(term) < largeLiteral || unbound(term, seen) {
		return term, nil
	}
	variable := a.fresh(location)
	seen.add(variable.Value.(ast.Var), hasValue)
	return variable, []*ast.Expr{charging(onceName, location, term, variable)}
}
