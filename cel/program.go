package cel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// The limits of the expressions of a policy, in units of 0.1 µs of CPU.
const (
	// ExpressionLimit is what one expression may cost.
	ExpressionLimit = 1_000_000
	// PolicyLimit is what the expressions of one policy may cost together.
	PolicyLimit = 2_000_000
)

// maxResult is how many values a result of any type may consist of.
const maxResult = 10_000

// Causes of an Error, for errors.Is.
var (
	// ErrExpensive says that an expression costs more than ExpressionLimit.
	ErrExpensive = errors.New("the expression is too expensive")
	// ErrBudget says that the expressions of a policy together cost more than its budget.
	ErrBudget = errors.New("the policy is too expensive")
	// ErrNotAuditable means that an expression reads what only a request has.
	ErrNotAuditable = errors.New("not auditable here")
	// ErrResult says that an expression did not result in what was wanted.
	ErrResult = errors.New("wrong result")
)

// errTooMuch says that the expressions of a policy take more memory than they may.
var errTooMuch = fmt.Errorf("%w: it takes more than %d bytes of memory", ErrBudget, MemoryLimit)

// Error says why an expression has no result.
type Error struct {
	// Expression is the one that failed; Variable names it if it is a variable's.
	Expression, Variable string
	// Line and Column of what failed, counted from 1; 0 if that is not known.
	Line, Column int
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("%d:%d: ", e.Line, e.Column)
	}
	if e.Variable != "" {
		return fmt.Sprintf("variables.%s: %s%v", e.Variable, where, e.Err)
	}
	return where + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Budget is what the expressions of one policy may still cost, and the memory that they may still take. It belongs to
// one goroutine.
type Budget struct {
	left uint64
	// memory is what may still be taken, in bytes.
	memory uint64
	// kept is what variables have taken, in bytes.
	kept uint64
	// whole is the Budget that this is a share of; nil if it is independent.
	whole *Budget
	// floor is what is left when the running expression has cost as much as it may.
	floor uint64
	// allowed is what the policy could spend at the beginning, in units.
	allowed uint64
	// patterns are those that were computed and compiled.
	patterns map[string]pattern
	// arguments are those of the calls in progress. A share uses those of the whole.
	arguments *arguments
}

// NewBudget allows as much as Kubernetes allows a policy.
func NewBudget() *Budget { return NewBudgetOf(PolicyLimit, MemoryLimit) }

// NewBudgetOf allows so many units and bytes.
func NewBudgetOf(units, bytes uint64) *Budget {
	return &Budget{left: units, memory: bytes, allowed: units, arguments: &arguments{}}
}

// Share is a budget of so many units, and of the memory of one policy, or of what is left if that is less. What is spent
// of it is also subtracted from this one. A share of a nil Budget is independent.
func (b *Budget) Share(units uint64) *Budget {
	if b == nil {
		return NewBudgetOf(units, MemoryLimit)
	}
	units = min(units, b.left)
	return &Budget{left: units, memory: min(MemoryLimit, b.memory), whole: b, allowed: units, arguments: b.arguments}
}

// Left is what may still be spent, in units.
func (b *Budget) Left() uint64 { return b.left }

// Memory is what may still be taken, in bytes.
func (b *Budget) Memory() uint64 { return b.memory }

// Exhausted reports whether no units or no memory are left.
func (b *Budget) Exhausted() bool { return b.left == 0 || b.memory == 0 }

// Spend takes units off, and reports whether there were as many.
func (b *Budget) Spend(units uint64) bool {
	if b.whole != nil {
		b.whole.Spend(units)
	}
	enough := units <= b.left
	b.left -= min(units, b.left)
	return enough
}

// Take takes bytes off, and reports whether there were as many.
func (b *Budget) Take(bytes uint64) bool {
	if b.whole != nil {
		b.whole.Take(bytes)
	}
	enough := bytes <= b.memory
	b.memory -= min(bytes, b.memory)
	return enough
}

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	scope      *Scope
	name       string // of the variable, if it is one
	expression string
	ast        *celgo.Ast
	want       Result
	planned    interpreter.InterpretableV2
	reads      map[string]bool
	tariff     *tariff
	estimated  Cost
	// fields are the documents of which it reads fields, itself or through variables, without a look at whether they are
	// null.
	fields map[string]bool
}

func (s *Scope) program(v *view, expression string, ast *celgo.Ast, want Result) (*Program, error) {
	literals := s.environment.newPatterns()
	tariff := tariffOf(ast.NativeRep())
	planned, err := s.environment.plan(v, ast.NativeRep(), s.environment.meter(ast.NativeRep(), tariff, literals))
	if err != nil {
		return nil, err
	}
	p := &Program{scope: s, expression: expression, ast: ast, want: want, planned: planned, tariff: tariff, reads: map[string]bool{}}
	p.read(ast.NativeRep())
	p.readReferences(ast.NativeRep())
	p.fields = p.unguarded(ast.NativeRep())
	p.estimated = p.estimate(v)
	return p, nil
}

// read collects what an expression reads: variables by name, and of the request which fields.
func (p *Program) read(ast *celast.AST) {
	whole := map[int64]bool{} // identifiers without a selected field
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.SelectKind:
			operand := e.AsSelect().Operand()
			if operand.Kind() != celast.IdentKind {
				return
			}
			switch name := operand.AsIdent(); name {
			case varRequest:
				p.reads[varRequest+"."+e.AsSelect().FieldName()] = true
				whole[operand.ID()] = true
			case varVariables:
				if i, ok := p.scope.names[e.AsSelect().FieldName()]; ok && p.scope.variables[i] != nil {
					maps.Copy(p.reads, p.scope.variables[i].reads)
				}
			}
		case celast.IdentKind:
			name := e.AsIdent()
			if reference := ast.ReferenceMap()[e.ID()]; reference != nil && reference.Name != "" {
				name = reference.Name
			}
			if name == varRequestResource {
				name = varAuthorizer
			}
			if name == varRequest && !whole[e.ID()] {
				p.reads[varRequest+".*"] = true
			}
			if name == varVariables {
				return
			}
			if slices.Contains(Names(), name) {
				p.reads[name] = true
			}
		}
	}))
}

