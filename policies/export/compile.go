package export

import (
	"errors"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/virtward/virtward/texts"
)

// oldest is the version of the language that every supported API server accepts. The oldest one is 1.32, which accepts
// only what 1.31 accepts, so that it can be rolled back.
var oldest = version.MajorMinor(1, 31)

// proof compiles the expressions of a native policy as an API server does.
type proof struct{ compiler *plugincel.CompositedCompiler }

func newProof() (*proof, error) {
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(oldest))
	if err != nil {
		return nil, err
	}
	return &proof{compiler}, nil
}

// accessor hands an expression to the compiler.
type accessor struct {
	name, text string
	result     *celgo.Type
}

func (a accessor) GetName() string            { return a.name }
func (a accessor) GetExpression() string      { return a.text }
func (a accessor) ReturnTypes() []*celgo.Type { return []*celgo.Type{a.result} }

// variable compiles a variable, which later expressions can read.
func (p *proof) variable(name, text string) error {
	return failure(p.compiler.CompileAndStoreVariable(accessor{name, text, celgo.AnyType}, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions))
}

// condition compiles an expression of type bool, and returns it in a form that has this type for the compiler.
func (p *proof) condition(text string) (string, error) {
	return p.typed(text, celgo.BoolType, " && true", true)
}

// message compiles an expression of type string. It cannot read authorizer.
func (p *proof) message(text string) (string, error) {
	return p.typed(text, celgo.StringType, " + ''", false)
}

func (p *proof) typed(text string, result *celgo.Type, suffix string, authorizer bool) (string, error) {
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: authorizer}
	checked := p.compiler.CompileCELExpression(accessor{"", text, celgo.AnyType}, options, environment.NewExpressions)
	if err := failure(checked); err != nil {
		return "", err
	}
	if kind := checked.OutputType.Kind(); kind == types.DynKind || kind == types.AnyKind {
		text = bracketed(text) + suffix
	}
	return text, failure(p.compiler.CompileCELExpression(accessor{"", text, result}, options, environment.NewExpressions))
}

func failure(result plugincel.CompilationResult) error {
	if result.Error == nil {
		return nil
	}
	if issues := (*apicel.CompilationError)(nil); errors.As(result.Error, &issues) && len(issues.Issues.Errors()) > 0 {
		return errors.New(texts.OneLine(issues.Issues.Errors()[0].Message))
	}
	return errors.New(texts.OneLine(result.Error.Detail))
}
