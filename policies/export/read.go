package export

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// today parses expressions of native policies as a current API server does.
var today = sync.OnceValues(func() (*celgo.Env, error) {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.NewExpressions)
})

// parseToday is parse as a current API server does it.
func parseToday(text string) (*expression, error) {
	env, err := today()
	if err != nil {
		return nil, err
	}
	return parse(env, text)
}

// Kinds returns the kinds that native policies and VirtualMachinePolicies can match, in the order of documentation.
func Kinds() []policyv1alpha1.PolicyKind {
	var kinds []policyv1alpha1.PolicyKind
	for _, m := range apikinds.MachineKinds((*apikinds.Machine).Native) {
		kinds = append(kinds, policyv1alpha1.PolicyKind(m.Kind))
	}
	return kinds
}

// Resource returns a kind of Kinds in the terms of the API server.
func Resource(kind policyv1alpha1.PolicyKind) (group string, versions []string, name string) {
	r := resources[kind]
	return r.group, r.versions, r.name
}

// List returns a list of strings in CEL.
func List(texts []string) string { return quotedList(texts) }

// Tree returns the syntax tree of an expression.
func Tree(text string) (*ast.AST, error) {
	e, err := parseToday(text)
	if err != nil {
		return nil, err
	}
	return e.ast, nil
}

// Chain returns the fields that a node selects one after the other, and the name that it begins with; the name is empty
// if it begins with something else. Optional selections and keys of maps that are written as texts count as fields.
func Chain(node ast.Expr) (steps []string, root string) {
	switch node.Kind() {
	case ast.IdentKind:
		return nil, node.AsIdent()
	case ast.SelectKind:
		if steps, root = Chain(node.AsSelect().Operand()); root != "" {
			return append(steps, node.AsSelect().FieldName()), root
		}
	case ast.CallKind:
		call := node.AsCall()
		if name := call.FunctionName(); name != operators.OptSelect && name != operators.Index && name != operators.OptIndex {
			return nil, ""
		}
		if key, ok := call.Args()[1].AsLiteral().(types.String); ok {
			if steps, root = Chain(call.Args()[0]); root != "" {
				return append(steps, string(key)), root
			}
		}
	}
	return nil, ""
}

// Tail returns the fields that a node selects at its end, whatever it begins with.
func Tail(node ast.Expr) []string {
	switch node.Kind() {
	case ast.SelectKind:
		return append(Tail(node.AsSelect().Operand()), node.AsSelect().FieldName())
	case ast.CallKind:
		call := node.AsCall()
		if name := call.FunctionName(); name == operators.OptSelect || name == operators.Index || name == operators.OptIndex {
			if key, ok := call.Args()[1].AsLiteral().(types.String); ok {
				return append(Tail(call.Args()[0]), string(key))
			}
		}
	}
	return nil
}

