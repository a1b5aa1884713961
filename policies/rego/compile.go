package rego

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// Bounds of a module. They are far from what a person writes. They do not bound what compiling takes: the checks of Compile do.
const (
	MaxModuleBytes = 256 << 10
	MaxModuleLines = 10_000
	MaxRules       = 1_000
	maxIssues      = 20
	maxMessage     = 1 << 10
)

// The rules of a module that are evaluated.
const (
	denyRule = "deny"
	warnRule = "warn"
)

// Module is a module that was compiled. It is immutable, and safe for concurrent use.
type Module struct {
	name     string
	compiler *ast.Compiler
	query    ast.Body
	// screen is evaluated first; nil for none.
	screen    *screen
	documents documentSet
	// fields are those of input that it can read.
	fields *Fields
	// references are the fields of references that it reads; nil with allReferences.
	references    []string
	allReferences bool
	// literals are the hashes of its constants, and low are the groups of its texts whose hashes are those of integers; nil for none.
	literals literalHashes
	low      *[]int
	// parsed makes the module as it was written, for coverage, and plain a form that charges for functions only: traces and coverage
	// show what the author wrote.
	parsed func() *ast.Module
	plain  func() *ast.Compiler
}

// Name is what the module was compiled under.
func (m *Module) Name() string { return m.name }

// Reads reports whether the module looks at a document, by its name in Documents: one that reads request or requester
// cannot be audited.
func (m *Module) Reads(document string) bool {
	i, known := slices.BinarySearch(documentNames(), document)
	return known && m.documents&(1<<i) != 0
}

// References returns the fields of the document references that the module reads, out of all fields.
func (m *Module) References(all []string) []string {
	if m.allReferences {
		return all
	}
	return m.references
}

// Compile checks and prepares a module. The name is for messages. If the policy is for one kind, VirtualMachine,
// VirtualMachineInstance or set, the fields of object and oldObject are checked too. The module is nil
// if there are issues. It takes milliseconds: compile a module when it changes, not when it is evaluated.
func Compile(name, module string, kinds ...string) (compiled *Module, issues []diagnostics.Problem) {
	defer func() {
		if r := recover(); r != nil {
			compiled, issues = nil, []diagnostics.Problem{{Message: fmt.Sprintf("the compiler of Rego failed on this module: %s", texts.Shorten(fmt.Sprint(r), maxMessage))}}
		}
	}()
	for _, check := range []func(string) []diagnostics.Problem{tooLarge, nearLiterals, pairs} {
		if issues := check(module); len(issues) > 0 {
			return nil, issues
		}
	}
	parsed, err := parse(name, module)
	if err != nil {
		return nil, issuesOf(err)
	}
	if parsed == nil {
		return nil, []diagnostics.Problem{{Message: "the module is empty"}}
	}
	for _, check := range []func(*ast.Module) []diagnostics.Problem{ruleCount, heads, depth, elements, compiling, referred, contract, builtinsUsed, dataUsed, sharing} {
		if issues := check(parsed); len(issues) > 0 {
			return nil, sorted(issues)
		}
	}
	if issues := typeCheck(name, parsed, kinds); len(issues) > 0 {
		return nil, issues
	}
	return prepare(name, module, parsed)
}

func parse(name, module string) (*ast.Module, error) {
	return ast.ParseModuleWithOpts(name, module, ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: capabilities()})
}

// typeCheck compiles a copy of the module against the types of the documents. What it learns is not kept: it takes
// a hundred kilobytes, and evaluation has no use for it.
func typeCheck(name string, parsed *ast.Module, kinds []string) []diagnostics.Problem {
	compiler := compile(name, parsed.Copy(), schemas(parsed, kinds))
	if compiler.Failed() {
		return issuesOf(compiler.Errors)
	}
	return elementTypes(compiler, parsed)
}

