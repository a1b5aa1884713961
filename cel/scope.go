package cel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apicel "k8s.io/apiserver/pkg/cel"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// Limits of what a policy may say; the API has them too, and this package is also used without it.
const (
	// MaxExpression is the length of an expression in bytes.
	MaxExpression = 16 << 10
	// MaxOptionalMacros is how many calls of optMap and optFlatMap an expression may have: each repeats what it is called on, so
	// that a chain of them doubles with each.
	MaxOptionalMacros = 5
	// MaxIssues is how many issues are reported of one expression.
	MaxIssues = 10
)

// Expression is a variable of a policy: variables.NAME.
type Expression struct {
	Name       string
	Expression string
}

// ScopeOptions are what the expressions of one policy have in common.
type ScopeOptions struct {
	// Kinds are those that the policy matches. With one, object and oldObject have its type; with several, or
	// none, they have none, and each expression is checked against every kind besides.
	Kinds []string
	// Params is the schema of the policy's parameters; nil leaves params without a type.
	Params *apiextensionsv1.JSONSchemaProps
	// Values of the parameters, if they are the same for all Documents: then those of the Documents are not read.
	Values map[string]any
	// Variables are evaluated when they are first read; each may read those before it.
	Variables []Expression
}

// Result is what an expression must result in.
type Result int

const (
	// Any is a value of any type.
	Any Result = iota
	// Bool is true or false.
	Bool
	// String is text.
	String
)

func (r Result) String() string { return [...]string{"any", "bool", "string"}[r] }

// Scope compiles the expressions of policies. It is safe for concurrent use.
type Scope struct {
	environment *Environment
	// options are those that it was made with, without values, and key is their digest.
	options   ScopeOptions
	key       digest
	values    any // of the parameters, as the schema wants them; nil if each Documents has its own
	variables []*Program
	names     map[string]int
	// programs are those that policies have now.
	programs *shared[programKey, Program]
}

// programKey identifies a program of a scope.
type programKey struct {
	expression string
	want       Result
}

// views are a scope as it is for each type of object. They take most of its memory, and only compiling needs them.
type views struct {
	main  *view
	kinds []*view // for advice, when there are several
}

// view is a scope as it is for one type of object.
type view struct {
	kind     string
	mutex    sync.Mutex // the provider notes what an expression missed
	env      *celgo.Env
	provider *provider
	declared map[string]*apicel.DeclType // of variables, for estimates
	own      *apicel.DeclType            // the type of variables, which grows while a scope is made
}

// Scope makes a scope. Without errors among the issues it is complete; with errors it is nil. Policies with equal options share what
// is compiled in it.
func (e *Environment) Scope(o ScopeOptions) (*Scope, []diagnostics.Problem) {
	for i, kind := range o.Kinds {
		if _, ok := e.kinds[kind]; !ok {
			return nil, []diagnostics.Problem{{Field: fmt.Sprintf("kinds[%d]", i), Message: fmt.Sprintf("unknown kind %q: the known ones are %s", kind, known(Kinds()))}}
		}
	}
	values := o.Values
	o.Kinds, o.Values = slices.Compact(slices.Sorted(slices.Values(o.Kinds))), nil
	key, err := digestOf(&o)
	if err != nil {
		return nil, []diagnostics.Problem{{Field: "params", Message: err.Error()}}
	}
	s, issues := e.scopes.get(key, func() (*Scope, []diagnostics.Problem) { return e.newScope(o, key) })
	if s == nil || values == nil {
		return s, issues
	}
	bound := *s
	bound.values = typed(values, o.Params)
	return &bound, issues
}

func (e *Environment) newScope(o ScopeOptions, key digest) (*Scope, []diagnostics.Problem) {
	made, issues := e.viewsOf(o)
	if len(issues) > 0 {
		return nil, issues
	}
	s := &Scope{environment: e, options: o, key: key, names: map[string]int{}, programs: newShared[programKey, Program]()}
	s, issues = s.compose(made)
	if s != nil {
		e.views.Add(key, made)
	}
	return s, issues
}

