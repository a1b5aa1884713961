package cel

import (
	"unicode/utf8"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// The cost of CEL counts steps, and not what they leave in memory: a unit may pay for one byte or for a hundred. So the
// functions that make texts, lists and maps, and the expressions that write them out, are charged in bytes as well,
// before they run. What an expression makes is free again when it is evaluated; what a variable makes stays charged until
// the policy is decided.

// MemoryLimit is what the expressions of one policy may take together, in bytes.
const MemoryLimit = 4 << 20

// What values take, in bytes.
const (
	perElement = 64  // of a list
	perEntry   = 160 // of a map
	perValue   = 96  // of its own
	perText    = 32  // of a text, besides its bytes
	perRune    = 4   // of a text that is taken apart
)

// memory is what a call takes besides its result, from its arguments.
type memory func(args []ref.Val) uint64

// makes are the functions that return something large, or that allocate much to compute their result. A test requires
// that every function of the environment is either in this table or in that of small functions.
var makes = map[string]memory{
	operators.Add:           added,
	"split":                 func(args []ref.Val) uint64 { return parts(args) * perElement },
	"charAt":                runes,
	"indexOf":               runes,
	"lastIndexOf":           runes,
	"substring":             runes,
	"reverse":               runes,
	"lowerAscii":            lengths,
	"upperAscii":            lengths,
	"strings.quote":         func(args []ref.Val) uint64 { return 4 * lengths(args) },
	"string":                lengths,
	"bytes":                 lengths,
	"join":                  func(args []ref.Val) uint64 { return 2 * charsPerUnit * joining(args, ExpressionLimit) },
	"replace":               func(args []ref.Val) uint64 { return 2 * charsPerUnit * replacing(args, ExpressionLimit) },
	"format":                func(args []ref.Val) uint64 { return 2 * charsPerUnit * formatting(args, ExpressionLimit) },
	"find":                  nothing,
	"findAll":               nothing,
	"sort":                  elementsOf,
	"@sortByAssociatedKeys": elementsOf,
	"distinct":              elementsOf,
	"flatten":               func(args []ref.Val) uint64 { return weigh(args[0], ExpressionLimit) * perElement },
	"slice":                 elementsOf,
	"lists.range":           func(args []ref.Val) uint64 { n, _ := args[0].(types.Int); return uint64(max(n, 0)) * perElement },
	"cel.@mapInsert":        func([]ref.Val) uint64 { return perEntry },
	"url":                   func(args []ref.Val) uint64 { return 4 * lengths(args) },
	"isURL":                 func(args []ref.Val) uint64 { return 4 * lengths(args) },
	"getEscapedPath":        nothing,
	"getQuery":              func([]ref.Val) uint64 { return 4 << 10 },
	"semver":                lengths,
	"isIP":                  quoting,
	"isCIDR":                quoting,
	"ip":                    quoting,
	"cidr":                  quoting,
	"ip.isCanonical":        quoting,
	"containsIP":            quoting,
	"containsCIDR":          quoting,
	"int":                   quoting,
	"uint":                  quoting,
	"double":                quoting,
	"bool":                  quoting,
	"duration":              quoting,
	"timestamp":             quoting,
	"isSemver":              lengths,
	"validate":              lengths,
	"quantity":              lengths,
	"isQuantity":            lengths,
	functionImage:           address,
	functionURL:             address,
	functionIsImage:         address,
	functionIsURL:           address,
}

// address is the normal form of an image or a URL, with its parts: parsing one makes all of them.
func address(args []ref.Val) uint64 { return 2<<10 + 4*lengths(args) }

// small are the other functions: they return a number, a truth or a value that is there already, and take no more memory
// than a few values.
var small = map[string]bool{
	"!_": true, "-_": true, "@in": true, "@not_strictly_false": true, "_!=_": true, "_%_": true, "_&&_": true, "_*_": true, "_-_": true, "_/_": true,
	"_<=_": true, "_<_": true, "_==_": true, "_>=_": true, "_>_": true, "_?._": true, "_?_:_": true, "_[?_]": true, "_[_]": true,
	"__not_strictly_false__": true, "_in_": true, "_||_": true, "add": true, "allowed": true, "asApproximateFloat": true, "asInteger": true,
	"check": true, "compareTo": true, "contains": true,
	"dyn": true, "endsWith": true, "error": true, "errored": true, "family": true, "fieldSelector": true, "first": true,
	"format.byte": true, "format.date": true, "format.datetime": true, "format.dns1035Label": true, "format.dns1035LabelPrefix": true,
	"format.dns1123Label": true, "format.dns1123LabelPrefix": true, "format.dns1123Subdomain": true, "format.dns1123SubdomainPrefix": true,
	"format.labelValue": true, "format.named": true, "format.qualifiedName": true, "format.uri": true, "format.uuid": true,
	"getDate": true, "getDayOfMonth": true, "getDayOfWeek": true, "getDayOfYear": true, "getFullYear": true, "getHost": true, "getHostname": true,
	"getHours": true, "getMilliseconds": true, "getMinutes": true, "getMonth": true, "getPort": true, "getScheme": true, "getSeconds": true,
	"group": true, "hasValue": true, "in": true, "includes": true,
	"isGlobalUnicast": true, "isGreaterThan": true, "isInteger": true, "isLessThan": true, "isLinkLocalMulticast": true,
	"isLinkLocalUnicast": true, "isLoopback": true, "isSorted": true, "isUnspecified": true, "labelSelector": true, "last": true, "major": true,
	"masked": true, "matches": true, "max": true, "min": true, "minor": true, "name": true, "namespace": true, "optional.none": true,
	"optional.of": true, "optional.ofNonZeroValue": true, "optional.unwrap": true, "or": true, "orValue": true, "patch": true, "path": true,
	"prefixLength": true, "reason": true, "resource": true, "serviceAccount": true, "sets.contains": true, "sets.equivalent": true,
	"sets.intersects": true, "sign": true, "size": true, "startsWith": true, "sub": true, "subresource": true, "sum": true,
	"trim": true, "type": true, "unwrapOpt": true, "value": true,
}

// added is a text as long as both, or a list that a macro fills. A sum of other lists refers to them.
func added(args []ref.Val) uint64 {
	if _, filling := args[0].(traits.MutableLister); filling && len(args) > 1 {
		return items(args[1], ExpressionLimit) * perElement
	}
	return lengths(args) + perText
}

func nothing([]ref.Val) uint64 { return 0 }

// lengths are those of all texts among the arguments.
func lengths(args []ref.Val) uint64 {
	total := uint64(0)
	for _, arg := range args {
		total += length(arg)
	}
	return total
}

// quoting is an error that quotes the text.
func quoting(args []ref.Val) uint64 { return 8 * lengths(args) }

// runes are texts that are taken apart into characters; a list is copied.
func runes(args []ref.Val) uint64 { return perRune*lengths(args) + elementsOf(args[:1]) }

func elementsOf(args []ref.Val) uint64 {
	if list, ok := args[0].(traits.Lister); ok {
		return items(list, ExpressionLimit) * perElement
	}
	return 0
}

// parts is how many parts a text has between separators.
func parts(args []ref.Val) uint64 {
	text, _ := args[0].(types.String)
	if len(args) < 2 {
		return 0
	}
	separator, _ := args[1].(types.String)
	if separator == "" {
		return uint64(utf8.RuneCountInString(string(text))) //nolint:gosec // a count is not negative
	}
	return uint64(len(text)/len(separator)) + 1
}

// made is what a result takes.
func made(result ref.Val) uint64 {
	switch v := result.(type) {
	case types.String, types.Bytes:
		return length(v) + perText
	case traits.Lister:
		return items(v, ExpressionLimit)*perElement + perValue
	case traits.Mapper:
		return items(v, ExpressionLimit)*perEntry + perValue
	}
	return perValue
}

// budgetName is the name by which calls find the budget of the evaluation. No expression can say it.
const budgetName = "@budget"

func budgetOf(frame *interpreter.ExecutionFrame) *Budget {
	found, _ := frame.ResolveName(budgetName)
	b, _ := found.(*Budget)
	return b
}

// errMemory is the result of what takes too much memory.
func errMemory(id int64) ref.Val {
	return types.LabelErrNode(id, types.WrapErr(errTooMuch))
}

// payingCall is a call that is charged in bytes.
type payingCall struct {
	interpreter.InterpretableCall

	takes     memory
	operation functions.FunctionOp
}

// Exec implements InterpretableV2.
func (c *payingCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := c.Args()
	values := make([]ref.Val, len(args))
	for i, arg := range args {
		if values[i] = arg.Exec(frame); types.IsUnknownOrError(values[i]) {
			return values[i]
		}
	}
	budget := budgetOf(frame)
	if !budget.take(c.takes(values)) {
		return errMemory(c.ID())
	}
	result := types.LabelErrNode(c.ID(), c.operation(values...))
	if c.grows() || budget.take(made(result)) {
		return result
	}
	return errMemory(c.ID())
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
	if !budgetOf(frame).take(perValue + each*uint64(len(c.InitVals()))) {
		return errMemory(c.ID())
	}
	return c.InterpretableConstructor.Exec(frame)
}

// Eval implements Interpretable.
func (c *payingConstructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// paying is a call or a constructor that is charged in bytes, or what it was. operation is what the call does.
func (e *Environment) paying(ast *celast.AST, i interpreter.InterpretableV2, operation functions.FunctionOp) interpreter.InterpretableV2 {
	switch v := i.(type) {
	case interpreter.InterpretableConstructor:
		for _, part := range v.InitVals() {
			if _, constant := part.(interpreter.InterpretableConst); !constant {
				return &payingConstructor{v}
			}
		}
	case interpreter.InterpretableCall:
		takes, ok := makes[v.Function()]
		if !ok || len(v.Args()) == 0 || !large(ast, v) {
			return i
		}
		if operation == nil {
			if operation = e.operation(v); operation == nil {
				return i
			}
		}
		return &payingCall{InterpretableCall: v, takes: takes, operation: operation}
	}
	return i
}
