package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// valueOf returns the value of rules without arguments. Without one, the outcome says how to go on.
func (s *screening) valueOf(from *source) (*ast.Term, outcome) {
	rules := from.rules
	part := rules.shape != oneValue && len(from.path) > 0
	if part && s.plug(&from.path[0]) != nil {
		return nil, abandon // OPA evaluates that part only, unless it knows the whole
	}
	if known := s.results[rules.at]; known.known {
		return known.value, proceed
	}
	found, err := s.lookup(rules, nil)
	if err != nil {
		return nil, abandon
	}
	defer ast.IndexResultPool.Put(found)
	if found.Empty() && (part || rules.shape == oneValue) {
		return nil, proceed
	}
	evaluate := s.agreed
	if rules.shape != oneValue {
		evaluate = s.collected
	}
	value, result := evaluate(rules, found, nil)
	if result == proceed {
		s.results[rules.at] = ruleResult{value, true}
	}
	return value, result
}

// collected evaluates the rules of a set or an object.
func (s *screening) collected(rules *ruleSet, found *ast.IndexResult, _ []*ast.Term) (*ast.Term, outcome) {
	g := goal{shape: rules.shape}
	for _, rule := range found.Rules {
		if s.evaluate(rules.find(rule), nil, &g) != proceed {
			return nil, abandon
		}
	}
	return g.made(), proceed
}

// agreed evaluates rules whose values must be the same.
func (s *screening) agreed(set *ruleSet, found *ast.IndexResult, arguments []*ast.Term) (*ast.Term, outcome) {
	g := goal{first: found.EarlyExit}
	for _, rule := range found.Rules {
		result := s.evaluate(set.find(rule), arguments, &g)
		for _, next := range found.Else[rule] {
			if result != proceed || g.solved {
				break
			}
			result = s.evaluate(set.find(next), arguments, &g)
		}
		switch result {
		case abandon:
			return nil, abandon
		case enough:
			return g.value, proceed
		case proceed:
			g.solved = false
		}
	}
	if g.value == nil && found.Default != nil && s.evaluate(set.find(found.Default), arguments, &g) == abandon {
		return nil, abandon
	}
	return g.value, proceed
}

// evaluate solves the body of one rule, if its arguments fit.
func (s *screening) evaluate(rule *screenRule, arguments []*ast.Term, g *goal) outcome {
	if rule == nil || len(rule.args) != len(arguments) {
		return abandon
	}
	from, result := len(s.given), proceed
	fits := true
	for i := range rule.args {
		if !rule.args[i].matchable() {
			return abandon
		}
		fits = fits && s.unify(&rule.args[i], arguments[i])
	}
	if fits {
		g.head = &rule.head
		result = s.solve(rule.body, 0, g)
	}
	s.forget(from)
	return result
}

func (s *screening) callRule(x *expression, body []expression, i int, g *goal) outcome {
	arguments := s.plugAll(x.args)
	if arguments == nil || x.captured && s.plug(&x.output) != nil {
		return abandon
	}
	hash := 0
	for _, argument := range arguments {
		hash = hash*31 + argument.Hash()
	}
	value := s.returnedFor(x.rules, arguments, hash)
	if s.leave || value != nil && !s.budget.findsPath(arguments) {
		return abandon
	}
	if value == nil {
		found, err := s.lookup(x.rules, arguments)
		if err != nil || !found.Empty() && !s.budget.findsPath(arguments) {
			return abandon
		}
		made, result := s.agreed(x.rules, found, arguments)
		ast.IndexResultPool.Put(found)
		if made == nil {
			return result
		}
		s.calls = append(s.calls, callResult{x.rules, arguments, hash, made})
		value = made
	}
	return s.match(x, value, body, i, g)
}

// returnedFor returns what a function has returned for arguments before; nil for nothing.
func (s *screening) returnedFor(rules *ruleSet, arguments []*ast.Term, hash int) *ast.Term {
	for i := range s.calls {
		call := &s.calls[i]
		if call.hash == hash && call.rules == rules && slices.EqualFunc(call.arguments, arguments, s.equivalent) {
			s.leave = s.leave || !slices.EqualFunc(call.arguments, arguments, s.identical)
			return call.value
		}
	}
	return nil
}

// equalityCost is what comparing two scalars counts. Numbers may have many digits, and those between two integers have the same hash.
const equalityCost = 20

// equivalent reports whether two values are the same, or are lists, sets or objects that are probably the same.
func (s *screening) equivalent(a, b *ast.Term) bool {
	if a == b {
		return true
	}
	if listed(a) && listed(b) {
		return a.Hash() == b.Hash()
	}
	if s.compared += equalityCost; s.compared > maxCompared {
		s.leave = true
		return true
	}
	return a.Equal(b)
}
