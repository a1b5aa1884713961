package cel

import (
	"fmt"
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/virtward/virtward/diagnostics"
)

// lost are the reads of an expression that the library answers wrongly: an optional value that a variable holds
// counts as an object without fields, so that whatever is read behind it is absent. variables.firmware.?bootloader
// is such a read, if the variable is vm.spec.domain.?firmware.
func lost(ast *celgo.Ast) []diagnostics.Problem {
	checked := ast.NativeRep()
	optional := func(e celast.Expr) bool { return checked.GetType(e.ID()).TypeName() == types.OptionalType.TypeName() }
	var issues []diagnostics.Problem
	celast.PreOrderVisit(checked.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		stored := operand(e)
		if stored == nil || !optional(stored) || len(issues) == MaxIssues {
			return
		}
		// Of a chain that is optional from some link on, the library keeps track.
		if holder := operand(stored); holder == nil || isOptionalRead(stored) || optional(holder) {
			return
		}
		issue := diagnostics.Problem{Message: "the value is optional, and CEL finds no field of it: use value() if hasValue(), or optMap"}
		if text, err := parser.Unparse(stored, checked.SourceInfo()); err == nil && !strings.Contains(text, "\n") {
			issue.Message = fmt.Sprintf("%s is optional, and CEL finds no field of it: use %s.value() if %s.hasValue(), or use %s.optMap", text, text, text, text)
		}
		if location := checked.SourceInfo().GetStartLocation(e.ID()); location.Line() > 0 {
			issue.Line, issue.Column = location.Line(), location.Column()+1
		}
		issues = append(issues, issue)
	}))
	return issues
}

// operand is what a field or an element is read of; nil if an expression does something else.
func operand(e celast.Expr) celast.Expr {
	switch e.Kind() {
	case celast.SelectKind:
		return e.AsSelect().Operand()
	case celast.CallKind:
		switch call := e.AsCall(); call.FunctionName() {
		case operators.OptSelect, operators.OptIndex, operators.Index:
			return call.Args()[0]
		}
	}
	return nil
}

func isOptionalRead(e celast.Expr) bool {
	if e.Kind() != celast.CallKind {
		return false
	}
	name := e.AsCall().FunctionName()
	return name == operators.OptSelect || name == operators.OptIndex
}