// Expression is the text it was compiled from.
func (p *Program) Expression() string { return p.expression }

// Type returns the type that the compiler knows for the result, such as string or list(dyn).
func (p *Program) Type() string { return typeName(p.ast.OutputType()) }

// Reads are the names of the variables that the program reads, itself or through variables of the policy, sorted.
// A macro that gives its own variable such a name, as in list.all(vm, …), counts as reading it.
func (p *Program) Reads() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.reads)), func(name string) bool { return !slices.Contains(Names(), name) })
}

// UsesAuthorizer reports whether the program asks what the requester may do.
func (p *Program) UsesAuthorizer() bool { return p.reads[varAuthorizer] }

// UsesRequest reports whether the program reads what only a request has: the requester and the operation. Kind,
// resource, name and namespace are known without one.
func (p *Program) UsesRequest() bool {
	for _, name := range []string{"*", "operation", "userInfo", "dryRun", "subResource"} {
		if p.reads[varRequest+"."+name] {
			return true
		}
	}
	return p.reads[varRequester]
}

// Auditable reports whether the program can evaluate an existing object, without a request.
func (p *Program) Auditable() bool { return !p.UsesAuthorizer() && !p.UsesRequest() }

// Eval evaluates the program. The result is a bool or a string, as wanted when it was compiled, and for Any what
// JSON would decode: map[string]any, []any, string, int64, float64, bool or nil. An error is an *Error. What the
// evaluation costs, that of the variables it reads included, is taken off the budget.
func (p *Program) Eval(a *Activation, budget *Budget) (any, error) {
	a.budget = budget
	memory, kept := budget.memory, budget.kept
	v, err := p.eval(a)
	if err != nil {
		return nil, err
	}
	budget.memory = memory - (budget.kept - kept) // what the expression made is free again
	switch p.want {
	case Bool:
		if b, ok := v.(types.Bool); ok {
			return bool(b), nil
		}
	case String:
		if s, ok := v.(types.String); ok {
			return string(s), nil
		}
	default:
		if weigh(v, maxResult) > maxResult {
			return nil, p.failed(fmt.Errorf("%w: it has more than %d values", ErrResult, maxResult))
		}
		return plain(v), nil
	}
	return nil, p.failed(fmt.Errorf("%w: it must be a %s, and is a %s", ErrResult, p.want, v.Type().TypeName()))
}

func (p *Program) eval(a *Activation) (ref.Val, error) {
	b := a.budget
	if b.Exhausted() {
		return nil, p.failed(b.exhausted())
	}
	memory, kept, left, floor, used := b.memory, b.kept, b.left, b.floor, b.arguments.used
	b.floor = left - min(left, ExpressionLimit)
	v, err := p.paid(a)
	b.arguments.used = used // a call that is stopped does not release its own
	if p.name != "" {
		b.kept = kept + memory - b.memory
	}
	spent := left - b.left
	if b.whole != nil {
		b.whole.Spend(spent)
	}
	b.floor = floor - min(floor, spent) // what a variable costs is not on the account of the expression that reads it
	if err != nil {
		return nil, p.failed(err)
	}
	return v, nil
}

// paid evaluates the program on the budget of the activation.
func (p *Program) paid(a *Activation) (ref.Val, error) {
	b := a.budget
	if !b.begin(p.tariff.whole) {
		b.left = b.floor
		return nil, b.tooMuch(nil)
	}
	return run(p.planned, a)
}

// tooMuch is the error of an evaluation that ended early, at a call or without one.
func (b *Budget) tooMuch(why *stop) error {
	var err error
	switch {
	case why != nil && why.memory:
		err = errTooMuch
	case b.left > 0:
		err = fmt.Errorf("%w: it costs more than %d units", ErrExpensive, ExpressionLimit)
	default:
		err = b.exhausted()
	}
	if why == nil || why.function == "" && !why.memory { // a step of a loop, which says nothing about the cause
		return err
	}
	if why.function != "" {
		err = fmt.Errorf("%w, in %s", err, strings.Trim(why.function, "_@"))
	}
	return types.LabelErrNode(why.id, types.WrapErr(err)).(*types.Err)
}

// exhausted is the error of a policy that has spent what it may.
func (b *Budget) exhausted() error {
	if b.memory == 0 {
		return errTooMuch
	}
	return fmt.Errorf("%w: it may cost %d units for this object; use fewer loops and shorter texts, or match fewer objects", ErrBudget, b.allowed)
}

// failed is the error of this program, with the place where it happened.
func (p *Program) failed(err error) error {
	if inner := (*Error)(nil); errors.As(err, &inner) {
		return inner // a variable's own
	}
	result := &Error{Expression: p.expression, Variable: p.name, Err: err}
	if at := (*types.Err)(nil); errors.As(err, &at) && at.NodeID() > 0 {
		place := p.ast.NativeRep().SourceInfo().GetStartLocation(at.NodeID())
		if place.Line() > 0 {
			result.Line, result.Column = place.Line(), place.Column()+1
		}
	}
	return result
}