// viewsOf returns the views of a scope, without its variables.
func (e *Environment) viewsOf(o ScopeOptions) (*views, []diagnostics.Problem) {
	params, issues := declareParams(o.Params)
	if len(issues) > 0 {
		return nil, issues
	}
	object := ""
	if len(o.Kinds) == 1 {
		object = o.Kinds[0]
	}
	made := &views{}
	var err error
	if made.main, err = e.view(object, params); err != nil {
		return nil, []diagnostics.Problem{{Message: err.Error()}}
	}
	if len(o.Kinds) > 1 {
		for _, kind := range o.Kinds {
			if e.kinds[kind] == nil {
				continue
			}
			typed, err := e.view(kind, params)
			if err != nil {
				return nil, []diagnostics.Problem{{Message: err.Error()}}
			}
			made.kinds = append(made.kinds, typed)
		}
	}
	return made, nil
}

// maxViews is how many scopes have their views: those that were used last. The others make them again.
const maxViews = 8

// views returns the views of the scope.
func (s *Scope) views() (*views, []diagnostics.Problem) {
	if kept, ok := s.environment.views.Get(s.key); ok {
		return kept.(*views), nil
	}
	made, issues := s.environment.viewsOf(s.options)
	if len(issues) > 0 {
		return nil, issues
	}
	for _, variable := range s.variables {
		made.declare(variable)
	}
	s.environment.views.Add(s.key, made)
	return made, nil
}

func declareParams(schema *apiextensionsv1.JSONSchemaProps) (*apicel.DeclType, []diagnostics.Problem) {
	if schema == nil {
		return nil, nil
	}
	if schema.Ref != nil {
		return nil, []diagnostics.Problem{{Field: "params", Message: "a schema with $ref is not supported: write it in place"}}
	}
	declared, err := (&declarer{open: true}).declare("Params", schema)
	if err != nil {
		return nil, []diagnostics.Problem{{Field: "params", Message: err.Error()}}
	}
	return declared, nil
}

// view is the environment in which object has the type of a kind, or none if the kind is empty or untyped.
func (e *Environment) view(kind string, params *apicel.DeclType) (*view, error) {
	v := &view{kind: kind, own: objectType("Variables"), declared: map[string]*apicel.DeclType{}}
	object := apicel.DynType
	if declared := e.kinds[kind]; declared != nil {
		object = declared
	}
	if params == nil {
		params = apicel.DynType
	}
	v.declared[varObject], v.declared[varOldObject], v.declared[varParams] = object, object, params
	v.provider = &provider{
		Provider: e.base.CELTypeProvider(), shared: e.types,
		own: registered(map[string]*apicel.DeclType{}, params, v.own),
	}
	env, err := e.base.Extend(
		celgo.CustomTypeProvider(v.provider),
		celgo.Variable(varObject, object.CelType()),
		celgo.Variable(varOldObject, object.CelType()),
		celgo.Variable(varParams, params.CelType()),
		celgo.Variable(varVariables, v.own.CelType()),
	)
	if err != nil {
		return nil, fmt.Errorf("making the CEL environment of a policy: %w", err)
	}
	v.env = env
	return v, nil
}

// compose compiles the variables, each in sight of those before it.
func (s *Scope) compose(made *views) (*Scope, []diagnostics.Problem) {
	var all []diagnostics.Problem
	failed := false
	for i, variable := range s.options.Variables {
		at := fmt.Sprintf("variables[%d]", i)
		switch _, taken := s.names[variable.Name]; {
		case !identifier.MatchString(variable.Name):
			all, failed = append(all, diagnostics.Problem{Field: at + ".name", Message: fmt.Sprintf("%q is not a name that an expression can use: letters, digits and _, not beginning with a digit", variable.Name)}), true
			continue
		case taken:
			all, failed = append(all, diagnostics.Problem{Field: at + ".name", Message: fmt.Sprintf("there is a variable %q already", variable.Name)}), true
			continue
		}
		program, issues := s.compile(made, variable.Expression, Any)
		for _, issue := range issues {
			issue.Field = at + ".expression"
			all = append(all, issue)
		}
		s.names[variable.Name] = len(s.variables)
		s.variables = append(s.variables, program)
		if program == nil {
			failed = true
			made.main.declare(variable.Name, celgo.DynType) // so that those which read it say only what is their own
			for _, v := range made.kinds {
				v.declare(variable.Name, celgo.DynType)
			}
			continue
		}
		program.name = variable.Name
		made.declare(program)
	}
	if failed {
		return nil, all
	}
	return s, all
}

// declare declares a variable with its type in each view.
func (v *views) declare(variable *Program) {
	v.main.declare(variable.name, variable.ast.OutputType())
	for _, of := range v.kinds {
		output := celgo.DynType
		if ast, issues := of.check(variable.expression); len(issues) == 0 {
			output = ast.OutputType()
		}
		of.declare(variable.name, output)
	}
}

