package cel

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// The parts of an expression whose cost does not depend on values are added up when it is compiled: those outside of loops
// are charged when the evaluation begins, and those of a loop at each step of it. Calls whose cost depends on their
// arguments are charged before they run. When a budget is exhausted, the evaluation ends at once: an error would let
// a loop or an operator || continue.

// What the parts of an expression cost, in units.
const (
	identUnits    = 1
	selectUnits   = 3
	elementUnits  = 1
	listUnits     = 5
	entryUnits    = 3
	structUnits   = 50
	loopUnits     = 25
	stepUnits     = 4
	dynamicUnits  = 20 // calls that cost more are charged when they run
	namesPerUnit  = 2  // a name is looked for in each of the loops around it
	evaluateUnits = 20 // what each evaluation of an expression costs
)

// tariff is what the parts of an expression cost.
type tariff struct {
	// whole is what an evaluation costs, without loops and calls that are charged when they run.
	whole uint64
	// steps are what each step of a loop costs, by the id of the expression of the step.
	steps map[int64]uint64
	// keys are the ids of expressions that are keys of maps, and tests those that look whether a field is present.
	keys, tests map[int64]bool
}

func tariffOf(ast *celast.AST) *tariff {
	t := &tariff{steps: map[int64]uint64{}, keys: map[int64]bool{}, tests: map[int64]bool{}}
	t.whole = evaluateUnits + t.units(ast.Expr(), 0)
	return t
}

// units is the cost of an expression inside of so many loops.
func (t *tariff) units(e celast.Expr, loops uint64) uint64 {
	switch e.Kind() {
	case celast.IdentKind:
		return identUnits + loops/namesPerUnit
	case celast.SelectKind:
		if e.AsSelect().IsTestOnly() {
			t.tests[e.ID()] = true
		}
		return selectUnits + t.units(e.AsSelect().Operand(), loops)
	case celast.CallKind:
		return t.call(e.AsCall(), loops)
	case celast.ListKind:
		total := uint64(listUnits)
		for _, element := range e.AsList().Elements() {
			total += elementUnits + t.units(element, loops)
		}
		return total
	case celast.MapKind:
		total := uint64(listUnits)
		for _, entry := range e.AsMap().Entries() {
			t.keys[entry.AsMapEntry().Key().ID()] = true
			total += entryUnits + t.units(entry.AsMapEntry().Key(), loops) + t.units(entry.AsMapEntry().Value(), loops)
		}
		return total
	case celast.StructKind:
		total := uint64(structUnits)
		for _, field := range e.AsStruct().Fields() {
			total += structUnits + t.units(field.AsStructField().Value(), loops)
		}
		return total
	case celast.ComprehensionKind:
		return t.loop(e.AsComprehension(), loops)
	default:
		return 0
	}
}

func (t *tariff) call(call celast.CallExpr, loops uint64) uint64 {
	total := uint64(1)
	if units := charges[call.FunctionName()].call; units <= dynamicUnits {
		total = units
	}
	if call.IsMemberFunction() {
		total += t.units(call.Target(), loops)
	}
	for _, argument := range call.Args() {
		total += t.units(argument, loops)
	}
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		t.keys[call.Args()[1].ID()] = true
	case operators.In:
		t.keys[call.Args()[0].ID()] = true
	}
	return total
}

func (t *tariff) loop(loop celast.ComprehensionExpr, loops uint64) uint64 {
	t.steps[loop.LoopStep().ID()] = stepUnits + t.units(loop.LoopCondition(), loops+1) + t.units(loop.LoopStep(), loops+1)
	return loopUnits + t.units(loop.IterRange(), loops) + t.units(loop.AccuInit(), loops) + t.units(loop.Result(), loops+1)
}

// stop is why an evaluation ended: it is the value of a panic, which run recovers.
type stop struct {
	id       int64
	function string
	memory   bool
}

