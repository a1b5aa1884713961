package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// celPods checks that expressions about pods read only known fields, and writes them for the variable pod. It follows values through
// macros and variables, and fails where it cannot.
type celPods struct {
	problem error
	// variables are the fields that variables of the rule can be, by their names.
	variables map[string][]path
	// reads are the fields that the expressions read, and literals are the values beside them.
	reads    []path
	literals []any
}

// celNames are those that macros declare, with the fields that they can be.
type celNames struct {
	around *celNames
	name   string
	paths  []path
}

func (n *celNames) find(name string) (paths []path, found bool) {
	for ; n != nil; n = n.around {
		if n.name == name {
			return n.paths, true
		}
	}
	return nil, false
}

func (p *celPods) fails(format string, values ...any) {
	if p.problem == nil {
		p.problem = fmt.Errorf(format, values...)
	}
}

// rule replaces the expressions of a rule about pods. The error says why they have no equivalent.
func (p *celPods) rule(r *clusterRule) error {
	p.variables = map[string][]path{}
	r.CELPreconditions = slices.Clone(r.CELPreconditions)
	for i := range r.CELPreconditions {
		p.whole(p.moved(&r.CELPreconditions[i].Expression))
	}
	if r.Validate.CEL == nil {
		return p.problem
	}
	validate, expressions := *r.Validate, *r.Validate.CEL
	r.Validate, validate.CEL = &validate, &expressions
	expressions.Variables = slices.Clone(expressions.Variables)
	for i := range expressions.Variables {
		v := &expressions.Variables[i]
		p.variables[v.Name] = p.moved(&v.Expression)
	}
	expressions.Expressions = slices.Clone(expressions.Expressions)
	for i := range expressions.Expressions {
		v := &expressions.Expressions[i]
		for _, text := range []*string{&v.Expression, &v.MessageExpression} {
			p.whole(p.moved(text))
		}
	}
	return p.problem
}

// moved replaces an expression by one that reads the variable pod. It returns the fields that its value can be.
func (p *celPods) moved(text *string) []path {
	if *text == "" || p.problem != nil {
		return nil
	}
	tree, err := export.Tree(*text)
	if err != nil {
		p.fails("%w", err)
		return nil
	}
	paths := p.visit(tree.Expr(), nil)
	if p.problem != nil {
		return nil
	}
	fields := map[string]string{}
	for i := range rowsOfPods {
		steps := strings.Split(rowsOfPods[i].path, ".")
		if made, ok := rowsOfPods[i].known(steps); ok {
			fields[rowsOfPods[i].path] = made.path
		}
	}
	changed, err := export.Renamed(*text, "object", "pod", fields)
	if err != nil {
		p.fails("%w", err)
	}
	*text = changed
	return paths
}

// visit checks a node, and returns the fields of the pod that its value can be.
func (p *celPods) visit(node celast.Expr, around *celNames) []path {
	switch node.Kind() {
	case celast.LiteralKind:
		p.literal(node)
	case celast.IdentKind:
		return p.ident(node.AsIdent(), around)
	case celast.SelectKind:
		return p.selected(node.AsSelect(), around)
	case celast.CallKind:
		return p.call(node.AsCall(), around)
	case celast.ListKind:
		return p.list(node.AsList().Elements(), around)
	case celast.MapKind:
		for _, entry := range node.AsMap().Entries() {
			p.whole(p.visit(entry.AsMapEntry().Key(), around))
			p.whole(p.visit(entry.AsMapEntry().Value(), around))
		}
	case celast.ComprehensionKind:
		return p.comprehension(node.AsComprehension(), around)
	case celast.StructKind, celast.UnspecifiedExprKind:
		p.fails("it has a message, which cannot be followed")
	}
	return nil
}

// literal keeps a literal for tests.
func (p *celPods) literal(node celast.Expr) {
	switch v := node.AsLiteral().(type) {
	case types.String:
		p.literals = append(p.literals, string(v))
	case types.Int:
		p.literals = append(p.literals, int64(v))
	case types.Bool:
		p.literals = append(p.literals, bool(v))
	}
}

// ident returns what a name can be.
func (p *celPods) ident(name string, around *celNames) []path {
	if paths, found := around.find(name); found {
		return paths
	}
	switch name {
	case "object":
		return []path{{}}
	case "params", "namespaceObject":
	default:
		p.fails("it reads %s, which is not about the pod", texts.Shorten(name, maxQuoted))
	}
	return nil
}

