package export

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"github.com/virtward/virtward/texts"
)

// The names that the rewriting is about.
const (
	nameObject          = "object"
	nameOldObject       = "oldObject"
	nameRequest         = "request"
	nameParams          = "params"
	nameVariables       = "variables"
	nameAuthorizer      = "authorizer"
	nameNamespaceObject = "namespaceObject"
	namePod             = "pod"
)

// native are the names that a native policy has too.
var native = []string{nameObject, nameOldObject, nameRequest, nameParams, nameVariables, nameAuthorizer, nameNamespaceObject}

// scope has the names that the comprehensions around a position declare.
type scope struct {
	parent *scope
	names  [3]string
}

func (s *scope) declares(name string) bool {
	for ; s != nil; s = s.parent {
		if slices.Contains(s.names[:], name) {
			return true
		}
	}
	return false
}

// read is a position where an expression reads a name that no comprehension around it declares.
type read struct {
	name string
	// start and stop are the position of the name, in code points.
	start, stop int
	// member is the variable in variables.NAME, and memberAt the position of its name; member is empty if variables is
	// read in another way.
	member   string
	memberAt int
	around   *scope
	// dotted reports whether a dot precedes the name, which makes it global.
	dotted bool
}

// expression is a parsed text and its reads.
type expression struct {
	text  []rune
	ast   *ast.AST
	reads []read
}

// parse finds the names that an expression reads. Names that its macros declare are not among them.
func parse(env *celgo.Env, text string) (*expression, error) {
	parsed, issues := env.Parse(text)
	if err := issues.Err(); err != nil {
		return nil, errors.New(texts.OneLine(err.Error()))
	}
	e := &expression{text: []rune(text), ast: parsed.NativeRep()}
	if err := e.visit(e.ast.Expr(), nil, ""); err != nil {
		return nil, err
	}
	// A macro may have repeated a part of the text.
	slices.SortStableFunc(e.reads, func(a, b read) int { return cmp.Compare(a.start, b.start) })
	e.reads = slices.CompactFunc(e.reads, func(a, b read) bool { return a.start == b.start })
	return e, nil
}

// visit collects the reads below a node. member is the field that is selected from it.
func (e *expression) visit(node ast.Expr, around *scope, member string) error {
	switch node.Kind() {
	case ast.IdentKind:
		return e.ident(node, around, member)
	case ast.SelectKind:
		return e.visit(node.AsSelect().Operand(), around, node.AsSelect().FieldName())
	case ast.CallKind:
		call := node.AsCall()
		if call.IsMemberFunction() {
			if err := e.visit(call.Target(), around, ""); err != nil {
				return err
			}
		}
		return e.visitAll(call.Args(), around)
	case ast.ListKind:
		return e.visitAll(node.AsList().Elements(), around)
	case ast.MapKind:
		for _, entry := range node.AsMap().Entries() {
			if err := e.visitAll([]ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()}, around); err != nil {
				return err
			}
		}
	case ast.StructKind:
		for _, field := range node.AsStruct().Fields() {
			if err := e.visit(field.AsStructField().Value(), around, ""); err != nil {
				return err
			}
		}
	case ast.ComprehensionKind:
		c := node.AsComprehension()
		if err := e.visitAll([]ast.Expr{c.IterRange(), c.AccuInit()}, around); err != nil {
			return err
		}
		inside := &scope{parent: around, names: [3]string{c.IterVar(), c.IterVar2(), c.AccuVar()}}
		if err := e.visitAll([]ast.Expr{c.LoopCondition(), c.LoopStep()}, inside); err != nil {
			return err
		}
		return e.visit(c.Result(), &scope{parent: around, names: [3]string{c.AccuVar()}}, "")
	}
	return nil
}

func (e *expression) visitAll(nodes []ast.Expr, around *scope) error {
	for _, node := range nodes {
		if err := e.visit(node, around, ""); err != nil {
			return err
		}
	}
	return nil
}