// pay takes units off the budget of the running evaluation, and ends the evaluation if there are not as many.
func (b *Budget) pay(units uint64, id int64, function string) {
	if b == nil || b.begin(units) {
		return
	}
	b.end(&stop{id: id, function: function})
}

// begin takes units off, and reports whether there were as many for the running expression.
func (b *Budget) begin(units uint64) bool {
	if units > b.left-b.floor {
		return false
	}
	b.left -= units
	return true
}

// payMemory takes bytes off the budget of the running evaluation, and ends the evaluation if there are not as many.
func (b *Budget) payMemory(bytes uint64, id int64) {
	if b == nil || b.Take(bytes) {
		return
	}
	b.end(&stop{id: id, memory: true})
}

func (b *Budget) end(why *stop) {
	b.left = b.floor
	panic(why)
}

// running is what the running expression may still cost.
func (b *Budget) running() uint64 {
	if b == nil {
		return ExpressionLimit
	}
	return b.left - b.floor
}

// budgetName is the name by which calls find the budget of the evaluation. No expression can say it.
const budgetName = "@budget"

func budgetOf(vars interpreter.Activation) *Budget {
	found, _ := vars.ResolveName(budgetName)
	b, _ := found.(*Budget)
	return b
}

// meter decorates the parts of an expression whose cost depends on values.
func (e *Environment) meter(ast *celast.AST, t *tariff, literals patterns) interpreter.InterpretableDecoratorV2 {
	decorate := e.payingCalls(ast, literals)
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		made, err := decorate(i)
		if err != nil {
			return nil, err
		}
		if attribute, ok := made.(interpreter.InterpretableAttribute); ok && !t.tests[i.ID()] {
			if _, twice := made.(*placedAttribute); !twice {
				made = placed(attribute)
			}
		}
		if units, ok := t.steps[i.ID()]; ok {
			if _, twice := made.(*payingStep); !twice {
				made = &payingStep{made, units}
			}
		}
		if t.keys[i.ID()] && !isConst(made) && textual(ast, i.ID()) {
			made = e.payingForKey(made)
		}
		return made, nil
	}
}

func isConst(i interpreter.InterpretableV2) bool {
	_, ok := i.(interpreter.InterpretableConst)
	return ok
}

// textual reports whether an expression can result in a text.
func textual(ast *celast.AST, id int64) bool {
	switch ast.GetType(id).Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.NullTypeKind:
		return false
	}
	return true
}

// payingStep is a step of a loop.
type payingStep struct {
	interpreter.InterpretableV2

	units uint64
}

// Exec implements InterpretableV2.
func (s *payingStep) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	budgetOf(frame).pay(s.units, s.ID(), "")
	return s.InterpretableV2.Exec(frame)
}

// Eval implements Interpretable.
func (s *payingStep) Eval(vars interpreter.Activation) ref.Val {
	return s.Exec(interpreter.AsFrame(vars))
}

// payingForKey charges for a key of a map, which is hashed. What is a chain of fields stays one.
func (e *Environment) payingForKey(key interpreter.InterpretableV2) interpreter.InterpretableV2 {
	switch key := key.(type) {
	case *payingKey, *payingField:
		return key
	case interpreter.InterpretableAttribute:
		return &payingField{key, e.keys}
	}
	return &payingKey{key}
}

// payingField is a key of a map that is a chain of fields.
type payingField struct {
	interpreter.InterpretableAttribute

	keys interpreter.AttributeFactory
}

// Exec implements InterpretableV2.
func (f *payingField) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	key := f.InterpretableAttribute.Exec(frame)
	payForKey(frame, key, f.ID())
	return key
}

// Eval implements Interpretable.
func (f *payingField) Eval(vars interpreter.Activation) ref.Val {
	return f.Exec(interpreter.AsFrame(vars))
}

