package cel

import (
	"errors"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
)

// Bounds of what is observed of one expression.
const (
	maxParts = 64
	// maxPart is how many values one part's may consist of.
	maxPart = 100
)

// Part is a part of an expression, and what it resulted in.
type Part struct {
	// Expression is the part, as the compiler would write it.
	Expression string
	// Value is in the form of JSON; nil if there is an error, or if it is too large to look at, which Large reports.
	Value any
	Large bool
	Err   error
	// Depth counts the parts that this one is in.
	Depth int
}

// Observe evaluates the program once more, and returns what its parts resulted in, from the outside in: calls, and
// fields that are read. What was not evaluated is left out, and so are macros, such as list.all, of which the compiler
// does not keep the text. It is for people who look for a mistake, and takes its time.
func (p *Program) Observe(a *Activation) []Part {
	a.budget = NewBudget()
	if _, err := p.eval(a); errors.Is(err, ErrExpensive) || errors.Is(err, ErrBudget) {
		return nil
	}
	a.budget = NewBudget()
	made, issues := p.scope.views()
	if len(issues) > 0 {
		return nil
	}
	observed, err := made.main.env.Program(p.ast,
		celgo.EvalOptions(celgo.OptTrackState),
		celgo.CustomDecoratorV2(p.scope.environment.meter(p.ast.NativeRep(), p.tariff, p.scope.environment.newPatterns())))
	if err != nil {
		return nil
	}
	_, details, _ := observed.Eval(a)
	if details == nil || details.State() == nil {
		return nil
	}
	o := &observing{program: p, value: details.State().Value}
	o.within(p.ast.NativeRep().Expr())
	return o.parts
}

type observing struct {
	program *Program
	value   func(int64) (ref.Val, bool)
	parts   []Part
	depth   int
}

// part notes an expression and what is in it.
func (o *observing) part(e celast.Expr) {
	before := len(o.parts)
	switch e.Kind() {
	case celast.CallKind, celast.SelectKind:
		o.note(e)
	}
	noted := len(o.parts) - before
	o.depth += noted
	o.within(e)
	o.depth -= noted
}

// within notes what is in an expression. Of a chain of fields only the last one is of interest.
func (o *observing) within(e celast.Expr) {
	switch e.Kind() {
	case celast.CallKind:
		if call := e.AsCall(); call.IsMemberFunction() {
			o.part(call.Target())
		}
		for _, argument := range e.AsCall().Args() {
			o.part(argument)
		}
	case celast.SelectKind:
		operand := e.AsSelect().Operand()
		for operand.Kind() == celast.SelectKind {
			operand = operand.AsSelect().Operand()
		}
		o.part(operand)
	case celast.ComprehensionKind:
		o.part(e.AsComprehension().IterRange())
	case celast.ListKind:
		for _, element := range e.AsList().Elements() {
			o.part(element)
		}
	}
}

func (o *observing) note(e celast.Expr) {
	v, evaluated := o.value(e.ID())
	if !evaluated || len(o.parts) == maxParts {
		return
	}
	text, err := parser.Unparse(e, o.program.ast.NativeRep().SourceInfo())
	if err != nil { // there is a macro in it
		return
	}
	part := Part{Expression: text, Depth: o.depth}
	switch failed, isError := v.(*types.Err); {
	case isError:
		part.Err = failed
	case weigh(v, maxPart) <= maxPart:
		part.Value = plain(v)
	default:
		part.Large = true
	}
	o.parts = append(o.parts, part)
}