func (e *expression) ident(node ast.Expr, around *scope, member string) error {
	name, dotted := strings.CutPrefix(node.AsIdent(), ".")
	if !dotted && around.declares(name) {
		return nil
	}
	if dotted && around.declares(name) {
		return fmt.Errorf(".%s is read where a macro declares %s: its meaning depends on the version of the API server", name, name)
	}
	place, ok := e.ast.SourceInfo().GetOffsetRange(node.ID())
	r := read{name: name, start: int(place.Start), stop: int(place.Start) + len([]rune(name)), around: around, dotted: dotted}
	if !ok || !e.has(r.start, name) {
		if !slices.Contains(native, name) { // one that a macro made up
			return nil
		}
		return fmt.Errorf("the position of %s in it is unknown", name)
	}
	if name == nameVariables && member != "" {
		if at := e.memberAfter(r.stop); at > 0 && e.has(at, member) {
			r.member, r.memberAt = member, at
		}
	}
	e.reads = append(e.reads, r)
	return nil
}

// has reports whether a text is at a position.
func (e *expression) has(at int, text string) bool {
	wanted := []rune(text)
	return at >= 0 && at+len(wanted) <= len(e.text) && slices.Equal(e.text[at:at+len(wanted)], wanted)
}

// memberAfter returns the position of the name behind a dot; 0 if something other than a dot and space precedes it.
func (e *expression) memberAfter(at int) int {
	dot := false
	for ; at < len(e.text); at++ {
		switch {
		case unicode.IsSpace(e.text[at]):
		case e.text[at] == '.' && !dot:
			dot = true
		case dot:
			return at
		default:
			return 0
		}
	}
	return 0
}

// names returns the names that the expression reads, sorted.
func (e *expression) names() []string {
	var names []string
	for _, r := range e.reads {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// members returns the variables that the expression reads, sorted.
func (e *expression) members() []string {
	var members []string
	for _, r := range e.reads {
		if r.member != "" {
			members = append(members, r.member)
		}
	}
	slices.Sort(members)
	return slices.Compact(members)
}

func (e *expression) reading(name string) bool { return slices.Contains(e.names(), name) }

// edit replaces a part of a text.
type edit struct {
	start, stop int
	text        string
}

// substitution maps names to their replacements.
type substitution struct {
	// names maps a name to its replacement, and to the name that this begins with, if it is one.
	names map[string]replacement
	// members maps variables to others.
	members map[string]string
}

type replacement struct{ text, name string }

// rewritten returns the text after a substitution. It fails if a macro declares the name of a replacement.
func (e *expression) rewritten(s substitution) (string, error) {
	var edits []edit
	for _, r := range e.reads {
		if to, ok := s.names[r.name]; ok {
			if r.around.declares(to.name) {
				return "", fmt.Errorf("it reads %s where a macro declares %s: give the macro's variable another name", r.name, to.name)
			}
			if r.dotted && to.name == "" {
				return "", fmt.Errorf("remove the dot before %s", r.name)
			}
			edits = append(edits, edit{r.start, r.stop, to.text})
		}
		if to, ok := s.members[r.member]; ok && r.member != "" {
			edits = append(edits, edit{r.memberAt, r.memberAt + len([]rune(r.member)), to})
		}
	}
	return e.edited(edits), nil
}

// edited returns the text with changes, which are in the order of their positions.
func (e *expression) edited(edits []edit) string {
	text, at := strings.Builder{}, 0
	for _, change := range edits {
		text.WriteString(string(e.text[at:change.start]))
		text.WriteString(change.text)
		at = change.stop
	}
	text.WriteString(string(e.text[at:]))
	return text.String()
}

// bracketed puts a whole expression in brackets. It may end with a comment.
func bracketed(text string) string {
	if strings.Contains(text, "//") {
		return "(" + text + "\n)"
	}
	return "(" + text + ")"
}