// Resolve implements Attribute.
func (f *payingField) Resolve(vars interpreter.Activation) (any, error) {
	key, err := f.InterpretableAttribute.Resolve(vars)
	if err == nil {
		payForKey(vars, f.Adapter().NativeToValue(key), f.ID())
	}
	return key, err
}

// Qualify implements Qualifier: the chain is the key in an index.
func (f *payingField) Qualify(vars interpreter.Activation, of any) (any, error) {
	key, err := f.qualifier(vars)
	if err != nil {
		return nil, err
	}
	return key.Qualify(vars, of)
}

// QualifyIfPresent implements Qualifier.
func (f *payingField) QualifyIfPresent(vars interpreter.Activation, of any, presenceOnly bool) (any, bool, error) {
	key, err := f.qualifier(vars)
	if err != nil {
		return nil, false, err
	}
	return key.QualifyIfPresent(vars, of, presenceOnly)
}

func (f *payingField) qualifier(vars interpreter.Activation) (interpreter.Qualifier, error) {
	key, err := f.Resolve(vars)
	if err != nil {
		return nil, err
	}
	return f.keys.NewQualifier(nil, f.InterpretableAttribute.ID(), key, f.IsOptional())
}

func payForKey(vars interpreter.Activation, key ref.Val, id int64) {
	if types.IsUnknownOrError(key) {
		return
	}
	if units := keying(key, ExpressionLimit); units > 0 {
		budgetOf(vars).pay(units, id, "")
	}
}

// payingKey is a key of a map.
type payingKey struct{ interpreter.InterpretableV2 }

// Exec implements InterpretableV2.
func (k *payingKey) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	key := k.InterpretableV2.Exec(frame)
	payForKey(frame, key, k.ID())
	return key
}

// Eval implements Interpretable.
func (k *payingKey) Eval(vars interpreter.Activation) ref.Val {
	return k.Exec(interpreter.AsFrame(vars))
}

// payingCall is a call that is charged before it runs.
type payingCall struct {
	interpreter.InterpretableCall

	// args are those of the call, which makes a new list whenever it returns them.
	args      []interpreter.InterpretableV2
	charge    charge
	takes     memory
	operation func(*Budget, []ref.Val) ref.Val
}

// Exec implements InterpretableV2.
func (c *payingCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	budget := budgetOf(frame)
	room := budget.room()
	values := room.lend(len(c.args))
	result := c.run(frame, budget, values)
	room.release(values)
	return result
}

// run evaluates the arguments into values, charges the call and runs it.
func (c *payingCall) run(frame *interpreter.ExecutionFrame, budget *Budget, values []ref.Val) ref.Val {
	for i, arg := range c.args {
		if values[i] = arg.Exec(frame); types.IsUnknownOrError(values[i]) {
			return values[i]
		}
	}
	units := uint64(0)
	if c.charge.call > dynamicUnits {
		units = c.charge.call
	}
	if c.charge.work != nil {
		units += c.charge.work(values, budget.running())
	}
	budget.pay(units, c.ID(), c.Function())
	if c.takes != nil {
		budget.payMemory(c.takes(values), c.ID())
	}
	result := types.LabelErrNode(c.ID(), c.operation(budget, values))
	if length(result) > maxText {
		return types.LabelErrNode(c.ID(), tooLarge(c.Function()))
	}
	if c.takes != nil && !c.grows() {
		budget.payMemory(made(result), c.ID())
	}
	return result
}

// grows tells that the result is what was there already, with something added, which is charged before.
func (c *payingCall) grows() bool {
	return c.Function() == operators.Add || c.Function() == "cel.@mapInsert"
}

