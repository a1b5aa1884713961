package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/policies/rego/coverage"
)

// Trace is what a policy did in a case.
type Trace struct {
	Policy string `json:"policy"`
	// Evaluated reports whether the policy was evaluated: whether its selectors match the object.
	Evaluated bool `json:"evaluated"`
	// Steps are the expressions of a policy in CEL.
	Steps []TraceStep `json:"steps,omitempty"`
	// Rego is the trace of a policy in Rego, and what the module printed.
	Rego string `json:"rego,omitempty"`
}

// TraceStep is an expression and its value.
type TraceStep struct {
	// Field is a field of the policy.
	Field      string `json:"field"`
	Expression string `json:"expression,omitempty"`
	// Value is the value as JSON, unless there is an Error.
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	// Parts are the parts of the expression, outer ones first.
	Parts []TraceStep `json:"parts,omitempty"`
}

// Coverage is what of a policy the cases evaluated.
type Coverage struct {
	Policy string `json:"policy"`
	// File is the file of the policy.
	File string `json:"file"`
	// Expressions are the expressions of a policy in CEL.
	Expressions []ExpressionCoverage `json:"expressions,omitempty"`
	// Lines are the lines of a module in Rego that can be evaluated.
	Lines []LineCoverage `json:"lines,omitempty"`
}

// ExpressionCoverage counts the outcomes of an expression.
type ExpressionCoverage struct {
	Field  string `json:"field"`
	Line   int    `json:"line,omitempty"`
	True   int    `json:"true"`
	False  int    `json:"false"`
	Errors int    `json:"errors"`
	// Texts counts the evaluations of a messageExpression.
	Texts int `json:"texts"`
	// message is true for a messageExpression.
	message bool
}

// LineCoverage reports whether all of a line was evaluated.
type LineCoverage struct {
	// Line is the line in the file, or in the module if the line in the file is not known.
	Line    int  `json:"line"`
	Reached bool `json:"reached"`
}

// Missing returns the outcomes that no case had.
func (e *ExpressionCoverage) Missing() []string {
	var missing []string
	switch {
	case e.message && e.Texts == 0:
		missing = append(missing, "never made a message")
	case e.message:
	default:
		if e.True == 0 {
			missing = append(missing, "never true")
		}
		if e.False == 0 {
			missing = append(missing, "never false")
		}
	}
	return missing
}

// Covered returns how many outcomes the cases had, or how many lines they evaluated, and the number of all.
func (c *Coverage) Covered() (had, all int) {
	for i := range c.Expressions {
		outcomes := 2
		if c.Expressions[i].message {
			outcomes = 1
		}
		all, had = all+outcomes, had+outcomes-len(c.Expressions[i].Missing())
	}
	for i := range c.Lines {
		if all++; c.Lines[i].Reached {
			had++
		}
	}
	return had, all
}

// observer collects what policies do in all cases.
type observer struct {
	trace, coverage bool
	// policies are the observed policies, by file and name.
	policies map[string]*observed
}

// observed is the coverage of a policy.
type observed struct {
	written     written
	expressions map[string]*ExpressionCoverage
	order       []string
	modules     map[*rego.Module]*coverage.Coverage
}

// caseObserver collects what policies do in one case.
type caseObserver struct {
	*observer

	situation *Situation
	traces    map[string]*Trace
}

// watch returns a set that reports to the observer.
func (o *observer) watch(s *Situation, compiled []*policies.Policy, set *policies.Set) (*policies.Set, *caseObserver) {
	c := &caseObserver{observer: o, situation: s, traces: map[string]*Trace{}}
	if o.coverage {
		for i, p := range compiled {
			o.known(&s.written[i], p)
		}
	}
	if !o.trace && !o.coverage {
		return set, c
	}
	return set.Observed(c.evaluated), c
}

// evaluated records the evaluation of a policy. In an update, the old object is evaluated after the new one, and is not
// recorded.
func (c *caseObserver) evaluated(p *policies.Policy, d *cel.Documents) {
	if c.traces[p.Name()] != nil {
		return
	}
	var lines topdown.QueryTracer
	known := c.of(p)
	if known != nil && p.Module() != nil {
		if kept := known.modules[p.Module()]; kept != nil {
			lines = kept
		}
	}
	t := observe(p, d, c.trace, lines, func(step *policies.Step) {
		if known != nil {
			known.count(step)
		}
	})
	c.traces[p.Name()] = &t
}

// TraceOf evaluates a policy with documents, and returns what it did.
func TraceOf(p *policies.Policy, d *cel.Documents) Trace {
	return observe(p, d, true, nil, func(*policies.Step) {})
}

