package cel

import (
	"fmt"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/virtward/virtward/decodelimits"
)

// CEL charges a call when it has returned, and charges some far less than they take: comparing two lists costs as much
// as their sizes, whatever is in them, and a list that was put into a list with itself forty times has 2^40
// elements. So the work of such a call is measured before it begins, and charged; one that would exceed the limit
// of an expression never begins.

// work is what a call takes, in units of cost, from its arguments; it stops counting beyond most.
type work func(args []ref.Val, most uint64) uint64

// charsPerUnit is how much text one unit of cost pays for, as in CEL.
const charsPerUnit = 10

// maxText is how long a text may be that an expression makes, in bytes. What it reads may be longer.
const maxText = 128 << 10

// works are the functions whose work is not bounded by what they are charged for.
var works = map[string]work{
	operators.Equals:        comparison,
	operators.NotEquals:     comparison,
	operators.In:            search,
	"includes":              search,
	"indexOf":               search,
	"lastIndexOf":           search,
	"min":                   first(weigh),
	"max":                   first(weigh),
	"sum":                   first(weigh),
	"isSorted":              first(weigh),
	"flatten":               first(weigh),
	"slice":                 first(items),
	"reverse":               first(items),
	"sort":                  first(sorting),
	"@sortByAssociatedKeys": first(sorting),
	"distinct":              func(args []ref.Val, most uint64) uint64 { return product(items(args[0], most), weigh(args[0], most)) },
	"sets.contains":         everyPair,
	"sets.equivalent":       everyPair,
	"sets.intersects":       everyPair,
	"join":                  joining,
	"replace":               replacing,
	"format":                formatting,
	"validate":              validating,
	"quantity":              first(quantifying),
	"isQuantity":            first(quantifying),
	operators.Add:           adding,
	"optional.unwrap":       first(items),
	"unwrapOpt":             first(items),
	"lists.range":           func(args []ref.Val, _ uint64) uint64 { n, _ := args[0].(types.Int); return uint64(max(n, 0)) },
}

// linear are the functions that read a text for which CEL charges nothing; to measure them after they return is
// enough.
var linear = map[string]work{
	"size": text, "charAt": text, "isURL": text, "isIP": text, "isCIDR": text, "string": text, "bytes": text,
	"bool": text, "int": text, "uint": text, "double": text, "duration": text, "timestamp": text,
}

func text(args []ref.Val, _ uint64) uint64 { return length(args[0])/charsPerUnit + 1 }

func first(of func(ref.Val, uint64) uint64) work {
	return func(args []ref.Val, most uint64) uint64 { return of(args[0], most) }
}

func comparison(args []ref.Val, most uint64) uint64 {
	return weigh(args[1], weigh(args[0], most))
}

// search compares a value with every element.
func search(args []ref.Val, most uint64) uint64 {
	for i, other := range []int{1, 0} {
		if list, ok := args[i].(traits.Lister); ok {
			switch args[other].(type) {
			case types.Bool, types.Int, types.Uint, types.Double, types.Null:
				return items(list, most)
			}
			return weigh(list, most)
		}
	}
	return length(args[0])/charsPerUnit + 1
}

func everyPair(args []ref.Val, most uint64) uint64 {
	return product(weigh(args[0], most), weigh(args[1], most))
}

func sorting(v ref.Val, most uint64) uint64 {
	const depth = 8 // the comparisons of one element, more or less
	return product(weigh(v, most), depth)
}

func joining(args []ref.Val, most uint64) uint64 {
	total := weigh(args[0], most)
	if len(args) > 1 {
		total += product(items(args[0], most), length(args[1])) / charsPerUnit
	}
	return total
}

// replacing is the size of the result.
func replacing(args []ref.Val, _ uint64) uint64 {
	if len(args) < 3 {
		return 1
	}
	text, _ := args[0].(types.String)
	old, _ := args[1].(types.String)
	times := uint64(strings.Count(string(text), string(old))) //nolint:gosec // a count is not negative
	if len(args) > 3 {
		if n, ok := args[3].(types.Int); ok && n >= 0 {
			times = min(times, uint64(n))
		}
	}
	return (length(text) + product(times, length(args[2]))) / charsPerUnit
}