// Children returns the nodes below a node.
func Children(node ast.Expr) []ast.Expr {
	switch node.Kind() {
	case ast.SelectKind:
		return []ast.Expr{node.AsSelect().Operand()}
	case ast.CallKind:
		call := node.AsCall()
		if call.IsMemberFunction() {
			return append([]ast.Expr{call.Target()}, call.Args()...)
		}
		return call.Args()
	case ast.ListKind:
		return node.AsList().Elements()
	case ast.MapKind:
		var all []ast.Expr
		for _, entry := range node.AsMap().Entries() {
			all = append(all, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return all
	case ast.ComprehensionKind:
		c := node.AsComprehension()
		return []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}
	}
	return nil
}

// WithoutVariable returns an expression that reads a name where it read a variable: variables.params becomes params. It fails
// if a macro declares the name, or where only a field can be.
func WithoutVariable(text, variable, name string) (string, error) {
	e, err := parseToday(text)
	if err != nil {
		return "", err
	}
	var changes []edit
	for _, r := range e.reads {
		if r.member != variable {
			continue
		}
		if r.around.declares(name) {
			return "", fmt.Errorf("it reads %s where a macro declares %s", variable, name)
		}
		changes = append(changes, edit{r.start, r.memberAt + len([]rune(r.member)), name})
	}
	changed := e.edited(changes)
	if _, err := parseToday(changed); err != nil { // has(variables.params) has no equivalent
		return "", err
	}
	return changed, nil
}

// Renaming is what an expression reads in place of a name.
type Renaming struct {
	To string
	// Fields are fields of the name that have another expression, by their paths with dots.
	Fields map[string]string
}

// Renamed returns an expression that reads other names. certain are the positions of names in has(), in code points, where has() is
// replaced by true. It fails if a macro declares a name that would be read.
func Renamed(text string, names map[string]Renaming, certain []int) (string, error) {
	e, err := parseToday(text)
	if err != nil {
		return "", err
	}
	var changes []edit
	for _, start := range certain {
		change, ok := e.presence(start)
		if !ok {
			return "", errors.New("the position of a has() in it is unknown")
		}
		changes = append(changes, change)
	}
	for _, r := range e.reads {
		renaming, ok := names[r.name]
		if !ok || slices.ContainsFunc(changes[:len(certain)], func(has edit) bool { return has.start <= r.start && r.start < has.stop }) {
			continue
		}
		change := edit{r.start, r.stop, renaming.To}
		for _, path := range slices.Sorted(maps.Keys(renaming.Fields)) {
			if stop := e.pathAfter(r.stop, strings.Split(path, ".")); stop > 0 {
				change.stop, change.text = stop, renaming.Fields[path]
			}
		}
		name, _, _ := strings.Cut(change.text, ".")
		if r.around.declares(name) {
			return "", fmt.Errorf("it reads %s where a macro declares %s: give the macro's variable another name", r.name, name)
		}
		changes = append(changes, change)
	}
	slices.SortFunc(changes, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	changed := e.edited(slices.Compact(changes))
	if _, err := parseToday(changed); err != nil { // has(object.field) with another expression for the field
		return "", err
	}
	return changed, nil
}

// presence replaces the has() around fields that begin with a name at a position. It is false if something else is around them.
func (e *expression) presence(name int) (edit, bool) {
	const macro = "has"
	before := func(at int) int {
		for at > 0 && unicode.IsSpace(e.text[at-1]) {
			at--
		}
		return at
	}
	start := before(name)
	if start == 0 || e.text[start-1] != '(' {
		return edit{}, false
	}
	start = before(start-1) - len(macro)
	stop := slices.Index(e.text[name:], ')')
	if !e.has(start, macro) || stop < 0 {
		return edit{}, false
	}
	return edit{start, name + stop + 1, "true"}, true
}

// pathAfter returns the position behind fields that follow a position, each with a dot; 0 if others follow.
func (e *expression) pathAfter(at int, path []string) int {
	for _, field := range path {
		start := e.memberAfter(at)
		at = start + len([]rune(field))
		if start == 0 || !e.has(start, field) || at < len(e.text) && (unicode.IsLetter(e.text[at]) || unicode.IsDigit(e.text[at]) || e.text[at] == '_') {
			return 0
		}
	}
	return at
}

// Names returns the names that an expression reads and that no macro declares, sorted; nil if it cannot be parsed.
func Names(text string) []string {
	e, err := parseToday(text)
	if err != nil {
		return nil
	}
	return e.names()
}

// Reads reports whether an expression reads a name that no macro declares.
func Reads(text, name string) bool {
	e, err := parseToday(text)
	return err == nil && e.reading(name)
}

// WithoutMember returns an expression that reads the members of a name where it read those of one of its members:
// params.data.limit becomes params.limit. Where it reads the member itself, a map with the member replaces the name.
// Comparisons of the name do not change.
func WithoutMember(text, name, member string) (string, error) {
	e, err := parseToday(text)
	if err != nil {
		return "", err
	}
	var changes []edit
	for _, r := range e.reads {
		if r.name != name {
			continue
		}
		start := e.memberAfter(r.stop)
		end := start + len([]rune(member))
		switch {
		case start > 0 && e.has(start, member) && strings.ContainsRune(".[", e.next(end)):
			changes = append(changes, edit{r.stop, end, ""})
		case e.next(r.stop) == '.' || e.next(r.stop) == '[':
			changes = append(changes, edit{r.start, r.stop, fmt.Sprintf("{%s: %s}", quoted(member), name)})
		}
	}
	return e.edited(changes), nil
}

// Untyped returns an expression whose compiler does not know the types of the object, the old object and the pod, as in a native
// policy.
func Untyped(text string) (string, error) {
	e, err := parseToday(text)
	if err != nil {
		return "", err
	}
	e.reads = slices.DeleteFunc(e.reads, func(r read) bool { // it has no type already
		const untyped = "dyn("
		return e.has(r.start-len(untyped), untyped) && e.has(r.stop, ")")
	})
	return e.rewritten(substitution{names: map[string]replacement{
		nameObject: {"dyn(" + nameObject + ")", nameObject}, nameOldObject: {"dyn(" + nameOldObject + ")", nameOldObject},
		namePod: {"dyn(" + namePod + ")", namePod},
	}})
}

// next returns the first rune from a position on that is no space; 0 at the end.
func (e *expression) next(at int) rune {
	for ; at < len(e.text); at++ {
		if !unicode.IsSpace(e.text[at]) {
			return e.text[at]
		}
	}
	return 0
}
