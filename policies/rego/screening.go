package rego

import (
	"context"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// maxScreened are the steps after which a screen leaves the evaluation to OPA, which then repeats them.
const maxScreened = 4_000

// maxCompared are the values that a screen compares to know whether rules and functions agree, and maxOperands are the operands of all calls.
const (
	maxCompared = 20_000
	maxOperands = 4 * maxScreened
)

// outcome is how an evaluation of a body goes on.
type outcome uint8

const (
	// proceed looks for the next solution.
	proceed outcome = iota
	// enough ends the evaluation of the body, which needs one solution only.
	enough
	// abandon leaves the module to OPA.
	abandon
)

// screening evaluates a screen once. It is used again by other evaluations.
type screening struct {
	screen *screen
	input  *ast.Term
	budget budget
	// variables are the values of variables, and results those of rules without arguments.
	variables []*ast.Term
	results   []ruleResult
	calls     []callResult
	// operands are those of all calls, because a function may keep its own.
	operands []*ast.Term
	// arguments are those of the rule whose index is used.
	arguments []*ast.Term
	// leave reports that something has been met that is left to OPA.
	leave bool
	// given are the places of the variables that patterns have given a value.
	given []int32
	// returned are the values that a built-in function has returned.
	returned *ast.Term
	count    int
	// compared are the values that were compared.
	compared int
	yield    func(*ast.Term) error
	context  topdown.BuiltinContext
}

// ruleResult is what a rule results in; a nil value is undefined.
type ruleResult struct {
	value *ast.Term
	known bool
}

// callResult is what a function returned for arguments.
type callResult struct {
	rules     *ruleSet
	arguments []*ast.Term
	hash      int
	value     *ast.Term
}

var screenings = sync.Pool{New: func() any {
	s := &screening{}
	s.yield = func(value *ast.Term) error { s.returned, s.count = value, s.count+1; return nil }
	s.context = topdown.BuiltinContext{
		Context: context.Background(), Metrics: metrics.NoOp(), Cancel: &s.budget, Time: ast.NumberTerm("0"),
		Cache: builtins.Cache{}, RequestMetadata: map[string]any{},
	}
	return s
}}

// holdsNone reports whether no rule of deny and warn holds for an input, which is then charged as if OPA had evaluated the module. If it
// reports false, OPA has to evaluate it, and nothing is charged: a rule holds, or the screen cannot say, such as after an error.
func (c *screen) holdsNone(input *ast.Term, b *budget) bool {
	if c == nil || !c.useful() {
		return false
	}
	s, _ := screenings.Get().(*screening)
	s.begin(c, input, b)
	none := s.run() && !s.leave && s.budget.step == b.step && !s.budget.ordered() // the order of steps differs, so all must cost the same
	s.budget.release()
	if none {
		limits := b.limits
		*b = s.budget
		b.limits = limits
	}
	c.note(none)
	s.end()
	screenings.Put(s) // not after a panic
	return none
}

// After fewLeft evaluations that were left to OPA, a screen is used for each seldom-th only.
const (
	fewLeft = 8
	seldom  = 8
)

// useful reports whether it is likely that no rule holds. The result of an evaluation does not depend on it.
func (c *screen) useful() bool { return c.left.Load() < fewLeft || c.left.Add(1)%seldom == 0 }

// note notes whether no rule held.
func (c *screen) note(none bool) {
	switch {
	case !none:
		c.left.Add(1)
	case c.left.Load() > 0:
		c.left.Store(0)
	}
}

func (s *screening) begin(c *screen, input *ast.Term, b *budget) {
	s.screen, s.input, s.budget = c, input, *b
	s.budget.limits.Steps = min(b.limits.Steps, b.steps+maxScreened)
	s.budget.limits.Bytes = b.limits.Bytes / 2 // in the other order, there may be less room at a call
	s.context.Capabilities = c.capabilities
	s.variables = slices.Grow(s.variables, int(c.variables))[:c.variables]
	s.results = slices.Grow(s.results, c.sets)[:c.sets]
}

func (s *screening) end() {
	clear(s.variables)
	clear(s.results)
	clear(s.calls)
	clear(s.operands)
	s.variables, s.results, s.calls, s.operands, s.given = s.variables[:0], s.results[:0], s.calls[:0], s.operands[:0], s.given[:0]
	s.screen, s.input, s.budget, s.returned, s.arguments = nil, nil, budget{}, nil, nil
	s.leave, s.compared = false, 0
}

// run evaluates the query. It reports whether no rule holds.
func (s *screening) run() bool {
	for _, set := range s.screen.asked {
		if s.budget.Cancelled() || !s.empty(set) {
			return false
		}
	}
	return !s.budget.Cancelled() // the end of the query
}

// empty reports whether no rule of a set holds.
func (s *screening) empty(set *ruleSet) bool {
	if known := s.results[set.at]; known.known { // another set refers to it
		made, ok := known.value.Value.(ast.Set)
		return ok && made.Len() == 0
	}
	found, err := s.lookup(set, nil)
	if err != nil {
		return false
	}
	defer ast.IndexResultPool.Put(found)
	for _, rule := range found.Rules {
		if made := set.find(rule); made == nil || s.solve(made.body, 0, nil) != proceed {
			return false
		}
	}
	s.results[set.at] = ruleResult{ast.InternedEmptySet, true}
	return true
}

// lookup asks the index for the rules that may hold.
func (s *screening) lookup(set *ruleSet, arguments []*ast.Term) (*ast.IndexResult, error) {
	s.arguments = arguments
	found, err := set.index.Lookup(s)
	if err == nil && s.leave {
		err = ast.UnknownValueErr{}
	}
	return found, err
}

// Resolve implements ast.ValueResolver.
func (s *screening) Resolve(ref ast.Ref) (ast.Value, error) {
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		if value, err := s.input.Value.Find(ref[1:]); err == nil {
			return value, nil
		}
		return nil, nil // a field that there is none of
	case ref[0].Equal(ast.FunctionArgRootDocument):
		if number, ok := ref[1].Value.(ast.Number); ok {
			if i, ok := number.Int(); ok && i >= 0 && i < len(s.arguments) {
				return s.arguments[i].Value, nil
			}
		}
	}
	s.leave = true
	return nil, ast.UnknownValueErr{}
}