// formatting is the size of the result: a precision asks for as many digits.
func formatting(args []ref.Val, most uint64) uint64 {
	total := uint64(0)
	for _, arg := range args {
		total += weigh(arg, most)
	}
	template, _ := args[0].(types.String)
	digits := uint64(0)
	counting := false
	for _, c := range string(template) {
		switch {
		case c == '.':
			counting, digits = true, 0
		case counting && c >= '0' && c <= '9':
			digits = min(digits*10+uint64(c-'0'), most*charsPerUnit)
			continue
		case counting:
			counting = false
			total += digits / charsPerUnit
		}
	}
	return total
}

// quantifying is reading a number, which grows with its exponent.
func quantifying(v ref.Val, most uint64) uint64 {
	if text, ok := v.(types.String); ok && !decodelimits.Parsable(string(text)) {
		return most + 1
	}
	return 1
}

func validating(args []ref.Val, _ uint64) uint64 {
	if len(args) < 2 {
		return 1
	}
	pattern := uint64(0)
	if format, ok := args[0].(*apicel.Format); ok {
		pattern = uint64(max(format.MaxRegexSize, 0))
	}
	return matchWork(length(args[1]), pattern)
}

// adding makes text as long as both. Lists are not copied, but who walks the sum walks both; the list that a macro
// fills is the exception, it grows in place.
func adding(args []ref.Val, most uint64) uint64 {
	if len(args) < 2 {
		return 1
	}
	if list, ok := args[0].(traits.Lister); ok {
		if _, filling := list.(traits.MutableLister); filling {
			return 1
		}
		return (items(list, most) + items(args[1], most)) / charsPerUnit
	}
	return (length(args[0]) + length(args[1])) / charsPerUnit
}

// length is that of a text in bytes; 0 of anything else.
func length(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

func items(v ref.Val, _ uint64) uint64 {
	if sizer, ok := v.(traits.Sizer); ok {
		if size, ok := sizer.Size().(types.Int); ok {
			return uint64(max(size, 0))
		}
	}
	return 1
}

// product does not overflow: a factor beyond 2^32 exceeds every limit.
func product(a, b uint64) uint64 {
	const enough = 1 << 32
	return min(a, enough-1) * min(b, enough-1)
}

// weigh counts the values that a value consists of, a text by its length. It stops beyond most.
func weigh(v ref.Val, most uint64) uint64 {
	total := uint64(1)
	switch v := v.(type) {
	case types.String, types.Bytes:
		total += length(v) / charsPerUnit
	case *object:
		if v.nodes == 0 {
			total = weighAll(v, most, true)
			if total <= most {
				v.nodes = total
			}
			return total
		}
		return v.nodes
	case *types.Optional:
		if v.HasValue() {
			total += weigh(v.GetValue(), most)
		}
	case traits.Mapper:
		return weighAll(v, most, true)
	case traits.Lister:
		return weighAll(v, most, false)
	}
	return total
}

// weighAll adds up elements, or keys and their values.
func weighAll(v interface {
	traits.Iterable
	traits.Indexer
}, most uint64, keyed bool,
) uint64 {
	total := uint64(1)
	for it := v.Iterator(); total <= most && it.HasNext() == types.True; {
		next := it.Next()
		total += weigh(next, most-total)
		if keyed && total <= most {
			total += weigh(v.Get(next), most-total)
		}
	}
	return total
}

// costs charges for calls: what Kubernetes does, or their work if that is more.
type costs struct {
	library.CostEstimator
	literals patterns
}

// CallCost is the cost of a call that was made.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "matches", "find", "findAll":
		took := c.literals.charge(args, result)
		return &took
	}
	if isAddressFunction(function) && len(args) > 0 {
		took := addressCost(length(args[0]))
		return &took
	}
	of, ok := works[function]
	if !ok {
		of, ok = linear[function]
	}
	if !ok || len(args) == 0 || scalars(args) {
		return c.CostEstimator.CallCost(function, overload, args, result)
	}
	took := min(of(args, ExpressionLimit), ExpressionLimit+1)
	if took > ExpressionLimit { // nothing was done, and Kubernetes' estimate would walk it all
		return &took
	}
	charged := c.CostEstimator.CallCost(function, overload, args, result)
	const little = 10 // less than this, CEL's own charge will do
	if took > little && (charged == nil || took > *charged) {
		return &took
	}
	return charged
}

