package cel

import (
	"errors"
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Programs are made with the interpreter of CEL, and not with its Env: the options of Kubernetes' environment count costs
// after each part of an expression, which cannot be switched off, and takes longer than most of the parts.

// plan makes an expression executable.
//
// What it makes refers to nothing of the view but its types.
func (e *Environment) plan(v *view, ast *celast.AST, meter interpreter.InterpretableDecoratorV2) (interpreter.InterpretableV2, error) {
	adapter := e.base.CELTypeAdapter()
	factory := attributes{interpreter.NewAttributeFactory(e.base.Container, adapter, v.provider)}
	return interpreter.NewInterpreter(e.functions, e.base.Container, v.provider, adapter, factory).
		NewInterpretable(ast, interpreter.CustomDecoratorV2(alternatives), interpreter.CustomDecoratorV2(meter), interpreter.Optimize())
}

// dispatcher has the functions of an environment.
func (e *Environment) dispatcher() (interpreter.Dispatcher, error) {
	d := interpreter.NewDispatcher()
	for _, binding := range e.bindings {
		if err := d.Add(binding); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// errPanic is why the library failed.
var errPanic = errors.New("evaluating the expression failed")

// run executes an expression. A panic in a library is an error.
func run(i interpreter.InterpretableV2, a *Activation) (v ref.Val, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case *stop:
			err = a.budget.tooMuch(cause)
		default:
			err = fmt.Errorf("%w: %v", errPanic, cause)
		}
	}()
	frame, err := interpreter.NewExecutionFrame(a)
	if err != nil {
		return nil, err
	}
	defer frame.Close()
	v = i.Exec(frame)
	if failed, ok := v.(*types.Err); ok {
		return nil, failed
	}
	return v, nil
}

// alternative is optional.or or optional.orValue, which evaluate their argument only if there is no value.
type alternative struct {
	id              int64
	optional, other interpreter.InterpretableV2
	// unwrap reports whether the result is the value.
	unwrap bool
}

// alternatives decorates calls of optional.or and optional.orValue.
func alternatives(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != "or" && call.Function() != "orValue" || len(call.Args()) != 2 {
		return i, nil
	}
	return &alternative{id: call.ID(), optional: call.Args()[0], other: call.Args()[1], unwrap: call.Function() == "orValue"}, nil
}

// ID implements InterpretableV2.
func (a *alternative) ID() int64 { return a.id }

// Exec implements InterpretableV2.
func (a *alternative) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := a.optional.Exec(frame)
	found, ok := v.(*types.Optional)
	switch {
	case types.IsUnknownOrError(v):
		return v
	case !ok:
		return types.NoSuchOverloadErr()
	case !found.HasValue():
		return a.other.Exec(frame)
	case a.unwrap:
		return found.GetValue()
	}
	return found
}

// Eval implements Interpretable.
func (a *alternative) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}

// placedAttribute is a chain of fields, in which the place of an error is that of its field.
type placedAttribute struct {
	interpreter.InterpretableAttribute

	// direct reports whether it is a chain, whose values need no conversion for the most part.
	direct bool
}

func placed(attribute interpreter.InterpretableAttribute) *placedAttribute {
	_, direct := attribute.Attr().(*chain)
	return &placedAttribute{attribute, direct}
}

// AddQualifier implements Attribute.
func (a *placedAttribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	if field, ok := q.(interpreter.ConstantQualifier); ok {
		q = &placedQualifier{field}
	}
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

// Exec implements InterpretableV2.
func (a *placedAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if !a.direct {
		return a.InterpretableAttribute.Exec(frame)
	}
	v, err := a.InterpretableAttribute.Resolve(frame)
	if err != nil {
		return types.LabelErrNode(a.ID(), types.WrapErr(err))
	}
	if known, ok := v.(ref.Val); ok {
		return known
	}
	return a.Adapter().NativeToValue(v)
}

// Eval implements Interpretable.
func (a *placedAttribute) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}

// placedQualifier is a field of a chain.
type placedQualifier struct{ interpreter.ConstantQualifier }

// Qualify implements Qualifier.
func (q *placedQualifier) Qualify(vars interpreter.Activation, of any) (any, error) {
	v, err := q.ConstantQualifier.Qualify(vars, of)
	return v, q.placed(err)
}

// QualifyIfPresent implements Qualifier.
func (q *placedQualifier) QualifyIfPresent(vars interpreter.Activation, of any, presenceOnly bool) (any, bool, error) {
	v, present, err := q.ConstantQualifier.QualifyIfPresent(vars, of, presenceOnly)
	return v, present, q.placed(err)
}

func (q *placedQualifier) placed(err error) error {
	if failed, ok := err.(*types.Err); ok { //nolint:errorlint // CEL's own are never wrapped
		types.LabelErrNode(q.ID(), failed)
	}
	return err
}
