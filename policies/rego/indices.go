package rego

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The evaluator looks for the rules that may hold at each call of a function, and at each reference to a rule, also if it knows the result
// already. Its index is a tree with a level for each field that the rules compare. A lookup takes no step, however many places of the tree
// it visits, and however many elements of a list it looks for. So a compiled module ends a lookup that would take long. All rules may hold
// then, whose expressions are charged. A module whose trees would take much memory has none.

// boundIndices bounds the lookups of all indices of a module.
func boundIndices(compiler *ast.Compiler) {
	compiler.RuleTree.DepthFirst(func(node *ast.TreeNode) bool {
		rules, general := indexedRules(node)
		if len(rules) == 0 {
			return false
		}
		if l := lookupOf(rules); node.Index == nil || l.costly() {
			node.Index = &boundedIndex{within: node.Index, every: everyRule(node.Index, rules), lookup: l}
		}
		return general // the nodes below have no index
	})
}

// maxPlaces are the places in the trees of a module.
const maxPlaces = 50_000

// places are how many places the trees of a module that is not compiled may have: for each path, one for each field. They are not counted
// for a few rules, which compiling has left with fewer than maxPlaces.
func places(module *ast.Module) int {
	if few(module) {
		return 0
	}
	byName := map[string][]*ast.Rule{}
	for _, rule := range module.Rules {
		byName[ruleName(rule)] = append(byName[ruleName(rule)], rule)
	}
	total := 0
	for _, rules := range byName {
		l := lookupOf(rules)
		total = min(total+times(l.paths, l.fields), tooHeavy)
	}
	return total
}

// few reports whether a module has so few rules, each with one path, that the expressions which compiling admits make few places.
func few(module *ast.Module) bool {
	const fewest = 12
	rules := 0
	for _, rule := range module.Rules {
		for ; rule != nil; rule = rule.Else {
			rules++
		}
	}
	return rules <= fewest && !slices.ContainsFunc(module.Imports, func(i *ast.Import) bool {
		path, ok := i.Path.Value.(ast.Ref)
		return !ok || path[0].Equal(ast.FutureRootDocument) // or is a keyword by import only
	})
}

// indexedRules are the rules in the index of a node. It has those of all nodes below it if the name of a rule is general, which means that
// it has a variable.
func indexedRules(node *ast.TreeNode) (rules []*ast.Rule, general bool) {
	if !slices.ContainsFunc(node.Values, func(rule *ast.Rule) bool { return !rule.Ref().IsGround() }) {
		return node.Values, false
	}
	node.DepthFirst(func(below *ast.TreeNode) bool {
		rules = append(rules, below.Values...)
		return false
	})
	return rules, true
}

// everyRule is what a lookup finds that ends early: all rules. The index is nil for none.
func everyRule(index ast.RuleIndex, rules []*ast.Rule) *ast.IndexResult {
	if index != nil {
		if found, err := index.Lookup(nothingKnown{}); err == nil {
			return found
		}
	}
	every := &ast.IndexResult{Kind: rules[0].Head.RuleKind(), OnlyGroundRefs: true, Else: map[*ast.Rule][]*ast.Rule{}}
	for _, rule := range rules {
		if rule.Default {
			every.Default = rule
			continue
		}
		every.Rules = append(every.Rules, rule)
		every.OnlyGroundRefs = every.OnlyGroundRefs && rule.Head.Reference.IsGround()
		for other := rule.Else; other != nil; other = other.Else {
			every.Else[rule] = append(every.Else[rule], other)
		}
	}
	return every
}

type nothingKnown struct{}

// Resolve implements ast.ValueResolver.
func (nothingKnown) Resolve(ast.Ref) (ast.Value, error) { return nil, ast.UnknownValueErr{} }

// lookup is what the rules of an index make a lookup do.
type lookup struct {
	// rules are how many there are, and paths are the ways to them through the tree: several for one with or.
	rules, paths int
	// fields are the references and the arguments, of which there are args, that the rules may compare. Each may be a level of the tree.
	fields, args int
	// elements reports that a lookup reads elements of lists, or parts of texts.
	elements bool
	// lists are the lists with which a list is compared, and wildcards are the texts with wildcards.
	lists, wildcards int
	// alike are the numbers that can have the same hash, with which a number is compared.
	alike int
}

// maxPaths are the ways to one rule.
const maxPaths = 32

func lookupOf(rules []*ast.Rule) lookup {
	if l := lookupIn(rules, nil); times(l.paths, l.fields) <= l.visits() {
		return l
	}
	return lookupIn(rules, map[string]bool{})
}

// lookupIn counts references that are the same once if there is a map for their names, and otherwise each.
func lookupIn(rules []*ast.Rule, fields map[string]bool) lookup {
	l := lookup{}
	for _, rule := range rules {
		for ; rule != nil; rule = rule.Else {
			l.add(rule, fields)
		}
	}
	l.fields += len(fields) + l.args
	return l
}

// add adds a rule, and its references to the fields of all.
func (l *lookup) add(rule *ast.Rule, fields map[string]bool) {
	paths, aliases := 1, map[ast.Var]bool{}
	l.args = max(l.args, len(rule.Head.Args))
	for _, arg := range rule.Head.Args {
		ast.WalkVars(arg, func(v ast.Var) bool { aliases[v] = true; return false })
	}
	ast.WalkExprs(rule.Body, func(expr *ast.Expr) bool {
		switch terms := expr.Terms.(type) {
		case *ast.LogicalOr:
			paths = min(2*paths, maxPaths)
		case []*ast.Term:
			l.addCall(terms, aliases)
		}
		return false
	})
	l.rules, l.paths = l.rules+1, l.paths+paths
	ast.WalkRefs(rule.Body, func(ref ast.Ref) bool {
		l.elements = l.elements || !ref.IsGround()
		head, _ := ref[0].Value.(ast.Var)
		switch {
		case fields == nil || aliases[head]: // each rule may have another value for the variable
			l.fields++
		case len(ref) > 1:
			fields[ref.String()] = true
		}
		return false
	})
}