// observe evaluates a policy. It counts each step, and the lines of a module if lines are given. With parts, the steps have the
// parts of the expressions, and the trace that of the module.
func observe(p *policies.Policy, d *cel.Documents, parts bool, lines topdown.QueryTracer, count func(*policies.Step)) Trace {
	t := Trace{Policy: p.Name(), Evaluated: true}
	var events *rego.Trace
	if parts && p.Module() != nil {
		events = &rego.Trace{}
	}
	for _, step := range p.Observe(d, parts, lines, events) {
		count(&step)
		t.Steps = append(t.Steps, stepOf(step.Field, step.Expression, step.Value, step.Err, step.Parts))
	}
	if events != nil {
		t.Rego = events.String()
	}
	return t
}

// of returns the coverage of a policy of the case, or nil without Options.Coverage.
func (c *caseObserver) of(p *policies.Policy) *observed {
	for i := range c.situation.written {
		if w := &c.situation.written[i]; c.coverage && w.policy.Name == p.Name() {
			return c.known(w, p)
		}
	}
	return nil
}

// all returns the traces of the case, in the order of the policies.
func (c *caseObserver) all() []Trace {
	if !c.trace {
		return nil
	}
	traces := make([]Trace, 0, len(c.situation.Policies))
	for _, p := range c.situation.Policies {
		if t := c.traces[p.Name]; t != nil {
			traces = append(traces, *t)
			continue
		}
		traces = append(traces, Trace{Policy: p.Name})
	}
	return traces
}

// known returns the coverage of a policy, with all its expressions.
func (o *observer) known(w *written, p *policies.Policy) *observed {
	key := w.key()
	found := o.policies[key]
	if found == nil {
		found = &observed{written: *w, expressions: map[string]*ExpressionCoverage{}, modules: map[*rego.Module]*coverage.Coverage{}}
		if o.policies == nil {
			o.policies = map[string]*observed{}
		}
		o.policies[key] = found
		spec := p.Spec()
		for i := range spec.Match.MatchConditions {
			found.expect(index("spec.match.matchConditions", i)+".expression", false)
		}
		for i := range spec.Validations {
			at := index("spec.validations", i)
			found.expect(at+".expression", false)
			if spec.Validations[i].MessageExpression != "" {
				found.expect(at+".messageExpression", true)
			}
		}
	}
	if m := p.Module(); m != nil && found.modules[m] == nil {
		found.modules[m] = coverage.New(m)
	}
	return found
}

func (o *observed) expect(field string, message bool) {
	position, _ := o.written.document.Find(field)
	o.expressions[field] = &ExpressionCoverage{Field: field, Line: position.Line, message: message}
	o.order = append(o.order, field)
}

func (o *observed) count(step *policies.Step) {
	e := o.expressions[step.Field]
	switch {
	case e == nil: // of a module
	case step.Err != nil:
		e.Errors++
	case e.message:
		e.Texts++
	case step.Value == true:
		e.True++
	default:
		e.False++
	}
}

// result returns the coverage of all policies, sorted by file and name, or nil without Options.Coverage.
func (o *observer) result() []Coverage {
	var all []Coverage
	for _, key := range slices.Sorted(maps.Keys(o.policies)) {
		p := o.policies[key]
		c := Coverage{Policy: p.written.policy.Name, File: p.written.file(), Lines: p.lines()}
		for _, field := range p.order {
			c.Expressions = append(c.Expressions, *p.expressions[field])
		}
		all = append(all, c)
	}
	return all
}

// lines returns the lines of a module. It is compiled for each set of parameters, and the coverage of all of them
// counts.
func (o *observed) lines() []LineCoverage {
	reached := map[int]bool{}
	for _, module := range o.modules {
		some, missed := module.Lines()
		for _, line := range some {
			reached[line] = true
		}
		for _, line := range missed {
			if _, known := reached[line]; !known {
				reached[line] = false
			}
		}
	}
	lines := make([]LineCoverage, 0, len(reached))
	for _, line := range slices.Sorted(maps.Keys(reached)) {
		in := line
		if text := strings.Split(o.written.policy.Spec.Rego.Module, "\n"); line <= len(text) {
			first := len(text[line-1]) - len(strings.TrimLeft(text[line-1], " \t")) + 1
			if position, ok := o.written.document.InText("spec.rego.module", line, first); ok {
				in = position.Line
			}
		}
		lines = append(lines, LineCoverage{Line: in, Reached: reached[line]})
	}
	return lines
}

// maxTraced is the size of a value in a trace, in bytes.
const maxTraced = 1 << 10

func stepOf(field, expression string, value any, err error, parts []cel.Part) TraceStep {
	step := TraceStep{Field: field, Expression: expression}
	if err != nil {
		step.Error = err.Error()
	} else {
		step.Value = asJSON(value)
	}
	for i := range parts {
		value := parts[i].Value
		if parts[i].Large {
			value = "(too long to be shown)"
		}
		step.Parts = append(step.Parts, stepOf("", parts[i].Expression, value, parts[i].Err, nil))
	}
	return step
}

func asJSON(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil || len(data) > maxTraced {
		data, _ = json.Marshal(fmt.Sprintf("(%T, too long to be shown)", value))
	}
	return data
}