func (v *view) declare(name string, t *celgo.Type) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.own.Fields[name] = field(name, apicel.NewSimpleTypeWithMinSize(t.String(), t, nil, 1))
}

// check parses and checks an expression. Without issues there is an AST.
func (v *view) check(expression string) (*celgo.Ast, []diagnostics.Problem) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.provider.missed = map[string]*apicel.DeclType{}
	ast, found := v.env.Parse(expression)
	if found.Err() == nil {
		if exceeded := exceeds(ast, len(expression), v.sizeOf); exceeded != "" {
			return nil, []diagnostics.Problem{{Line: 1, Column: 1, Message: exceeded}}
		}
		if ast, found = v.env.Check(ast); found.Err() == nil {
			return ast, nil
		}
	}
	var issues []diagnostics.Problem
	for _, err := range found.Errors() {
		if len(issues) == MaxIssues {
			break
		}
		issues = append(issues, v.issue(err))
	}
	v.explainPatterns(expression, issues)
	return nil, issues
}

// Exceeds says which bound of what takes long to check, or much memory, a parsed expression exceeds; nothing if it can be checked.
// length is that of its text.
func Exceeds(ast *celgo.Ast, length int) string {
	return exceeds(ast, length, func(string) int { return 1 })
}

func exceeds(ast *celgo.Ast, length int, variable func(name string) int) string {
	if foldedIn(ast) > maxFolded {
		return "the ranges of regular expressions for any case have too many characters: write shorter ranges"
	}
	if bytes := patternBytes(ast); bytes > patternLimit(length) {
		return fmt.Sprintf("the regular expressions take %d bytes of memory when they are compiled: at most %d; repeat fewer characters", bytes, patternLimit(length))
	}
	if largestType(ast.NativeRep().Expr(), variable) > maxTypes {
		return tooManyTypes
	}
	return ""
}

// sizeOf returns how many types the type of a variable of the policy is made of.
func (v *view) sizeOf(variable string) int {
	if f, ok := v.own.Fields[variable]; ok {
		return sizeOfType(f.Type.CelType())
	}
	return 1
}

// foldedIn is Folded for all texts of an expression, because checking compiles its patterns.
func foldedIn(ast *celgo.Ast) (total int) {
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if text, ok := literalText(e); ok {
			total = min(total+texts.Folded(text), 1<<30)
		}
	}))
	return total
}

// patternBytes is what the patterns of an expression take when they are compiled. A text that is no pattern is none.
func patternBytes(ast *celgo.Ast) (total uint64) {
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || !takesPattern(e.AsCall().FunctionName()) {
			return
		}
		for _, argument := range e.AsCall().Args() {
			if text, ok := literalText(argument); ok {
				if size, err := sizeOf(text); err == nil {
					total = min(total+size.bytes(), 1<<40)
				}
			}
		}
	}))
	return total
}

// PatternBytes is the memory of the compiled patterns of the variables and of some programs of the scope, in bytes.
func (s *Scope) PatternBytes(programs ...*Program) (total uint64) {
	for _, p := range slices.Concat(s.variables, programs) {
		if p != nil {
			total += patternBytes(p.ast)
		}
	}
	return total
}

// literalText returns the text that an expression is.
func literalText(e celast.Expr) (string, bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}

// explainPatterns says what is wrong with patterns, of which the compiler says only that they are.
func (v *view) explainPatterns(expression string, issues []diagnostics.Problem) {
	const wrong = "invalid matches argument"
	if !slices.ContainsFunc(issues, func(p diagnostics.Problem) bool { return p.Message == wrong }) {
		return
	}
	parsed, found := v.env.Parse(expression)
	if found.Err() != nil {
		return
	}
	ast := parsed.NativeRep()
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		text, ok := literalText(e)
		if !ok {
			return
		}
		at := ast.SourceInfo().GetStartLocation(e.ID())
		if _, err := regexp.Compile(text); err != nil {
			for i := range issues {
				if issues[i].Message == wrong && issues[i].Line == at.Line() && issues[i].Column == at.Column()+1 {
					issues[i].Message += ": " + err.Error()
				}
			}
		}
	}))
}