func (set *ruleSet) find(rule *ast.Rule) *screenRule {
	for _, made := range set.rules {
		if made.rule == rule {
			return made
		}
	}
	return nil
}

// goal is what the solutions of a body are for; nil for a body that may have none.
type goal struct {
	// head is made of each solution; nil if it matters only whether there is one.
	head  *screenHead
	shape shape
	// value is the one that all solutions agree on, or an object.
	value *ast.Term
	// elements are those of a list or a set.
	elements []*ast.Term
	// each is an expression whose body must have a solution for each one of this body.
	each *expression
	// first ends at the first solution.
	first bool
	// solved reports that there was a solution, and failed that one had none of each.
	solved, failed bool
}

// solve evaluates a body from an expression on. Each expression is a step, and so is the end.
func (s *screening) solve(body []expression, i int, g *goal) outcome {
	if s.leave || s.budget.Cancelled() {
		return abandon
	}
	if i == len(body) {
		return s.reach(g)
	}
	x := &body[i]
	switch x.kind {
	case holds, equals:
		return s.values(x, body, i, g)
	case callsBuiltin:
		return s.callBuiltin(x, body, i, g)
	case callsRule:
		return s.callRule(x, body, i, g)
	case negates:
		inner := goal{}
		if s.solve(x.inner, 0, &inner) == abandon {
			return abandon
		}
		if inner.solved {
			return proceed
		}
		return s.solve(body, i+1, g)
	case forAll:
		return s.all(x, body, i, g)
	case costsNothing:
		s.budget.refund()
		return s.solve(body, i+1, g)
	case unsupported:
	}
	return abandon
}

// all goes on if the body of an expression has a solution for each element.
func (s *screening) all(x *expression, body []expression, i int, g *goal) outcome {
	domain := s.plug(&x.args[0])
	switch {
	case domain == nil:
		return abandon
	case !listed(domain):
		return proceed
	}
	inner := goal{each: x}
	if s.solve(x.inner, 0, &inner) == abandon {
		return abandon
	}
	if inner.failed {
		return proceed
	}
	return s.solve(body, i+1, g)
}

// reach is called for each solution of a body.
func (s *screening) reach(g *goal) outcome {
	if g == nil {
		return abandon // there is a violation
	}
	g.solved = true
	switch {
	case g.each != nil && g.failed:
		return proceed
	case g.each != nil:
		inner := goal{first: true}
		if s.solve(g.each.body, 0, &inner) == abandon {
			return abandon
		}
		g.failed = !inner.solved
		return proceed
	case g.head != nil && !s.add(g):
		return abandon
	case g.first:
		return enough
	}
	return proceed
}

// add adds the head of a solution to what a goal makes. It reports false for solutions that disagree.
func (s *screening) add(g *goal) bool {
	value := s.plug(&g.head.value)
	if value == nil {
		return false
	}
	switch g.shape {
	case aList, aSet:
		g.elements = append(g.elements, value)
	case oneValue:
		if g.value != nil {
			return s.identical(g.value, value)
		}
		g.value = value
	case anObject:
		key := s.plug(&g.head.key)
		if key == nil {
			return false
		}
		if g.value == nil {
			g.value = ast.ObjectTerm()
		}
		made, _ := g.value.Value.(ast.Object)
		if known := made.Get(key); known != nil {
			return s.identical(known, value)
		}
		made.Insert(key, value)
	}
	return true
}