// prepare compiles the module for evaluation: its calls go to the guarded forms of the functions.
func prepare(name, text string, parsed *ast.Module) (*Module, []diagnostics.Problem) {
	compiler := compile(name, parsed.Copy(), nil)
	if compiler.Failed() {
		return nil, issuesOf(compiler.Errors)
	}
	guarded(compiler)
	for _, m := range compiler.Modules {
		account(m)
	}
	release(compiler, parsed)
	query := queryFor(parsed)
	references, allReferences := fieldsRead(parsed, "references")
	written := sync.OnceValue(func() *ast.Module {
		parsed, _ := parse(name, text) // it had no error before
		return parsed
	})
	return &Module{
		references: references, allReferences: allReferences, literals: literalHashesIn(parsed), low: lowLiterals(text),
		name: name, compiler: compiler, parsed: written, documents: documentsIn(parsed), fields: fieldsOfInput(parsed), query: query, screen: newScreen(compiler, query),
		plain: sync.OnceValue(func() *ast.Compiler {
			again := compile(name, written().Copy(), nil)
			guarded(again)
			return again
		}),
	}, nil
}

// literalHashes is what searches among the literals of a module compare.
type literalHashes struct {
	// integers is how many integers the module has whose hashes are their values, and groups is how many of them are in each group of hashes
	// that may have texts.
	integers int
	groups   map[int]int
	// near is the largest number of other numbers, lists, sets and objects in one group of hashes, in literal sets.
	near int
	// mixed reports that a set has integers and other constants that can have their hashes.
	mixed bool
}

func literalHashesIn(module *ast.Module) literalHashes {
	made, others := literalHashes{groups: map[int]int{}}, map[int]int{}
	ast.WalkTerms(module, func(term *ast.Term) bool {
		switch v := term.Value.(type) {
		case ast.Number:
			made.addInteger(term)
		case ast.Set:
			kinds := map[keyKind]bool{}
			v.Foreach(func(element *ast.Term) {
				kind := kindOf(element)
				if kinds[kind] = true; kind >= sharedInteger && element.IsGround() {
					group := groupOf(element.Hash())
					others[group]++
					made.near = max(made.near, others[group])
				}
			})
			made.mixed = made.mixed || kinds[ownValue] && (kinds[zeroOrOne] || kinds[sharedInteger] || kinds[sharedSum])
		}
		return false
	})
	return made
}

func (l *literalHashes) addInteger(number *ast.Term) {
	if kindOf(number) != ownValue {
		return
	}
	l.integers++
	if besideTexts(number) {
		l.groups[groupOf(number.Hash())]++
	}
}

// builtinTypes are the types of the functions that a module without rules knows.
var builtinTypes = sync.OnceValue(func() *ast.TypeEnv {
	module := ast.MustParseModuleWithOpts("package builtins", ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: capabilities()})
	compiler := ast.NewCompiler().WithCapabilities(capabilities())
	compiler.Compile(map[string]*ast.Module{"builtins": module})
	return compiler.TypeEnv
})

// release drops what only compiling needs, which is most of the memory of a small module. While a module is evaluated, types are only
// needed to replace functions (with f as …).
func release(compiler *ast.Compiler, module *ast.Module) {
	compiler.Graph, compiler.ModuleTree = nil, nil
	if !replaces(module) {
		compiler.TypeEnv = builtinTypes()
	}
}

// replaces reports whether a module has values or functions that are replaced (with … as …).
func replaces(module *ast.Module) bool {
	found := false
	ast.WalkExprs(module, func(expr *ast.Expr) bool {
		found = found || len(expr.With) > 0
		return found
	})
	return found
}

// compile compiles a module, with types if it is only checked. The compiler makes types of all functions that it knows, so it knows the
// guarded forms only for a module that is evaluated with them.
func compile(name string, module *ast.Module, types *ast.SchemaSet) *ast.Compiler {
	functions := writtenFunctions()
	if types == nil && replaces(module) {
		functions = capabilities()
	}
	compiler := ast.NewCompiler().
		WithCapabilities(functions).WithDefaultRegoVersion(ast.RegoV1).
		WithSchemas(types).WithStrict(true).WithEnablePrintStatements(true).SetErrorLimit(maxIssues)
	switch {
	case types != nil: // it is only checked
		compiler.WithSkipStages(ast.StageBuildRuleIndices, ast.StageBuildComprehensionIndices)
	case places(module) > maxPlaces:
		compiler.WithSkipStages(ast.StageBuildRuleIndices)
	}
	compiler.Compile(map[string]*ast.Module{name: module})
	return compiler
}

// guarded bounds what a compiler's indices read, and lets its modules call the guarded forms of functions. The indices are the first,
// because boundIndices knows functions by the names that guardCalls replaces.
func guarded(compiler *ast.Compiler) {
	boundIndices(compiler)
	for _, module := range compiler.Modules {
		guardCalls(module)
	}
}

