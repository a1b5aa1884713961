package plugins

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	policycel "github.com/virtward/virtward/cel"
)

// program is a compiled expression of virt-launcher.
type program struct {
	program cel.Program
	// unpreviewable is the first part of the domain that the expression names and that cannot be previewed.
	unpreviewable error
	ast           *celast.AST
}

// compiler compiles expressions with a limit of the cost of each evaluation.
type compiler uint64

// condition compiles a condition of a Plugin or of a domain hook.
func (c compiler) condition(text string) (*program, error) {
	return c.conditionIn(domainEnvironment(), text)
}

// hook compiles an expression of a domain hook.
func (c compiler) hook(text string) (*program, error) {
	p, output, err := c.compile(domainEnvironment(), text)
	if err != nil {
		return nil, err
	}
	if !output.IsEquivalentType(cel.ObjectType(domainType)) {
		return nil, fmt.Errorf("a domain hook makes a Domain, and this is of the type %s", output)
	}
	return p, nil
}

func (c compiler) compile(env *cel.Env, text string) (*program, *cel.Type, error) {
	if len(text) > maxExpression {
		return nil, nil, fmt.Errorf("longer than %d bytes", maxExpression)
	}
	ast, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, nil, errors.New(issueText(issues))
	}
	if exceeded := policycel.Exceeds(ast, len(text)); exceeded != "" {
		return nil, nil, errors.New(exceeded)
	}
	if ast, issues = env.Check(ast); issues.Err() != nil {
		return nil, nil, errors.New(issueText(issues))
	}
	compiled, err := env.Program(ast, cel.CostLimit(uint64(c)))
	if err != nil {
		return nil, nil, err
	}
	return &program{program: compiled, unpreviewable: unpreviewable(ast.NativeRep()), ast: ast.NativeRep()}, ast.OutputType(), nil
}

// nodeCondition compiles a condition as virt-handler does.
func (c compiler) nodeCondition(text string) (*program, error) {
	return c.conditionIn(nodeEnvironment(), text)
}

func (c compiler) conditionIn(env *cel.Env, text string) (*program, error) {
	p, output, err := c.compile(env, text)
	if err != nil {
		return nil, err
	}
	if output != cel.BoolType {
		return nil, fmt.Errorf("a condition is true or false, and this is of the type %s", output)
	}
	return p, nil
}

// issueText is the first error of the compiler, with its place.
func issueText(issues *cel.Issues) string {
	first := issues.Errors()[0]
	return fmt.Sprintf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
}

// evaluate returns the value of an expression.
func (p *program) evaluate(variables map[string]any) (ref.Val, error) {
	if p.unpreviewable != nil {
		return nil, p.unpreviewable
	}
	out, _, err := p.program.Eval(variables)
	return out, err
}

// condition returns the value of a condition.
func (p *program) condition(variables map[string]any) (bool, error) {
	out, err := p.evaluate(variables)
	if err != nil {
		return false, err
	}
	yes, is := out.(types.Bool)
	if !is {
		return false, fmt.Errorf("the condition is a %s, and not true or false", out.Type().TypeName())
	}
	return bool(yes), nil
}

// unpreviewable returns the first type or field of libvirtxml that an expression names and that cannot be previewed.
func unpreviewable(ast *celast.AST) error {
	var found error
	celast.PostOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if found != nil {
			return
		}
		switch e.Kind() {
		case celast.SelectKind:
			found = unpreviewableField(ast.GetType(e.AsSelect().Operand().ID()).TypeName(), e.AsSelect().FieldName())
		case celast.StructKind:
			name := ast.GetType(e.ID()).TypeName()
			for _, field := range e.AsStruct().Fields() {
				if found == nil {
					found = unpreviewableField(name, field.AsStructField().Name())
				}
			}
			if t := typeNamed(name); t != nil && t.unsupported != "" && found == nil {
				found = &UnpreviewableError{Name: name, Reason: t.unsupported}
			}
		}
	}))
	return found
}

func typeNamed(name string) *structType {
	t, _ := (&provider{types: schema()}).find(name)
	return t
}

func unpreviewableField(typeName, field string) error {
	t := typeNamed(typeName)
	if t == nil || t.byName[field] == nil {
		return nil
	}
	if reason := t.byName[field].notPreviewed(); reason != "" {
		return &UnpreviewableError{Name: typeName + "." + field, Reason: reason}
	}
	return nil
}