// elementwise are the functions for which an index reads elements of lists, or parts of texts.
func elementwise() []string {
	return []string{"internal.member_2", "glob.match", "startswith", "endswith", "strings.any_prefix_match", "strings.any_suffix_match"}
}

// addCall adds what a call makes a lookup do. It notes the variables that have the values of fields.
func (l *lookup) addCall(terms []*ast.Term, aliases map[ast.Var]bool) {
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok {
		return
	}
	name, _ := builtinName(operator)
	switch {
	case name == "eq" || name == "equal" || name == "assign":
		for i, term := range terms[1:] {
			if v, ok := term.Value.(ast.Var); ok && len(terms) == 3 && namesField(terms[2-i]) {
				aliases[v] = true
			}
			l.addConstants(term, true)
		}
	case slices.Contains(elementwise(), name):
		l.elements = true
		if name == "glob.match" {
			l.wildcards++
		}
		for _, term := range terms[1:] {
			l.addConstants(term, false) // a value that is in a list is compared with its elements
		}
	}
}

// namesField reports whether a term is a field, or a variable that may have the value of one.
func namesField(term *ast.Term) bool {
	switch v := term.Value.(type) {
	case ast.Var:
		return true
	case ast.Ref:
		return v.IsGround()
	}
	return false
}

func (l *lookup) addConstants(term *ast.Term, whole bool) {
	ast.WalkTerms(term, func(part *ast.Term) bool {
		switch part.Value.(type) {
		case *ast.Array:
			if whole || part != term {
				l.lists++
				l.elements = true
			}
		case ast.Number:
			if kindOf(part) >= sharedInteger {
				l.alike++
			}
		}
		return false
	})
}

// What a lookup does at most.
const (
	// freeVisits are the places of the tree that any lookup may visit, and visitsPerRule those for each rule.
	freeVisits    = 256
	visitsPerRule = 4
	// indexedElements are the elements of a list with which others are compared, and indexedText are the bytes of a text.
	indexedElements = 64
	indexedText     = 1 << 10
	// indexedNumbers are the numbers with which a number is compared.
	indexedNumbers = 16
)

func (l *lookup) visits() int { return max(freeVisits, visitsPerRule*l.rules) }

// costly reports whether a lookup may do more than that.
func (l *lookup) costly() bool {
	return l.elements || l.alike > indexedNumbers || times(l.paths, l.fields) > l.visits()
}

// fits reports whether a lookup may read a value.
func (l *lookup) fits(value ast.Value) bool {
	switch v := value.(type) {
	case ast.Number:
		return l.alike <= indexedNumbers
	case ast.String:
		return !l.elements || times(len(v), 1+l.wildcards) <= indexedText
	case interface{ Len() int }:
		return !l.elements || times(v.Len(), 1+l.lists+l.alike) <= indexedElements
	}
	return true
}

// boundedIndex is an index whose lookups are bounded.
type boundedIndex struct {
	// within is nil for a module that has no indices.
	within ast.RuleIndex
	every  *ast.IndexResult
	lookup
}

// Build implements ast.RuleIndex. The index is built already.
func (*boundedIndex) Build([]*ast.Rule) bool { return false }

// Lookup implements ast.RuleIndex.
func (i *boundedIndex) Lookup(values ast.ValueResolver) (*ast.IndexResult, error) {
	if i.within == nil {
		return i.all(), nil
	}
	bounded, _ := boundedLookups.Get().(*boundedValues)
	*bounded = boundedValues{values, &i.lookup, i.visits()}
	found, err := i.within.Lookup(bounded)
	*bounded = boundedValues{}
	boundedLookups.Put(bounded)
	if errors.Is(err, errTakesLong) {
		return i.all(), nil
	}
	return found, err
}

// AllRules implements ast.RuleIndex.
func (i *boundedIndex) AllRules(ast.ValueResolver) (*ast.IndexResult, error) { return i.all(), nil }

// all is a copy of every, because the evaluator uses what it was given for other lookups.
func (i *boundedIndex) all() *ast.IndexResult {
	found := ast.IndexResultPool.Get()
	*found = *i.every
	found.Rules, found.Else = slices.Clone(i.every.Rules), maps.Clone(i.every.Else)
	return found
}

// boundedLookups are used again, because there is one for each reference.
var boundedLookups = sync.Pool{New: func() any { return &boundedValues{} }}

// errTakesLong ends a lookup.
var errTakesLong = errors.New("the lookup takes long")

// boundedValues are the values that one lookup reads.
type boundedValues struct {
	ast.ValueResolver
	*lookup
	left int
}

// Resolve implements ast.ValueResolver. The index calls it at each place that it visits.
func (v *boundedValues) Resolve(ref ast.Ref) (ast.Value, error) {
	if v.left--; v.left < 0 {
		return nil, errTakesLong
	}
	value, err := v.ValueResolver.Resolve(ref)
	if err == nil && !v.fits(value) {
		return nil, errTakesLong
	}
	return value, err
}
