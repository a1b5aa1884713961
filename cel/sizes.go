package cel

import (
	"fmt"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// maxTypes is how many types the type of a part of an expression may be made of. list(map(string, int)) is made of 3: texts and
// numbers as keys do not count. The checker takes time in proportion to the square of that for each literal, and each macro of
// [1].map(a, {a: a}).map(a, {a: a}) doubles it.
const maxTypes = 32

// typeSizes bounds how many types the parts of an expression are made of, before it is checked.
type typeSizes struct {
	// loops are the variables of the loops around a part.
	loops map[string]int
	// variable is that of a variable of the policy.
	variable func(name string) int
	largest  int
}

// largestType returns how many types the largest type in an expression is made of at most.
func largestType(e celast.Expr, variable func(name string) int) int {
	s := &typeSizes{loops: map[string]int{}, variable: variable}
	s.of(e)
	return s.largest
}

// tooManyTypes says what to do about the type of an expression.
var tooManyTypes = fmt.Sprintf("lists and maps are too deep: the type of each part of an expression is made of at most %d types; use dyn() around inner ones", maxTypes)

func (s *typeSizes) of(e celast.Expr) int {
	size := min(max(s.made(e), 1), maxTypes+1) // beyond that, it does not matter
	s.largest = max(s.largest, size)
	return size
}

func (s *typeSizes) made(e celast.Expr) int {
	switch e.Kind() {
	case celast.IdentKind:
		return s.loops[e.AsIdent()]
	case celast.SelectKind:
		of := e.AsSelect().Operand()
		if of.Kind() == celast.IdentKind && of.AsIdent() == varVariables {
			return s.variable(e.AsSelect().FieldName())
		}
		if size := s.of(of); !e.AsSelect().IsTestOnly() {
			return size - 1
		}
	case celast.CallKind:
		return s.call(e.AsCall())
	case celast.ListKind:
		return 1 + s.all(e.AsList().Elements())
	case celast.MapKind:
		size := 0
		for _, entry := range e.AsMap().Entries() {
			size = max(size, s.entry(entry.AsMapEntry().Key(), entry.AsMapEntry().Value()))
		}
		return size
	case celast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			s.of(field.AsStructField().Value())
		}
	case celast.ComprehensionKind:
		return s.loop(e.AsComprehension())
	}
	return 1
}

// entry returns the size of a map with an entry. A key that is a text or a number does not count.
func (s *typeSizes) entry(key, value celast.Expr) int {
	size := 1 + s.of(value)
	if key := s.of(key); key > 1 {
		size += key
	}
	return size
}

// all returns the largest of some expressions.
func (s *typeSizes) all(expressions []celast.Expr) int {
	size := 0
	for _, e := range expressions {
		size = max(size, s.of(e))
	}
	return size
}

func (s *typeSizes) call(call celast.CallExpr) int {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]celast.Expr{call.Target()}, args...)
	}
	size := s.all(args)
	switch call.FunctionName() {
	case "dyn", operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Equals, operators.NotEquals, operators.In:
		return 1
	case "optional.of", "optional.ofNonZeroValue", "type":
		return 1 + size
	case operators.Index, "value":
		return s.of(args[0]) - 1
	case "cel.@mapInsert":
		const key, entry = 1, 3
		if len(args) == entry {
			return max(s.of(args[0]), s.entry(args[key], args[key+1]))
		}
	}
	return size
}

func (s *typeSizes) loop(loop celast.ComprehensionExpr) int {
	element := s.of(loop.IterRange()) - 1
	accumulated := s.of(loop.AccuInit())
	defer s.bind(loop.IterVar(), element)()
	if loop.HasIterVar2() {
		defer s.bind(loop.IterVar2(), element)()
	}
	release := s.bind(loop.AccuVar(), accumulated)
	s.of(loop.LoopCondition())
	accumulated = max(accumulated, s.of(loop.LoopStep()))
	release()
	defer s.bind(loop.AccuVar(), accumulated)()
	return s.of(loop.Result())
}

// bind makes a variable of a loop known, until what it returns is called.
func (s *typeSizes) bind(name string, size int) (release func()) {
	outer, known := s.loops[name]
	s.loops[name] = size
	return func() {
		if known {
			s.loops[name] = outer
		} else {
			delete(s.loops, name)
		}
	}
}

// sizeOfType returns how many types a type is made of.
func sizeOfType(t *types.Type) int {
	size := 1
	for i, parameter := range t.Parameters() {
		of := sizeOfType(parameter)
		if key := t.Kind() == types.MapKind && i == 0; key && of == 1 {
			continue
		}
		size += of
	}
	return size
}