// selected returns what a field can be.
func (p *celPods) selected(s celast.SelectExpr, around *celNames) []path {
	if of := s.Operand(); of.Kind() == celast.IdentKind {
		if _, declared := around.find(of.AsIdent()); !declared {
			switch name := of.AsIdent(); name {
			case "variables":
				paths, known := p.variables[s.FieldName()]
				if !known {
					p.fails("it reads the variable %s, which is not declared before it", texts.Shorten(s.FieldName(), maxQuoted))
				}
				return paths
			case "request":
				if p.reads = append(p.reads, path{"metadata", "namespace"}); s.FieldName() != "namespace" {
					p.fails("request.%s is that of KubeVirt's request for the pod", texts.Shorten(s.FieldName(), maxQuoted))
				}
				return nil
			}
		}
	}
	paths := p.below(p.visit(s.Operand(), around), s.FieldName(), direct(s.Operand()))
	if s.IsTestOnly() {
		p.present(paths)
		return nil
	}
	return paths
}

// direct reports whether a node is the object, or a field of it that is selected with dots only.
func direct(node celast.Expr) bool {
	if node.Kind() == celast.SelectKind {
		return direct(node.AsSelect().Operand())
	}
	return node.Kind() == celast.IdentKind && node.AsIdent() == "object"
}

// below returns the paths with one more step. Fields with expressions of their own must be selected with dots only.
func (p *celPods) below(paths []path, step string, direct bool) (all []path) {
	for _, of := range paths {
		typ, ok := podTypeAt(of)
		if !ok || belowOf(typ, step) == nil {
			p.fails("it reads %s, and pods have no such field", printedPath(append(slices.Clone(of), step)))
			return nil
		}
		field := append(slices.Clone(of), step)
		if row, _ := podFieldOf(field); !direct && row != nil && (row.byDefault != "" || row.reading != "") {
			p.fails("it reads %s indirectly: write object.%[1]s", printedPath(field))
		}
		all = append(all, field)
	}
	return all
}

// elements returns the paths of the elements of lists.
func (p *celPods) elements(paths []path) (all []path) {
	for _, of := range paths {
		if typ, ok := podTypeAt(of); !ok || typ.Kind() != reflect.Slice || opaque(typ) {
			p.fails("it reads all fields of %s", printedPath(of))
			return nil
		}
		all = append(all, append(slices.Clone(of), everyElement))
	}
	return all
}

// call returns what the value of a function can be.
func (p *celPods) call(c celast.CallExpr, around *celNames) []path {
	args := c.Args()
	if c.IsMemberFunction() && !isNamespace(c.Target(), around) {
		args = append([]celast.Expr{c.Target()}, args...)
	}
	switch c.FunctionName() {
	case operators.Index, operators.OptSelect, operators.OptIndex:
		of := p.visit(args[0], around)
		if key, ok := args[1].AsLiteral().(types.String); ok {
			return p.below(of, string(key), false)
		}
		p.whole(p.visit(args[1], around))
		return p.elements(of)
	case operators.Conditional:
		p.whole(p.visit(args[0], around))
		return append(p.visit(args[1], around), p.visit(args[2], around)...)
	case operators.Add:
		left, right := p.visit(args[0], around), p.visit(args[1], around)
		if areLists(left) && areLists(right) {
			return append(left, right...)
		}
		p.whole(left)
		p.whole(right)
	case operators.In, operators.OldIn:
		p.contained(args, around)
	case "orValue", "or":
		return append(p.visit(args[0], around), p.visit(args[1], around)...)
	case "value", "dyn", "optional.of", "of":
		return p.visit(args[len(args)-1], around)
	case "hasValue":
		p.present(p.visit(args[0], around))
	case "size":
		for _, of := range p.visit(args[0], around) {
			if unknown := countUnknown(of); unknown != "" {
				p.fails("the length of %s: %s", printedPath(of), unknown)
			}
			if !areLists([]path{of}) {
				p.whole([]path{of})
			}
		}
	default:
		for _, arg := range args {
			p.whole(p.visit(arg, around))
		}
	}
	return nil
}

// namespaces are the names before functions.
var namespaces = []string{"base64", "cidr", "format", "ip", "lists", "math", "optional", "regex", "sets", "strings"}

// isNamespace reports whether a node is a part of the name of a function.
func isNamespace(node celast.Expr, around *celNames) bool {
	if node.Kind() != celast.IdentKind {
		return false
	}
	_, declared := around.find(node.AsIdent())
	return !declared && slices.Contains(namespaces, node.AsIdent())
}