// issue says what the compiler says, and what may have been meant.
func (v *view) issue(err *common.Error) diagnostics.Problem {
	message := texts.OneLine(strings.NewReplacer(" (in container '')", "", `\n`, " ").Replace(err.Message))
	if name, ok := quoted(message, "undefined field '"); ok {
		if t := v.provider.missed[name]; t != nil {
			message += suggest(name, fieldNames(t))
		}
	}
	if name, ok := quoted(message, "undeclared reference to '"); ok {
		message += suggest(name, Names())
	}
	issue := diagnostics.Problem{Message: message}
	if line := err.Location.Line(); line > 0 {
		issue.Line, issue.Column = line, max(err.Location.Column()+1, 1)
	}
	return issue
}

// quoted is the name that follows a prefix, up to the quote.
func quoted(message, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(message, prefix)
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, "'")
	return name, ok
}

func fieldNames(t *apicel.DeclType) []string {
	names := make([]string, 0, len(t.Fields))
	for name := range t.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Compile makes a program of an expression that must result in what is wanted. Without errors among the issues
// there is a program. What cannot be known before it runs, such as the type of an untyped value, is checked then.
func (s *Scope) Compile(expression string, want Result) (*Program, []diagnostics.Problem) {
	return s.programs.get(programKey{expression, want}, func() (*Program, []diagnostics.Problem) {
		v, issues := s.views()
		if len(issues) > 0 {
			return nil, issues
		}
		return s.compile(v, expression, want)
	})
}

func (s *Scope) compile(v *views, expression string, want Result) (*Program, []diagnostics.Problem) {
	if len(expression) > MaxExpression {
		return nil, []diagnostics.Problem{{Message: fmt.Sprintf("the expression has %d bytes: at most %d", len(expression), MaxExpression)}}
	}
	if n := strings.Count(expression, "optMap") + strings.Count(expression, "optFlatMap"); n > MaxOptionalMacros {
		return nil, []diagnostics.Problem{{Message: fmt.Sprintf("the expression has %d calls of optMap and optFlatMap: at most %d; use variables", n, MaxOptionalMacros)}}
	}
	ast, issues := v.main.check(expression)
	if len(issues) > 0 {
		return nil, issues
	}
	if !want.accepts(ast.OutputType()) {
		return nil, []diagnostics.Problem{{Line: 1, Column: 1, Message: fmt.Sprintf("must result in a %s, not in a %s", want, typeName(ast.OutputType()))}}
	}
	if issues := lost(ast); len(issues) > 0 {
		return nil, issues
	}
	advice := v.advise(expression, len(s.options.Kinds))
	if slices.ContainsFunc(advice, func(p diagnostics.Problem) bool { return !p.Warning }) {
		return nil, advice
	}
	program, err := s.program(v.main, expression, ast, want)
	if err != nil {
		return nil, []diagnostics.Problem{{Line: 1, Column: 1, Message: err.Error()}}
	}
	return program, advice
}

// accepts reports whether a type can be what is wanted; one that is only known when it runs can.
func (r Result) accepts(t *celgo.Type) bool {
	if t.Kind() == types.DynKind || t.Kind() == types.AnyKind {
		return true
	}
	switch r {
	case Bool:
		return t.IsExactType(celgo.BoolType)
	case String:
		return t.IsExactType(celgo.StringType)
	default:
		return true
	}
}

func typeName(t *celgo.Type) string { return strings.ReplaceAll(t.String(), "_type", "") }

// advise checks an expression against every kind, where there are several: what is wrong with one of them is a
// warning, because the expression may ask for the kind first; what is wrong with all of them is an error. matched is how many kinds
// there are, those without a schema included.
func (v *views) advise(expression string, matched int) []diagnostics.Problem {
	byIssue := map[diagnostics.Problem][]string{}
	var order []diagnostics.Problem
	for _, v := range v.kinds {
		_, issues := v.check(expression)
		for _, issue := range issues {
			if _, seen := byIssue[issue]; !seen {
				order = append(order, issue)
			}
			byIssue[issue] = append(byIssue[issue], v.kind)
		}
	}
	var advice []diagnostics.Problem
	for _, issue := range order {
		kinds := byIssue[issue]
		issue.Warning = len(kinds) < matched
		issue.Message = fmt.Sprintf("in a %s: %s", strings.Join(kinds, " and a "), issue.Message)
		advice = append(advice, issue)
		if len(advice) == MaxIssues {
			break
		}
	}
	return advice
}