func scalars(args []ref.Val) bool {
	for _, arg := range args {
		switch v := arg.(type) {
		case types.Bool, types.Int, types.Uint, types.Double, types.Null:
		case types.String:
			if len(v) > charsPerUnit*charsPerUnit {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// bindings are the functions of an environment by operator and overload.
func bindings(env *celgo.Env) (map[string]*functions.Overload, error) {
	all := map[string]*functions.Overload{}
	for _, declared := range env.Functions() {
		overloads, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		for _, overload := range overloads {
			all[overload.Operator] = overload
		}
	}
	return all, nil
}

// guard measures the work of calls before they begin, where their arguments can be large.
func (e *Environment) guard(ast *celast.AST, literals patterns) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return e.paying(ast, i, nil), nil
		}
		matching, err := literals.matching(call)
		if err != nil {
			return nil, err
		}
		if matching != nil {
			args := slices.Clone(call.Args())
			args[1] = opaque{args[1]}
			call = interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, matching)
			return e.paying(ast, call, matching), nil
		}
		of, ok := works[call.Function()]
		if !ok || len(call.Args()) == 0 || !large(ast, call) {
			return e.paying(ast, i, nil), nil
		}
		begin := e.operation(call)
		if begin == nil {
			return i, nil
		}
		bounded := func(args ...ref.Val) ref.Val {
			if of(args, ExpressionLimit) > ExpressionLimit {
				return tooLarge(call.Function())
			}
			result := begin(args...)
			if length(result) > maxText {
				return tooLarge(call.Function())
			}
			return result
		}
		return e.paying(ast, interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), bounded), bounded), nil
	}
}

func tooLarge(function string) ref.Val {
	return types.WrapErr(fmt.Errorf("%w: the arguments of %s are too large", ErrExpensive, strings.Trim(function, "_@")))
}

// operation is what a call does.
func (e *Environment) operation(call interpreter.InterpretableCall) functions.FunctionOp {
	switch call.Function() {
	case operators.Equals:
		return func(args ...ref.Val) ref.Val { return equal(args[0], args[1]) }
	case operators.NotEquals:
		return func(args ...ref.Val) ref.Val { return types.Bool(equal(args[0], args[1]) != types.True) }
	}
	for _, operator := range []string{call.OverloadID(), call.Function()} {
		binding := e.bindings[operator]
		switch {
		case binding == nil:
		case binding.Unary != nil && len(call.Args()) == 1:
			return func(args ...ref.Val) ref.Val { return binding.Unary(args[0]) }
		case binding.Binary != nil && len(call.Args()) == 2:
			return func(args ...ref.Val) ref.Val { return binding.Binary(args[0], args[1]) }
		case binding.Function != nil:
			return binding.Function
		}
	}
	return nil
}

// equal compares as CEL does; a map of CEL's own does not know how to compare itself with an object.
func equal(a, b ref.Val) ref.Val {
	if object, ok := b.(*object); ok {
		return object.Equal(a)
	}
	return types.Equal(a, b)
}

// large reports whether the arguments of a call may be large, by their types. Comparing with a number never is, nor
// is a search for a text among the literals of a list.
func large(ast *celast.AST, call interpreter.InterpretableCall) bool {
	sizable := func(i int) bool {
		switch ast.GetType(call.Args()[i].ID()).Kind() {
		case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.NullTypeKind, types.TypeKind:
			return false
		}
		return true
	}
	switch call.Function() {
	case operators.Equals, operators.NotEquals:
		text := func(i int) bool { return ast.GetType(call.Args()[i].ID()).Kind() == types.StringKind }
		return sizable(0) && sizable(1) && !text(0) && !text(1)
	case operators.In:
		if _, literal := call.Args()[1].(interpreter.InterpretableConst); literal {
			return false
		}
		return ast.GetType(call.Args()[1].ID()).Kind() != types.MapKind
	case operators.Add:
		return sizable(0) && sizable(1)
	}
	return true
}

// opaque hides that an argument is a literal, so that CEL does not replace the call by one of its own.
type opaque struct{ interpreter.InterpretableV2 }