// contained checks whether a value is in a list, or a key in a map.
func (p *celPods) contained(args []celast.Expr, around *celNames) {
	of := p.visit(args[1], around)
	if areLists(of) {
		p.whole(p.visit(args[0], around))
		p.whole(p.elements(of))
		return
	}
	if key, ok := args[0].AsLiteral().(types.String); ok {
		p.present(p.below(of, string(key), false))
		return
	}
	p.whole(p.visit(args[0], around))
	p.fails("it reads all keys of %s", printedPath(of[0]))
}

// list returns the lists from which the elements of a new list are.
func (p *celPods) list(elements []celast.Expr, around *celNames) (all []path) {
	for _, element := range elements {
		for _, of := range p.visit(element, around) {
			if n := len(of); n > 0 && of[n-1] == everyElement {
				all = append(all, of[:n-1])
			} else {
				p.whole([]path{of})
			}
		}
	}
	return all
}

// comprehension returns what the value of a macro can be.
func (p *celPods) comprehension(c celast.ComprehensionExpr, around *celNames) []path {
	if over := c.IterRange(); over.Kind() == celast.ListKind && over.AsList().Size() == 0 { // it declares a name for a value
		p.fails("it has optMap or optFlatMap, which Kyverno evaluates differently")
	}
	var elements []path
	if over := p.visit(c.IterRange(), around); len(over) > 0 {
		elements = p.elements(over)
	}
	inside := &celNames{around: around, name: c.AccuVar(), paths: p.visit(c.AccuInit(), around)}
	result := &celNames{around: around, name: c.AccuVar()}
	if c.HasIterVar2() {
		inside = &celNames{around: &celNames{around: inside, name: c.IterVar()}, name: c.IterVar2(), paths: elements}
	} else {
		inside = &celNames{around: inside, name: c.IterVar(), paths: elements}
	}
	p.whole(p.visit(c.LoopCondition(), inside))
	accumulated, _ := inside.find(c.AccuVar())
	result.paths = append(slices.Clone(accumulated), p.visit(c.LoopStep(), inside)...)
	return p.visit(c.Result(), result)
}

// areLists reports whether all paths are those of lists.
func areLists(paths []path) bool {
	return !slices.ContainsFunc(paths, func(of path) bool {
		typ, ok := podTypeAt(of)
		return !ok || typ.Kind() != reflect.Slice || opaque(typ)
	})
}

// present checks fields whose presence is read. A field that pods always have is none.
func (p *celPods) present(paths []path) {
	for _, of := range paths {
		row, unknown := podFieldOf(of)
		typ, ok := podTypeAt(of)
		switch {
		case unknown != "":
			p.fails("%s: %s", printedPath(of), unknown)
		case row != nil && (row.byDefault != "" || row.reading != ""):
			p.fails("it reads whether %s is set, and the API server always sets it", printedPath(of))
		case row == nil && ok && typ.Kind() == reflect.Struct && !optionalAt(of):
			p.fails("it reads whether %s is set, and pods always have it", printedPath(of))
		default:
			p.reads = append(p.reads, of)
		}
	}
}

// optionalAt reports whether a field of pods with fields of its own can be absent.
func optionalAt(of path) bool {
	typ, ok := podTypeAt(of[:len(of)-1])
	if !ok || typ.Kind() != reflect.Struct {
		return false
	}
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name == of[len(of)-1] {
			return typ.Field(i).Type.Kind() == reflect.Pointer
		}
	}
	return true // of an embedded type: KubeVirt sets one of them
}

// whole checks fields that are read with all that is below them.
func (p *celPods) whole(paths []path) {
	for _, of := range paths {
		row, unknown := podFieldOf(of)
		switch {
		case len(of) == 0:
			p.fails("it reads the whole pod")
		case unknown != "":
			p.fails("%s: %s", printedPath(of), unknown)
		case row == nil:
			p.fails("it reads %s as a whole", printedPath(of))
		default:
			p.reads = append(p.reads, of)
		}
	}
}

// written returns what a rule in CEL was, with the fields that it reads.
func (p *celPods) written(r *clusterRule) *Written {
	machine := apikinds.Machines()[0]
	w := r.about(&machine)
	reads := regoReads{written: w, literals: p.literals}
	for _, of := range p.reads {
		reads.note(of)
	}
	return w
}

// podTypeAt is the type of a field of pods.
func podTypeAt(of path) (reflect.Type, bool) {
	typ := podType
	for _, step := range of {
		switch {
		case step != everyElement:
			if typ = belowOf(typ, step); typ == nil {
				return nil, false
			}
		case typ.Kind() != reflect.Slice || opaque(typ):
			return nil, false
		default:
			typ = elem(typ)
		}
	}
	return typ, true
}
