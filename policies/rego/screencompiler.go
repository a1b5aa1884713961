package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// newScreen returns the screen of a module that was compiled for a query; nil if there is none.
func newScreen(compiler *ast.Compiler, query ast.Body) *screen {
	c := &screenCompiler{
		compiler: compiler, screen: &screen{capabilities: compiler.Capabilities()},
		rules: map[string][]*ast.Rule{}, sets: map[string]*ruleSet{},
	}
	for _, module := range compiler.Modules {
		for _, rule := range module.Rules {
			name := rule.Ref().GroundPrefix().String()
			c.rules[name] = append(c.rules[name], rule)
		}
	}
	for _, expr := range query {
		path, _ := expr.Operand(1).Value.(ast.Ref)
		set := c.setAt(path)
		if set == nil || set.shape != aSet {
			return nil
		}
		c.screen.asked = append(c.screen.asked, set)
	}
	return c.screen
}

type screenCompiler struct {
	compiler *ast.Compiler
	screen   *screen
	rules    map[string][]*ast.Rule
	sets     map[string]*ruleSet
}

// setAt returns the rules at a path; nil if they are unsupported, or if there are none.
func (c *screenCompiler) setAt(path ast.Ref) *ruleSet {
	name := path.String()
	if made, known := c.sets[name]; known {
		return made
	}
	c.sets[name] = nil // of rules that refer to themselves, which the compiler rejects
	rules, index := c.rules[name], c.compiler.RuleIndex(path)
	if len(rules) == 0 || index == nil {
		return nil
	}
	made := &ruleSet{index: index, function: len(rules[0].Head.Args) > 0, shape: c.shapeOf(name, rules[0])}
	for _, rule := range rules {
		if c.shapeOf(name, rule) != made.shape || len(rule.Ref()) != len(path)+keyParts(made.shape) {
			return nil
		}
		for ; rule != nil; rule = rule.Else {
			made.rules = append(made.rules, c.rule(rule, made.shape))
		}
	}
	made.at = c.screen.sets
	c.screen.sets++
	c.sets[name] = made
	return made
}

// shapeOf returns what a rule makes; aList, which none makes, if it is unsupported.
func (c *screenCompiler) shapeOf(name string, rule *ast.Rule) shape {
	switch {
	case rule.Head.RuleKind() == ast.MultiValue:
		return aSet
	case rule.Ref().IsGround():
		return oneValue
	case len(rule.Head.Args) > 0:
		return aList
	}
	for other := range c.rules {
		if strings.HasPrefix(other, name+".") || strings.HasPrefix(other, name+"[") { // a part of the object may have rules of its own
			return aList
		}
	}
	return anObject
}

// keyParts are how many parts of the reference of a rule are keys in what it makes.
func keyParts(s shape) int {
	if s == anObject {
		return 1
	}
	return 0
}

func (c *screenCompiler) rule(rule *ast.Rule, makes shape) *screenRule {
	b := &bodyCompiler{screenCompiler: c, places: map[ast.Var]int32{}}
	made := &screenRule{rule: rule}
	for _, arg := range rule.Head.Args {
		made.args = append(made.args, b.operand(arg))
	}
	made.body = b.body(rule.Body)
	switch makes {
	case aSet:
		made.head.value = b.operand(rule.Head.Key)
	case anObject:
		made.head.key = b.operand(rule.Ref()[len(rule.Ref())-1])
		fallthrough
	case oneValue, aList:
		made.head.value = b.operand(rule.Head.Value)
		if makes == oneValue && made.head.value.loose() {
			made.head.value = operand{}
		}
	}
	return made
}

// bodyCompiler knows the places of the variables of a rule.
type bodyCompiler struct {
	*screenCompiler

	places map[ast.Var]int32
}

// body compiles the expressions up to the first one that is unsupported.
func (b *bodyCompiler) body(body ast.Body) []expression {
	made := make([]expression, 0, len(body))
	for _, expr := range body {
		next := b.expression(expr)
		made = append(made, next)
		if next.kind == unsupported {
			break
		}
	}
	return made
}

