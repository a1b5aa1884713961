package rego

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// trait is what is known of the value of a variable.
type trait uint8

const (
	// hasValue is a variable that may have a value.
	hasValue trait = 1 << iota
	// mayHave is a variable to which a search among the elements of a rule may have given a value.
	mayHave
	// isPlain is a text, a boolean, null, or an index of a list.
	isPlain
	// isInteger is a plain value that may be an integer, and isBoolean one that may be a boolean or null.
	isInteger
	isBoolean
	// isDocument is a part of a document: its objects have names as keys, and it has no sets.
	isDocument
)

// known has the traits of the variables of a body.
type known map[ast.Var]trait

func (k known) has(v ast.Var, t trait) bool { return k[v]&t != 0 }

func (k known) add(v ast.Var, t trait) { k[v] |= t }

// see notes the variables of a term or an expression, which have a value after it.
func (k known) see(x any) {
	ast.WalkVars(x, func(v ast.Var) bool { k.add(v, hasValue); return false })
}

// learn notes the variables of an expression, and what it says of their values.
func (k known) learn(expr *ast.Expr, documents bool) {
	k.see(expr)
	if expr.Negated || len(expr.With) > 0 {
		return
	}
	switch terms := expr.Terms.(type) {
	case *ast.Term:
		k.learnPath(terms, documents)
	case []*ast.Term:
		if expr.IsEquality() && len(terms) == 3 {
			k.learnEqual(terms[1], terms[2], documents)
			k.learnEqual(terms[2], terms[1], documents)
			return
		}
		name, _ := terms[0].Value.(ast.Ref)
		if output, ok := terms[len(terms)-1].Value.(ast.Var); ok {
			k.add(output, plainResult(name, len(terms)-1))
		}
	}
}

// learnEqual notes what a term says of a variable that is equal.
func (k known) learnEqual(left, right *ast.Term, documents bool) {
	k.learnPath(right, documents)
	v, ok := left.Value.(ast.Var)
	if !ok {
		return
	}
	switch other := right.Value.(type) {
	case ast.Var:
		k.add(v, k[other]&(isPlain|isInteger|isBoolean|isDocument))
	case ast.Ref:
		if k.document(other, documents) {
			k.add(v, isDocument)
		}
	default:
		if plainKey(right) {
			k.add(v, isPlain)
		}
		if kindOf(right) == zeroOrOne {
			k.add(v, isBoolean)
		}
	}
}

// learnPath notes that the keys of documents are plain.
func (k known) learnPath(term *ast.Term, documents bool) {
	ref, ok := term.Value.(ast.Ref)
	if !ok || !k.document(ref, documents) {
		return
	}
	for _, part := range ref[1:] {
		if v, ok := part.Value.(ast.Var); ok {
			k.add(v, isPlain|isInteger)
		}
	}
}

// document reports whether a reference reads a document.
func (k known) document(ref ast.Ref, documents bool) bool {
	root, ok := ref[0].Value.(ast.Var)
	return ok && (documents && ref[0].Equal(ast.InputRootDocument) || k.has(root, isDocument))
}

// plainKey reports whether a constant is found by a hash of its own.
func plainKey(term *ast.Term) bool {
	switch term.Value.(type) {
	case ast.Null, ast.Boolean, ast.String, ast.Number:
		return kindOf(term) < sharedInteger
	}
	return false
}

// plainResult is what is known of the last operand of a built-in function with so many operands: whether it is the result, and a text, a
// boolean or an integer.
func plainResult(name ast.Ref, operands int) trait {
	if len(name) != 1 {
		return 0
	}
	called, _ := name[0].Value.(ast.Var)
	own := guardedBuiltins()[string(called)]
	if own == nil || own.Decl.Decl.Result() == nil || own.Decl.Decl.Arity() != operands-1 {
		return 0
	}
	result := own.Decl.Decl.Result()
	if named, ok := result.(*types.NamedType); ok {
		result = named.Type
	}
	switch result.(type) {
	case types.String:
		return isPlain
	case types.Boolean:
		return isPlain | isBoolean
	}
	if slices.Contains([]string{guardPrefix + "count", guardPrefix + "indexof"}, string(called)) {
		return isPlain | isInteger
	}
	return 0
}

// inner returns the variables of a body within another one.
func (k known) inner() known {
	own := make(known, len(k))
	maps.Copy(own, k)
	return own
}
