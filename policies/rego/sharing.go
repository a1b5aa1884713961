package rego

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/diagnostics"
)

// sharing rejects values that explode because variables, rules and functions contain one another: with y := [x, x],
// z := [y, y] and so on each line doubles the value, and the evaluator writes it all out in one step, where no limit
// sees it. The lists and objects that are written in the module are counted; those that are computed from the
// documents take steps.
func sharing(module *ast.Module) []diagnostics.Problem {
	m := &moduleSizes{module: module, rules: map[ast.Var][]*ast.Rule{}, known: map[ast.Var]int{}}
	ast.WalkRules(module, func(rule *ast.Rule) bool {
		m.rules[ast.Var(ruleName(rule))] = append(m.rules[ast.Var(ruleName(rule))], rule)
		return false
	})
	for _, rule := range module.Rules {
		if issues := m.check(rule); len(issues) > 0 {
			return issues
		}
	}
	return nil
}

// moduleSizes are those of the values of rules, each as large as its largest.
type moduleSizes struct {
	module *ast.Module
	rules  map[ast.Var][]*ast.Rule
	known  map[ast.Var]int
}

// check finds the first thing in a rule that is too large.
func (m *moduleSizes) check(rule *ast.Rule) []diagnostics.Problem {
	s := m.in(rule)
	var issues []diagnostics.Problem
	for _, name := range slices.Sorted(maps.Keys(s.assigned)) {
		if s.variable(name) > maxShared {
			issues = append(issues, at(s.assigned[name][0].Loc(), "%s would hold more than %d values, because it repeats lists or objects", name, maxShared))
		}
	}
	if name := ast.Var(ruleName(rule)); m.size(name) > maxShared {
		issues = append(issues, at(rule.Loc(), "%s would hold more than %d values, because it repeats lists or objects", name, maxShared))
	}
	ast.WalkTerms(rule, func(term *ast.Term) bool {
		if _, ok := term.Value.(ast.Call); ok && s.term(term) > maxShared {
			issues = append(issues, at(term.Loc(), "a call would return more than %d values, because it repeats lists or objects", maxShared))
		}
		return len(issues) > 0
	})
	return sorted(issues)[:min(1, len(issues))] // the others follow from it
}

// size is that of the value of a rule, or of what a function returns for something small.
func (m *moduleSizes) size(name ast.Var) int {
	if size, ok := m.known[name]; ok {
		return size
	}
	m.known[name] = 1 // while it is computed: the compiler rejects recursion
	size := 1
	for _, rule := range m.rules[name] {
		s := m.in(rule)
		for _, term := range []*ast.Term{rule.Head.Key, rule.Head.Value} {
			if term != nil {
				size = max(size, s.term(term))
			}
		}
	}
	m.known[name] = size
	return size
}

// ruleSizes are those of the variables of one rule.
type ruleSizes struct {
	module   *moduleSizes
	assigned map[ast.Var][]*ast.Term
	known    map[ast.Var]int
}

func (m *moduleSizes) in(rule *ast.Rule) *ruleSizes {
	s := &ruleSizes{module: m, assigned: map[ast.Var][]*ast.Term{}, known: map[ast.Var]int{}}
	var equalities []*ast.Expr
	ast.WalkExprs(rule, func(expr *ast.Expr) bool {
		switch {
		case len(expr.Operands()) != 2:
		case expr.IsAssignment():
			s.assign(expr.Operand(0), expr.Operand(1))
		case expr.IsEquality():
			equalities = append(equalities, expr)
		}
		return false
	})
	// Of the two sides of x = y it is the variable which has no value yet that gets one.
	for _, e := range equalities {
		left, right := e.Operand(0), e.Operand(1)
		if s.free(right) && !s.free(left) {
			left, right = right, left
		}
		s.assign(left, right)
	}
	return s
}

func (s *ruleSizes) free(term *ast.Term) bool {
	name, ok := term.Value.(ast.Var)
	return ok && len(s.assigned[name]) == 0
}

// assign notes that a variable may be a term. A pattern of variables takes a term apart, and each of them may
// be as large as the whole.
func (s *ruleSizes) assign(pattern, value *ast.Term) {
	ast.WalkVars(pattern, func(name ast.Var) bool {
		s.assigned[name] = append(s.assigned[name], value)
		return false
	})
}

func (s *ruleSizes) variable(name ast.Var) int {
	if size, ok := s.known[name]; ok {
		return size
	}
	if len(s.assigned[name]) == 0 {
		return s.module.size(name)
	}
	s.known[name] = 1 // while it is computed: a variable does not contain itself
	size := 1
	for _, term := range s.assigned[name] {
		size = max(size, s.term(term))
	}
	s.known[name] = size
	return size
}

// term is the size of a term; more than maxShared is all the same.
func (s *ruleSizes) term(term *ast.Term) int {
	size := 1
	add := func(t *ast.Term) { size = min(size+s.term(t), maxShared+1) }
	switch v := term.Value.(type) {
	case ast.Var:
		return s.variable(v)
	case ast.Ref:
		return s.reference(v)
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) { add(key); add(value) })
	case *ast.ArrayComprehension:
		add(v.Term)
	case *ast.SetComprehension:
		add(v.Term)
	case *ast.ObjectComprehension:
		add(v.Key)
		add(v.Value)
	case ast.Call:
		function := s.term(v[0])
		if function == 1 {
			return 1 // a built-in function: what it builds is counted when it is called
		}
		for _, argument := range v[1:] {
			add(argument)
		}
		size = min(size*function, maxShared+1)
	}
	return size
}

// reference is the size of what a reference begins with: a rule, a function, or a variable.
func (s *ruleSizes) reference(ref ast.Ref) int {
	path := s.module.module.Package.Path
	if len(ref) > len(path) && ref.HasPrefix(path) {
		if name, ok := ref[len(path)].Value.(ast.String); ok {
			return s.module.size(ast.Var(name))
		}
	}
	if name, ok := ref[0].Value.(ast.Var); ok {
		return s.variable(name)
	}
	return 1
}