func (b *bodyCompiler) expression(expr *ast.Expr) expression {
	switch terms := expr.Terms.(type) {
	case *ast.Not:
		if len(expr.With) == 0 && !expr.Negated {
			return expression{kind: negates, inner: b.body(terms.Body)}
		}
	case *ast.Every:
		if domain, ok := terms.Domain.Value.(ast.Var); ok && terms.Key != nil && len(expr.With) == 0 && !expr.Negated {
			each := b.equality(ast.NewTerm(ast.Ref{ast.NewTerm(domain), terms.Key}), terms.Value)
			return expression{kind: forAll, args: []operand{b.variable(terms.Domain, domain)}, inner: []expression{each}, body: b.body(terms.Body)}
		}
	case *ast.Term, []*ast.Term:
		if len(expr.With) > 0 {
			break
		}
		made := b.plain(expr)
		if expr.Negated && made.kind != unsupported {
			return expression{kind: negates, inner: []expression{made}}
		}
		return made
	}
	return expression{}
}

// plain compiles an expression as if it were not negated.
func (b *bodyCompiler) plain(expr *ast.Expr) expression {
	terms, ok := expr.Terms.([]*ast.Term)
	if !ok {
		term, _ := expr.Terms.(*ast.Term)
		if from, ok := b.source(term); ok {
			return expression{kind: holds, source: from}
		}
		return expression{}
	}
	if expr.IsEquality() {
		return b.equality(terms[1], terms[2])
	}
	return b.call(terms)
}

// equality compiles an equality of which one side at most needs evaluation.
func (b *bodyCompiler) equality(left, right *ast.Term) expression {
	if _, ok := left.Value.(ast.Var); ok {
		left, right = right, left
	}
	from, ok := b.source(left)
	to := b.operand(right)
	if !ok || !to.matchable() {
		if from, ok = b.source(right); !ok {
			return expression{}
		}
		to = b.operand(left)
	}
	if !to.matchable() {
		return expression{}
	}
	return expression{kind: equals, source: from, output: to, captured: true}
}

func (b *bodyCompiler) call(terms []*ast.Term) expression {
	name, ok := terms[0].Value.(ast.Ref)
	if !ok {
		return expression{}
	}
	if name.Equal(ast.Ref{ast.VarTerm(weighName)}) { // no search gives a variable of a rule a value before the rule is evaluated
		return expression{kind: costsNothing}
	}
	made := expression{}
	for _, term := range terms[1:] {
		arg := b.operand(term)
		if arg.kind == unknown {
			return expression{}
		}
		made.args = append(made.args, arg)
	}
	loose := slices.ContainsFunc(made.args, func(arg operand) bool { return arg.loose() })
	var arity int
	if name[0].Equal(ast.DefaultRootDocument) {
		rules := b.setAt(name)
		if rules == nil || !rules.function || loose {
			return expression{}
		}
		made.kind, made.rules, arity = callsRule, rules, len(rules.rules[0].args)
	} else {
		declaration := made.find(name.String())
		if declaration == nil || declaration.Relation || declaration.Decl.Result() == nil {
			return expression{}
		}
		made.kind, arity = callsBuiltin, declaration.Decl.Arity()
	}
	switch len(made.args) - arity {
	case 0:
		return made
	case 1:
		made.captured, made.output, made.args = true, made.args[arity], made.args[:arity]
		if made.output.matchable() && made.output.term != nil {
			return made
		}
	}
	return expression{}
}

// find finds a built-in function as the evaluator does; nil for none.
func (x *expression) find(name string) *ast.Builtin {
	if declaration := ast.BuiltinMap[name]; declaration != nil {
		if x.builtin = topdown.GetBuiltin(name); x.builtin != nil {
			return declaration
		}
	}
	own := guardedBuiltins()[name]
	if own == nil {
		return nil
	}
	x.builtin = own.Func
	if plain, ok := strings.CutPrefix(name, guardPrefix); ok && guards()[plain] != nil {
		x.builtin, x.guard, x.makesTexts = topdown.GetBuiltin(plain), guards()[plain], makesTexts(plain)
	}
	return own.Decl
}