// Eval implements Interpretable.
func (c *payingCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// payingConstructor is a list or a map that is written out, and charged in bytes.
type payingConstructor struct {
	interpreter.InterpretableConstructor
}

// Exec implements InterpretableV2.
func (c *payingConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	each := uint64(perElement)
	if c.Type() == types.MapType {
		each = perEntry / 2
	}
	budgetOf(frame).payMemory(perValue+each*uint64(len(c.InitVals())), c.ID())
	return c.InterpretableConstructor.Exec(frame)
}

// Eval implements Interpretable.
func (c *payingConstructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// payingCalls decorates the calls and constructors whose cost depends on values.
func (e *Environment) payingCalls(ast *celast.AST, literals patterns) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch v := i.(type) {
		case interpreter.InterpretableConstructor:
			for _, part := range v.InitVals() {
				if !isConst(part) {
					return &payingConstructor{v}, nil
				}
			}
		case interpreter.InterpretableCall:
			return e.payingCall(ast, v, literals)
		}
		return i, nil
	}
}

func (e *Environment) payingCall(ast *celast.AST, call interpreter.InterpretableCall, literals patterns) (interpreter.InterpretableV2, error) {
	if len(call.Args()) == 0 {
		return call, nil
	}
	charge, takes := charges[call.Function()], makes[call.Function()]
	matching, err := literals.matching(call)
	if err != nil {
		return nil, err
	}
	if matching != nil { // a pattern that is hidden, so that CEL does not replace the call by one of its own
		args := append([]interpreter.InterpretableV2(nil), call.Args()...)
		args[1] = opaque{args[1]}
		hidden := interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, nil)
		return &payingCall{InterpretableCall: hidden, args: args, charge: charge, takes: takes, operation: matching}, nil
	}
	if charge.work == nil && charge.call <= dynamicUnits && takes == nil || !large(ast, call) {
		return call, nil
	}
	operation := e.operation(call.Function(), call.OverloadID(), len(call.Args()))
	if operation == nil {
		return nil, fmt.Errorf("the function %s has no implementation", call.Function())
	}
	return &payingCall{InterpretableCall: call, args: call.Args(), charge: charge, takes: takes, operation: func(_ *Budget, args []ref.Val) ref.Val { return operation(args...) }}, nil
}

// large reports whether the arguments of a call may be large, by their types. Comparing with a number never is, nor
// is a search for a text among the literals of a list.
func large(ast *celast.AST, call interpreter.InterpretableCall) bool {
	args := call.Args()
	sizable := func(i int) bool { return !isConst(args[i]) && textual(ast, args[i].ID()) }
	switch call.Function() {
	case operators.Equals, operators.NotEquals:
		return textual(ast, args[0].ID()) && textual(ast, args[1].ID()) && !scalarLiteral(args[0]) && !scalarLiteral(args[1])
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return sizable(0) && sizable(1)
	case operators.In:
		if isConst(args[0]) && ast.GetType(args[1].ID()).Kind() == types.MapKind {
			return false
		}
		return !simpleLiterals(args[1])
	case operators.Add:
		return textual(ast, args[0].ID()) && textual(ast, args[1].ID())
	}
	if charges[call.Function()].call > dynamicUnits {
		return true
	}
	for i := range args {
		if textual(ast, args[i].ID()) {
			return true
		}
	}
	return call.Function() == "lists.range"
}

// scalarLiteral reports whether an argument is a literal, and no list or map.
func scalarLiteral(arg interpreter.InterpretableV2) bool {
	literal, ok := arg.(interpreter.InterpretableConst)
	if !ok {
		return false
	}
	_, collection := literal.Value().(traits.Container)
	return !collection
}

// simpleLiterals reports whether an argument is a list of literals, which CEL makes a set.
func simpleLiterals(arg interpreter.InterpretableV2) bool {
	literal, ok := arg.(interpreter.InterpretableConst)
	if !ok {
		return false
	}
	list, ok := literal.Value().(traits.Lister)
	if !ok {
		return false
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		switch it.Next().(type) {
		case types.Bool, types.Int, types.Uint, types.Double, types.String:
		default:
			return false
		}
	}
	return true
}

// opaque hides that an argument is a literal, so that CEL does not replace the call by one of its own.
type opaque struct{ interpreter.InterpretableV2 }