// guardCalls renames the functions that have a guarded form. It comes after everything that reports their names.
func guardCalls(module *ast.Module) {
	guards := guardedBuiltins()
	ast.WalkTerms(module, func(term *ast.Term) bool {
		ref, ok := term.Value.(ast.Ref)
		if !ok {
			return false
		}
		if name, ok := builtinName(ref); ok && guards[guardPrefix+name] != nil {
			term.Value = ast.Ref{ast.VarTerm(guardPrefix + name)}
		}
		return false
	})
}

// builtinName is the name that a reference has, if it may be that of a built-in function.
func builtinName(ref ast.Ref) (string, bool) {
	if len(ref) > 4 || ref[0].Equal(ast.InputRootDocument) || ref[0].Equal(ast.DefaultRootDocument) {
		return "", false
	}
	parts := make([]string, len(ref))
	for i, term := range ref {
		switch v := term.Value.(type) {
		case ast.Var:
			parts[i] = string(v)
		case ast.String:
			parts[i] = string(v)
		default:
			return "", false
		}
	}
	return strings.Join(parts, "."), true
}

// queryFor asks for the sets that the module has.
func queryFor(module *ast.Module) ast.Body {
	var query ast.Body
	for _, name := range []string{denyRule, warnRule} {
		if slices.ContainsFunc(module.Rules, func(r *ast.Rule) bool { return ruleName(r) == name }) {
			set := module.Package.Path.Append(ast.StringTerm(name))
			query.Append(ast.Equality.Expr(ast.VarTerm(name), ast.NewTerm(set)))
		}
	}
	return query
}

// issuesOf are the errors of the parser or the compiler.
func issuesOf(err error) []diagnostics.Problem {
	var errs ast.Errors
	var single *ast.Error
	switch {
	case errors.As(err, &errs):
	case errors.As(err, &single):
		errs = ast.Errors{single}
	default:
		return []diagnostics.Problem{{Message: texts.Shorten(err.Error(), maxMessage)}}
	}
	issues := make([]diagnostics.Problem, 0, len(errs))
	for _, e := range errs {
		issue := diagnostics.Problem{Message: texts.Shorten(messageOf(e), maxMessage)}
		if e.Location != nil && e.Location.Row > 0 {
			issue.Line, issue.Column = e.Location.Row, e.Location.Col
		}
		issues = append(issues, issue)
	}
	return sorted(issues)
}

// messageOf says what the compiler has to say in one line.
func messageOf(e *ast.Error) string {
	detail, ok := e.Details.(*ast.RefErrInvalidDetail)
	if !ok || len(detail.OneOf) == 0 || detail.Pos >= len(detail.Ref) {
		return withDetails(e)
	}
	wrong := strings.Trim(detail.Ref[detail.Pos].String(), `"`)
	parent := detail.Ref[:detail.Pos].String()
	return fmt.Sprintf("%s has no %s; it has %s", parent, wrong, alike(wrong, detail.OneOf))
}

// withDetails adds what the type checker had and what it wanted.
func withDetails(e *ast.Error) string {
	switch e.Details.(type) {
	case *ast.ArgErrDetail, *ast.UnificationErrDetail:
		tidy := strings.NewReplacer("left  :", "left:", "right :", "right:", ", ???", "", "???", "") // ??? stands for the result
		return fmt.Sprintf("%s (%s)", e.Message, tidy.Replace(strings.Join(e.Details.Lines(), ", ")))
	}
	return e.Message
}

// alike lists what there is, first what begins like the word.
func alike(word string, values []ast.Value) string {
	names := make([]string, 0, len(values))
	for _, v := range values {
		names = append(names, strings.Trim(v.String(), `"`))
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(commonPrefix(b, word), commonPrefix(a, word)), cmp.Compare(a, b))
	})
	return texts.First(names, 10)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// sorted returns the first problems in the order of the module. Those of the whole module are the last.
func sorted(issues []diagnostics.Problem) []diagnostics.Problem {
	slices.SortStableFunc(issues, func(a, b diagnostics.Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	issues = slices.Compact(issues)
	if more := len(issues) - maxIssues; more > 0 {
		issues = append(issues[:maxIssues:maxIssues], diagnostics.Problem{Message: fmt.Sprintf("and %d more", more)})
	}
	return issues
}