// identical reports whether two values are the same, and their numbers are written in the same way. It depends on the order of evaluation
// which one of 1 and 1.0 remains. It also reports false after it has compared many values, which no step pays for.
func (s *screening) identical(a, b *ast.Term) bool {
	if a == b {
		return true
	}
	if s.compared++; s.compared > maxCompared {
		return false
	}
	switch v := a.Value.(type) {
	case ast.Number:
		w, ok := b.Value.(ast.Number)
		return ok && v == w
	case *ast.Array:
		w, ok := b.Value.(*ast.Array)
		if !ok || v.Len() != w.Len() {
			return false
		}
		for i := range v.Len() {
			if !s.identical(v.Elem(i), w.Elem(i)) {
				return false
			}
		}
		return true
	case ast.Set:
		w, ok := b.Value.(ast.Set)
		return ok && slices.EqualFunc(v.Slice(), w.Slice(), s.identical)
	case ast.Object:
		w, ok := b.Value.(ast.Object)
		if !ok || v.Len() != w.Len() {
			return false
		}
		keys, others := v.KeysIterator(), w.KeysIterator()
		for key, more := keys.Next(); more; key, more = keys.Next() {
			other, _ := others.Next()
			if !s.identical(key, other) || !s.identical(v.Get(key), w.Get(other)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// made is what a goal has made.
func (g *goal) made() *ast.Term {
	switch g.shape {
	case aList:
		return ast.ArrayTerm(g.elements...)
	case aSet:
		return ast.SetTerm(g.elements...)
	case anObject:
		if g.value == nil {
			return ast.InternedEmptyObject
		}
	case oneValue:
	}
	return g.value
}

// plug returns the value of an operand; nil if a variable has none.
func (s *screening) plug(o *operand) *ast.Term {
	switch o.kind {
	case constant:
		return o.term
	case variable:
		return s.variables[o.at]
	case buildsList, buildsSet, buildsObject:
		return s.build(o)
	case unknown:
	}
	return nil
}

// build returns a list, a set or an object of values.
func (s *screening) build(o *operand) *ast.Term {
	parts := make([]*ast.Term, len(o.parts))
	for i := range o.parts {
		if parts[i] = s.plug(&o.parts[i]); parts[i] == nil {
			return nil
		}
	}
	switch o.kind {
	case buildsSet:
		return ast.SetTerm(parts...)
	case buildsObject:
		made := ast.NewObject()
		for i := 0; i < len(parts); i += 2 {
			if made.Get(parts[i]) != nil {
				return nil
			}
			made.Insert(parts[i], parts[i+1])
		}
		return ast.NewTerm(made)
	}
	return ast.ArrayTerm(parts...)
}

// values evaluates the source of an expression, and goes on for each value.
func (s *screening) values(x *expression, body []expression, i int, g *goal) outcome {
	var root *ast.Term
	switch from := &x.source; from.kind {
	case ofInput:
		root = s.input
	case ofOperand, ofVariable:
		if root = s.plug(&from.operand); root == nil {
			return s.assign(x, body, i, g)
		}
	case ofRules:
		value, result := s.valueOf(from)
		if value == nil {
			return result
		}
		root = value
	case ofComprehension:
		if root = s.collect(from.comprehension); root == nil {
			return abandon
		}
	}
	return s.walk(x, root, 0, body, i, g)
}

// assign gives variables without a value those of the other side.
func (s *screening) assign(x *expression, body []expression, i int, g *goal) outcome {
	value := s.plug(&x.output)
	if x.kind != equals || x.source.kind != ofOperand || !x.source.operand.matchable() || value == nil {
		return abandon
	}
	return s.fit(&x.source.operand, value, body, i, g)
}

// fit goes on if a value fits an operand.
func (s *screening) fit(o *operand, value *ast.Term, body []expression, i int, g *goal) outcome {
	from, result := len(s.given), proceed
	if s.unify(o, value) {
		result = s.solve(body, i+1, g)
	}
	s.forget(from)
	return result
}

// walk follows the path of a reference.
func (s *screening) walk(x *expression, term *ast.Term, at int, body []expression, i int, g *goal) outcome {
	path := x.source.path
	if at == len(path) {
		return s.match(x, term, body, i, g)
	}
	key := s.plug(&path[at])
	if key == nil {
		return s.enumerate(x, term, at, body, i, g)
	}
	if term = element(term, key); term == nil {
		return proceed
	}
	return s.walk(x, term, at+1, body, i, g)
}

// element returns what a list, an object or a set has for a key; nil for nothing.
func element(term, key *ast.Term) *ast.Term {
	switch v := term.Value.(type) {
	case *ast.Array:
		return v.Get(key)
	case ast.Object:
		return v.Get(key)
	case ast.Set:
		if v.Contains(key) {
			return key
		}
	}
	return nil
}

// enumerate gives a variable in a path each key in turn.
func (s *screening) enumerate(x *expression, term *ast.Term, at int, body []expression, i int, g *goal) outcome {
	place := &s.variables[x.source.path[at].at]
	result := proceed
	each := func(key, value *ast.Term) bool {
		*place = key
		result = s.walk(x, value, at+1, body, i, g)
		*place = nil
		return result == proceed
	}
	switch v := term.Value.(type) {
	case *ast.Array:
		for n := range v.Len() {
			if !each(ast.InternedTerm(n), v.Elem(n)) {
				return result
			}
		}
	case ast.Object:
		keys := v.KeysIterator()
		for key, more := keys.Next(); more; key, more = keys.Next() {
			if !each(key, v.Get(key)) {
				return result
			}
		}
	case ast.Set:
		if want := s.plug(&x.output); want != nil && at == len(x.source.path)-1 { // OPA looks such a value up
			if v.Contains(want) {
				each(want, want)
			}
			return result
		}
		for _, key := range v.Slice() {
			if !each(key, key) {
				return result
			}
		}
	}
	return proceed
}

// match unifies a value with the output of an expression, and goes on if it fits.
func (s *screening) match(x *expression, value *ast.Term, body []expression, i int, g *goal) outcome {
	if !x.captured {
		if isFalse(value) {
			return proceed
		}
		return s.solve(body, i+1, g)
	}
	return s.fit(&x.output, value, body, i, g)
}

// unify reports whether a value fits an operand. It gives variables without a value theirs, which forget removes.
func (s *screening) unify(o *operand, value *ast.Term) bool {
	if o.kind == variable && s.variables[o.at] == nil {
		s.variables[o.at] = value
		s.given = append(s.given, o.at)
		return true
	}
	if o.kind != buildsList {
		want := s.plug(o)
		if !ast.IsScalar(value.Value) && !ast.IsScalar(want.Value) {
			s.leave = true // OPA compares them part by part
		}
		return want.Equal(value)
	}
	elements, ok := value.Value.(*ast.Array)
	if !ok || elements.Len() != len(o.parts) {
		return false
	}
	for i := range o.parts {
		if !s.unify(&o.parts[i], elements.Elem(i)) {
			return false
		}
	}
	return true
}

// forget removes the values that were given last.
func (s *screening) forget(from int) {
	for _, at := range s.given[from:] {
		s.variables[at] = nil
	}
	s.given = s.given[:from]
}

func isFalse(term *ast.Term) bool {
	b, ok := term.Value.(ast.Boolean)
	return ok && !bool(b)
}

// collect evaluates a comprehension; nil to abandon.
func (s *screening) collect(c *comprehension) *ast.Term {
	g := goal{head: &c.head, shape: c.made}
	if s.solve(c.body, 0, &g) != proceed {
		return nil
	}
	return g.made()
}

// plugAll returns the values of operands; nil if one has none, or if there are too many.
func (s *screening) plugAll(operands []operand) []*ast.Term {
	from := len(s.operands)
	if from+len(operands) > maxOperands {
		return nil
	}
	for i := range operands {
		value := s.plug(&operands[i])
		if value == nil {
			return nil
		}
		s.operands = append(s.operands, value)
	}
	return s.operands[from:len(s.operands):len(s.operands)]
}

func (s *screening) callBuiltin(x *expression, body []expression, i int, g *goal) outcome {
	operands := s.plugAll(x.args)
	if operands == nil {
		return abandon
	}
	if x.captured { // OPA passes it, too, so that it has a weight
		output := x.output.term
		if value := s.plug(&x.output); value != nil {
			output = value
		}
		s.operands = append(s.operands, output)
		operands = s.operands[len(s.operands)-len(operands)-1:]
	}
	value, result := s.call(x, operands)
	if value == nil {
		return result
	}
	return s.match(x, value, body, i, g)
}

// call returns the value of a built-in function. Without one, the outcome says how to go on.
func (s *screening) call(x *expression, operands []*ast.Term) (*ast.Term, outcome) {
	if x.guard != nil {
		known, err := pay(x.guard, operands, &s.budget)
		if known != nil || err != nil {
			return known, abandon
		}
	}
	s.count = 0
	err := x.builtin(s.context, operands, s.yield)
	value := s.returned
	s.returned = nil
	switch {
	case err != nil || s.count > 1:
		return nil, abandon
	case value != nil && !s.budget.seesResult(value, x.makesTexts):
		return nil, abandon
	}
	return value, proceed
}
