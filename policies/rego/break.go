package rego

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/virtward/virtward/texts"
)

// Bounds of stops.
const (
	// MaxStops is the number of stops of an evaluation.
	MaxStops = 100
	// maxInputs is the number of inputs of a stop.
	maxInputs = 32
	// maxStopValue is the size of a value as JSON, in bytes.
	maxStopValue = 2 << 10
)

// Stop is a variable or a rule of a module when it gets a value.
type Stop struct {
	// Line is the line of the module that gives the value, and Text that line.
	Line int
	Text string
	// Value is the value as JSON; nil if it is too large.
	Value json.RawMessage
	// Inputs are the terms of the expression that gives the value.
	Inputs []StopInput
}

// StopInput is a term, and its value as JSON; nil if it is too large.
type StopInput struct {
	Text  string
	Value json.RawMessage
}

// Variables returns the names of the rules of the module and of the variables in them, sorted.
func (m *Module) Variables() []string {
	found := map[string]bool{}
	for name := range m.declarations() {
		found[name] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// declaration gives a variable or a rule its value: the terms in from are its inputs.
type declaration struct {
	location *ast.Location
	from     []any
}

// declarations returns the declarations of the module by name.
func (m *Module) declarations() map[string][]declaration {
	all := map[string][]declaration{}
	add := func(names any, location *ast.Location, from ...any) {
		ast.WalkVars(names, func(v ast.Var) bool {
			if !v.IsWildcard() {
				all[string(v)] = append(all[string(v)], declaration{location, from})
			}
			return false
		})
	}
	parsed := m.parsed()
	ast.WalkRules(parsed, func(rule *ast.Rule) bool {
		name := ruleName(rule)
		from := []any{rule.Body}
		if rule.Head.Value != nil {
			from = append(from, rule.Head.Value)
		}
		all[name] = append(all[name], declaration{rule.Location, from})
		for _, argument := range rule.Head.Args {
			add(argument, rule.Location)
		}
		return false
	})
	ast.WalkExprs(parsed, func(e *ast.Expr) bool {
		switch terms := e.Terms.(type) {
		case *ast.SomeDecl:
			for _, symbol := range terms.Symbols {
				if call, ok := symbol.Value.(ast.Call); ok { // some NAMES in COLLECTION
					for _, name := range call[1 : len(call)-1] {
						add(name, e.Location, call[len(call)-1])
					}
					continue
				}
				add(symbol, e.Location)
			}
		case *ast.Every:
			for _, name := range []*ast.Term{terms.Key, terms.Value} {
				if name != nil {
					add(name, e.Location, terms.Domain)
				}
			}
		default:
			if e.IsAssignment() {
				add(e.Operand(0), e.Location, e.Operand(1))
			}
		}
		return false
	})
	return all
}

// Break evaluates the module, and returns the stops of a variable or a rule in their order: one for each value that it gets. cut reports
// that there are more than MaxStops. The error is that of Eval.
func (m *Module) Break(input *Input, limits Limits, variable string) (stops []Stop, cut bool, err error) {
	in, size, err := input.term(m.documents)
	if err != nil {
		return nil, false, err
	}
	b := &breakpoint{module: m, variable: variable, declared: m.declarations()[variable], input: in, rules: map[string]ast.Value{}, last: map[ast.Var]*binding{}}
	steps := m.budget(limits.withDefaults(size.bytes), size)
	_, err = m.run(in, &steps, b)
	return b.stops, b.cut, err
}

// binding is the value that a variable has in a query.
type binding struct {
	query uint64
	value ast.Value
	// row is the line that gives the value.
	row int
	// exited reports whether the query has had a result since.
	exited bool
}

// breakpoint collects stops.
type breakpoint struct {
	module   *Module
	variable string
	declared []declaration
	input    *ast.Term
	// rules are the last values of rules, by their names.
	rules map[string]ast.Value
	// last are the bindings of the last stops, by the names that the compiler gives variables.
	last  map[ast.Var]*binding
	stops []Stop
	cut   bool
}

// observe implements observer.
func (b *breakpoint) observe(query *topdown.Query) { query.WithQueryTracer(b) }

// Enabled implements topdown.QueryTracer.
func (b *breakpoint) Enabled() bool { return true }

// Config implements topdown.QueryTracer.
func (b *breakpoint) Config() topdown.TraceConfig { return topdown.TraceConfig{PlugLocalVars: true} }

// TraceEvent implements topdown.QueryTracer.
func (b *breakpoint) TraceEvent(e topdown.Event) {
	if rule, ok := e.Node.(*ast.Rule); ok && e.Op == topdown.ExitOp {
		b.rule(&e, rule)
	}
	if e.Locals == nil || e.Location == nil {
		return
	}
	_, again := e.Node.(*ast.Expr)
	again = again && e.Op == topdown.RedoOp
	b.forget(&e, again)
	if again {
		return
	}
	for name, meta := range e.LocalMetadata {
		if string(meta.Name) == b.variable && meta.Location != nil {
			b.bound(&e, name, meta.Location)
		}
	}
}

// rule keeps the value of a rule that is true.
func (b *breakpoint) rule(e *topdown.Event, rule *ast.Rule) {
	value := rule.Head.Value
	if value == nil {
		value = rule.Head.Key
	}
	if value == nil || len(rule.Head.Args) > 0 {
		return
	}
	name, plugged := ruleName(rule), e.Plug(value).Value
	b.rules[name] = plugged
	if name == b.variable {
		b.stop(e, rule.Location, plugged)
	}
}

// forget removes the bindings that the query of an event no longer has. again reports that it evaluates an expression again.
func (b *breakpoint) forget(e *topdown.Event, again bool) {
	for name, known := range b.last {
		if known.query != e.QueryID {
			continue
		}
		if _, bound := e.LocalMetadata[name]; !bound || again && e.Location.Row <= known.row {
			delete(b.last, name) // it will have another value
		}
		known.exited = e.Op == topdown.ExitOp
	}
}

// bound adds a stop if the value of a variable is new.
func (b *breakpoint) bound(e *topdown.Event, name ast.Var, location *ast.Location) {
	value := e.Locals.Get(name)
	if value == nil || !value.IsGround() {
		return
	}
	// A query within that of the variable, such as of a comprehension, has its value too.
	if known := b.last[name]; known != nil && known.value.Compare(value) == 0 && (known.query == e.QueryID || !known.exited) {
		return
	}
	b.last[name] = &binding{query: e.QueryID, value: value, row: location.Row}
	b.stop(e, location, value)
}

func (b *breakpoint) stop(e *topdown.Event, location *ast.Location, value ast.Value) {
	if len(b.stops) == MaxStops {
		b.cut = true
		return
	}
	s := Stop{Line: location.Row, Value: shownValue(value)}
	for _, d := range b.declared {
		if d.location.Row == location.Row {
			s.Text = texts.OneLine(texts.Shorten(string(d.location.Text), maxStopValue))
			s.Inputs = b.inputs(e, d.from)
			break
		}
	}
	b.stops = append(b.stops, s)
}

// inputs returns the values of terms: variables, rules, and what is read of them and of input.
func (b *breakpoint) inputs(e *topdown.Event, from []any) []StopInput {
	locals := map[string]ast.Value{}
	for name, meta := range e.LocalMetadata {
		if value := e.Locals.Get(name); value != nil && value.IsGround() {
			locals[string(meta.Name)] = value
		}
	}
	known := func(name string) ast.Value {
		if name == b.variable {
			return nil
		}
		if value := locals[name]; value != nil {
			return value
		}
		return b.rules[name]
	}
	var found []StopInput
	add := func(text string, value ast.Value) {
		same := func(i StopInput) bool { return i.Text == text }
		if value != nil && len(found) < maxInputs && !slices.ContainsFunc(found, same) {
			found = append(found, StopInput{Text: text, Value: shownValue(value)})
		}
	}
	for _, part := range from {
		ast.WalkTerms(part, func(t *ast.Term) bool {
			switch v := t.Value.(type) {
			case ast.Var:
				add(string(v), known(string(v)))
			case ast.Ref:
				add(b.read(v, known))
			}
			return false
		})
	}
	return found
}

// read returns what a reference reads, up to its first part without a value.
func (b *breakpoint) read(ref ast.Ref, known func(string) ast.Value) (text string, value ast.Value) {
	head, _ := ref[0].Value.(ast.Var)
	if ref[0].Equal(ast.InputRootDocument) {
		value = b.input.Value
	} else if value = known(string(head)); value == nil {
		return "", nil
	}
	path := ast.Ref{}
	for _, part := range ref[1:] {
		if name, ok := part.Value.(ast.Var); ok {
			index := known(string(name))
			if index == nil {
				break
			}
			part = ast.NewTerm(index)
		}
		path = append(path, part)
	}
	if len(path) == 0 {
		if ref[0].Equal(ast.InputRootDocument) {
			return "", nil
		}
		return string(head), value
	}
	found, err := value.Find(path)
	if err != nil {
		return "", nil
	}
	return append(ast.Ref{ref[0]}, path...).String(), found
}

// maxShown is more than the weight of any value whose JSON has maxStopValue bytes.
const maxShown = maxStopValue * (perValue + 1)

// shownValue returns a value as JSON; nil if it is too large, or has no form in JSON. A stop reads whole documents, so that a value is
// weighed before it is encoded.
func shownValue(value ast.Value) json.RawMessage {
	if collectionWeight(ast.NewTerm(value), maxWeight-maxShown) > maxWeight {
		return nil
	}
	plain, err := ast.JSON(value)
	if err != nil {
		return nil
	}
	data, err := json.Marshal(plain)
	if err != nil || len(data) > maxStopValue {
		return nil
	}
	return data
}