// source compiles a term that may need evaluation.
func (b *bodyCompiler) source(term *ast.Term) (source, bool) {
	switch v := term.Value.(type) {
	case ast.Ref:
		return b.reference(v)
	case *ast.ArrayComprehension:
		return b.comprehension(term, aList, nil, v.Term, v.Body)
	case *ast.SetComprehension:
		return b.comprehension(term, aSet, nil, v.Term, v.Body)
	case *ast.ObjectComprehension:
		return b.comprehension(term, anObject, v.Key, v.Value, v.Body)
	}
	made := b.operand(term)
	return source{operand: made}, made.kind != unknown && !made.loose()
}

func (b *bodyCompiler) comprehension(term *ast.Term, makes shape, key, value *ast.Term, body ast.Body) (source, bool) {
	if b.compiler.ComprehensionIndex(term) != nil {
		return source{}, false
	}
	made := &comprehension{made: makes, body: b.body(body)}
	made.head = screenHead{b.operand(key), b.operand(value)}
	return source{kind: ofComprehension, comprehension: made}, true
}

func (b *bodyCompiler) reference(ref ast.Ref) (made source, ok bool) {
	rest := ref[1:]
	switch root := ref[0].Value.(type) {
	case ast.Var:
		switch {
		case ref[0].Equal(ast.InputRootDocument):
			made.kind = ofInput
		case ref[0].Equal(ast.DefaultRootDocument):
			made.kind = ofRules
			if made.rules, rest = b.named(ref); made.rules == nil {
				return source{}, false
			}
		default:
			made.kind, made.operand = ofVariable, b.variable(ref[0], root)
		}
	default:
		return source{}, false
	}
	for _, part := range rest {
		one := b.operand(part)
		if one.kind != constant && one.kind != variable {
			return source{}, false
		}
		made.path = append(made.path, one)
	}
	return made, true
}

// named finds the rules that a reference begins with, and the parts after their name.
func (b *bodyCompiler) named(ref ast.Ref) (*ruleSet, ast.Ref) {
	for end := 2; end <= len(ref); end++ {
		if _, ok := ref[end-1].Value.(ast.String); !ok {
			return nil, nil
		}
		if len(b.rules[ref[:end].String()]) == 0 {
			continue
		}
		rules := b.setAt(ref[:end])
		if rules == nil || rules.function {
			return nil, nil
		}
		return rules, ref[end:]
	}
	return nil, nil
}

func (b *bodyCompiler) variable(term *ast.Term, name ast.Var) operand {
	at, known := b.places[name]
	if !known {
		at = b.screen.variables
		b.screen.variables++
		b.places[name] = at
	}
	return operand{kind: variable, term: term, at: at}
}

// matchable reports whether a value can be compared with an operand part by part.
func (o *operand) matchable() bool {
	if o.kind != buildsList {
		return o.kind == constant || o.kind == variable
	}
	return !slices.ContainsFunc(o.parts, func(part operand) bool { return !part.matchable() })
}

// loose reports whether an operand has a set, or keys of an object, of variables. Until a built-in function takes such a value, OPA keeps
// the variables in it: their names order the elements, and two elements may be the same.
func (o *operand) loose() bool {
	for i := range o.parts {
		key := o.kind == buildsSet || o.kind == buildsObject && i%2 == 0
		if key && o.parts[i].kind != constant || o.parts[i].loose() {
			return true
		}
	}
	return false
}

func (b *bodyCompiler) operand(term *ast.Term) operand {
	if term == nil {
		return operand{}
	}
	if v, ok := term.Value.(ast.Var); ok {
		return b.variable(term, v)
	}
	if ast.IsConstant(term.Value) {
		return operand{kind: constant, term: term}
	}
	made := operand{}
	add := func(part *ast.Term) { made.parts = append(made.parts, b.operand(part)) }
	switch v := term.Value.(type) {
	case *ast.Array:
		made.kind = buildsList
		v.Foreach(add)
	case ast.Set:
		made.kind = buildsSet
		v.Foreach(add)
	case ast.Object:
		made.kind = buildsObject
		v.Foreach(func(key, value *ast.Term) { add(key); add(value) })
	}
	if slices.ContainsFunc(made.parts, func(part operand) bool { return part.kind == unknown }) {
		return operand{}
	}
	return made
}
