package cel

import (
	"maps"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// ReadsUnguarded reports whether the program reads fields of a document that can be null, itself or through variables of
// the policy, and compares neither the document with null nor the operation with anything. It does not follow the
// branches of the expression.
func (p *Program) ReadsUnguarded(document string) bool { return p.fields[document] }

// Guards reports whether the program compares a document with null, or reads the operation of the request.
func (p *Program) Guards(document string) bool {
	return p.reads[varRequest+".operation"] || guards(p.ast.NativeRep())[document]
}

// unguarded returns the documents for ReadsUnguarded.
func (p *Program) unguarded(ast *celast.AST) map[string]bool {
	found := map[string]bool{}
	if p.reads[varRequest+".operation"] {
		return found
	}
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		of := operand(e)
		if of == nil || of.Kind() != celast.IdentKind {
			return
		}
		name := of.AsIdent()
		if name != varVariables {
			found[name] = true
			return
		}
		if e.Kind() != celast.SelectKind {
			return
		}
		if i, ok := p.scope.names[e.AsSelect().FieldName()]; ok && p.scope.variables[i] != nil {
			maps.Copy(found, p.scope.variables[i].fields)
		}
	}))
	maps.DeleteFunc(found, func(name string, _ bool) bool { return guards(ast)[name] })
	return found
}

// guards returns the names that an expression compares with null.
func guards(ast *celast.AST) map[string]bool {
	found := map[string]bool{}
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.Equals && e.AsCall().FunctionName() != operators.NotEquals {
			return
		}
		args := e.AsCall().Args()
		for i, other := range []celast.Expr{args[1], args[0]} {
			if args[i].Kind() == celast.IdentKind && other.Kind() == celast.LiteralKind && other.AsLiteral() == types.NullValue {
				found[args[i].AsIdent()] = true
			}
		}
	}))
	return found
}
