package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

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
	// params are the parameters; nil if they are not known.
	params map[string]any
	// constants are the variables that have the same value for each pod.
	constants map[string]constantOf
	// tree is the expression, and certain are the positions of names in its has() that are true for each pod.
	tree    *celast.AST
	certain []int
	// ofNamespace reports whether the namespace is read.
	ofNamespace bool
	// computed is how many constants were computed of the expression.
	computed int
	// everyKey reports whether all labels or annotations are read, and unread whether a field that is not known has no effect.
	everyKey, unread bool
	// inert reports whether the value that is read has no effect, so that it only has to exist.
	inert bool
	// left are the reasons why messages are left out.
	left []string
}

// celNames are those that macros declare, with the fields that they can be.
type celNames struct {
	around *celNames
	name   string
	paths  []path
	// is is the value of the name.
	is constantOf
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
	r.CELPreconditions = slices.Clone(r.CELPreconditions)
	var variables []admissionregistrationv1.Variable
	var validations []admissionregistrationv1.Validation
	if r.Validate.CEL != nil {
		validate, expressions := *r.Validate, *r.Validate.CEL
		r.Validate, validate.CEL = &validate, &expressions
		expressions.Variables, expressions.Expressions = slices.Clone(expressions.Variables), slices.Clone(expressions.Expressions)
		variables, validations = expressions.Variables, expressions.Expressions
	}
	return p.replace(r.CELPreconditions, variables, validations)
}

// replace replaces expressions about pods in place. The error says why they have no equivalent.
func (p *celPods) replace(
	conditions []admissionregistrationv1.MatchCondition, variables []admissionregistrationv1.Variable, validations []admissionregistrationv1.Validation,
) error {
	p.variables, p.constants = map[string][]path{}, map[string]constantOf{}
	for i := range conditions {
		p.whole(p.moved(&conditions[i].Expression))
	}
	for i := range variables {
		v := &variables[i]
		p.variables[v.Name] = p.moved(&v.Expression)
		if p.tree != nil {
			p.constants[v.Name] = p.constant(p.tree.Expr(), nil)
		}
	}
	for i := range validations {
		p.whole(p.moved(&validations[i].Expression))
		p.message(&validations[i])
	}
	return p.problem
}

// message replaces the expression of a message, which can have fields that are not known. It is left out if it has no equivalent.
func (p *celPods) message(v *admissionregistrationv1.Validation) {
	if p.problem != nil || v.MessageExpression == "" {
		return
	}
	fields := fieldsOfPod()
	fields["metadata.name"] = "pod.metadata.generateName" // the name is random, and begins with this
	changed, err := p.renamed(v.MessageExpression, fields, nil)
	if err != nil {
		p.left = append(p.left, fmt.Sprintf("the messageExpression is left out: %v", err))
	}
	v.MessageExpression = changed
}

// partsUnread is the note of a policy of which parameters decide what it reads.
const partsUnread = "with its parameters, a part that reads fields that are not known has no effect: with others, it can have one"

// notes say what differs.
func (p *celPods) notes() []string {
	all := p.left
	if p.everyKey {
		all = append(all, everyKeyRead)
	}
	if p.unread {
		all = append(all, partsUnread)
	}
	return all
}

// moved replaces an expression by one that reads the variable pod. It returns the fields that its value can be.
func (p *celPods) moved(text *string) []path {
	if p.tree, p.certain = nil, nil; *text == "" || p.problem != nil {
		return nil
	}
	tree, err := export.Tree(*text)
	if err != nil {
		p.fails("%w", err)
		return nil
	}
	p.tree, p.computed = tree, 0
	for _, name := range export.Names(*text) {
		if !slices.Contains([]string{"object", "request", "variables", "params", "namespaceObject"}, name) && !slices.Contains(namespaces, name) {
			p.fails("it reads %s, which is not about the pod", texts.Shorten(name, maxQuoted))
		}
	}
	paths := p.visit(tree.Expr(), nil)
	if p.problem != nil {
		return nil
	}
	changed, err := p.renamed(*text, fieldsOfPod(), p.certain)
	if err != nil {
		p.fails("%w", err)
	}
	*text = changed
	return paths
}

// fieldsOfPod are the expressions of fields that are others than those of the variable pod, by their paths with dots.
func fieldsOfPod() map[string]string {
	fields := map[string]string{}
	for i := range rowsOfPods {
		steps := strings.Split(rowsOfPods[i].path, ".")
		if made, ok := rowsOfPods[i].known(steps); ok {
			fields[rowsOfPods[i].path] = made.path
		}
	}
	return fields
}

// renamed returns an expression that reads the variable pod. Each pod is evaluated when it is created.
func (*celPods) renamed(text string, fields map[string]string, certain []int) (string, error) {
	return export.Renamed(text, map[string]export.Renaming{
		"object": {To: "pod", Fields: fields}, "request": {To: "request", Fields: map[string]string{"operation": `"CREATE"`}},
	}, certain)
}

// maxPaths bounds the fields that a value can be.
const maxPaths = 100

// visit checks a node, and returns the fields of the pod that its value can be, each once: a variable can be used twice in the next one.
func (p *celPods) visit(node celast.Expr, around *celNames) []path {
	all := distinct(p.possible(node, around))
	if len(all) > maxPaths {
		p.fails("one of its values can be more than %d fields of the pod: read fewer fields in one expression", maxPaths)
		return nil
	}
	return all
}

// possible returns the fields of the pod that the value of a node can be. A field can be there several times.
func (p *celPods) possible(node celast.Expr, around *celNames) []path {
	if p.constant(node, around) != variable {
		p.skipped(node, around)
		return nil
	}
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
	p.ofNamespace = p.ofNamespace || name == "namespaceObject"
	if name == "object" {
		return []path{{}}
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
				switch s.FieldName() {
				case "namespace":
					p.reads = append(p.reads, path{"metadata", "namespace"})
				case "operation": // pods are evaluated when they are created
				default:
					p.fails("request.%s is that of KubeVirt's request for the pod", texts.Shorten(s.FieldName(), maxQuoted))
				}
				return nil
			}
		}
	}
	paths := p.below(p.visit(s.Operand(), around), s.FieldName(), direct(s.Operand()))
	if !s.IsTestOnly() {
		return paths
	}
	if root := rootOf(s.Operand()); root != nil && len(paths) > 0 && !slices.ContainsFunc(paths, func(of path) bool { return !certain(of) }) {
		if place, ok := p.tree.SourceInfo().GetOffsetRange(root.ID()); ok {
			p.certain = append(p.certain, int(place.Start))
			return nil
		}
	}
	p.present(paths)
	return nil
}

// direct reports whether a node is the object, or a field of it that is selected with dots only.
func direct(node celast.Expr) bool {
	root := rootOf(node)
	return root != nil && root.AsIdent() == "object"
}

// rootOf is the name with which fields begin that are selected with dots only; nil if they begin with something else.
func rootOf(node celast.Expr) celast.Expr {
	switch {
	case node.Kind() == celast.IdentKind:
		return node
	case node.Kind() == celast.SelectKind && !node.AsSelect().IsTestOnly():
		return rootOf(node.AsSelect().Operand())
	}
	return nil
}

// certain reports whether each pod has a field.
func certain(of path) bool {
	row, unknown := podFieldOf(of)
	typ, ok := podTypeAt(of)
	return alwaysSet(of) || row == nil && unknown == "" && ok && typ.Kind() == reflect.Struct && !optionalAt(of)
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
		if !direct && alwaysSet(field) {
			p.fails("it reads %s indirectly: write object.%[1]s", printedPath(field))
		}
		all = append(all, field)
	}
	return all
}

// alwaysSet reports whether the API server sets a field of pods that KubeVirt can leave out.
func alwaysSet(of path) bool {
	row, _ := podFieldOf(of)
	return row != nil && (row.byDefault != "" || row.reading != "")
}

// elements returns the paths of the elements of lists.
func (p *celPods) elements(paths []path) (all []path) {
	for _, of := range paths {
		if p.keys(of) {
			continue
		}
		if typ, ok := podTypeAt(of); !ok || typ.Kind() != reflect.Slice || opaque(typ) {
			p.fails("it reads all fields of %s", printedPath(of))
			return nil
		}
		all = append(all, append(slices.Clone(of), everyElement))
	}
	return all
}

// keys reports whether a path is that of labels or of another map whose keys are known, of which all are read.
func (p *celPods) keys(of path) bool {
	if len(of) == 0 || !anyKey(of) {
		return false
	}
	p.everyKey, p.reads = true, append(p.reads, of)
	return true
}

// call returns what the value of a function can be.
func (p *celPods) call(c celast.CallExpr, around *celNames) []path {
	args := c.Args()
	if c.IsMemberFunction() && !isNamespace(c.Target(), around) {
		args = append([]celast.Expr{c.Target()}, args...)
	}
	if len(args) < arity[c.FunctionName()] {
		p.fails("the function %s has too few arguments", texts.Shorten(c.FunctionName(), maxQuoted))
		return nil
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
		return p.conditional(args, around)
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
		p.counted(p.visit(args[0], around))
	default:
		for _, arg := range args {
			p.whole(p.visit(arg, around))
		}
	}
	return nil
}

// arity is how many arguments functions have at least, the object of a method included. The parser does not count those of functions
// that have names.
var arity = map[string]int{operators.OldIn: 2, "orValue": 2, "or": 2, "value": 1, "dyn": 1, "optional.of": 1, "of": 1, "hasValue": 1, "size": 1}

// conditional returns what the value of `condition ? one : other` can be.
func (p *celPods) conditional(args []celast.Expr, around *celNames) []path {
	switch p.constant(args[0], around) {
	case isTrue:
		p.skipped(args[2], around)
		return p.visit(args[1], around)
	case isFalse:
		p.skipped(args[1], around)
		return p.visit(args[2], around)
	case isEmpty, variable:
	}
	p.whole(p.visit(args[0], around))
	return append(p.visit(args[1], around), p.visit(args[2], around)...)
}

// counted checks that the length of a value is known.
func (p *celPods) counted(all []path) {
	for _, of := range all {
		if unknown := countUnknown(of); unknown != "" {
			p.fails("the length of %s: %s", printedPath(of), unknown)
		}
		if !areLists([]path{of}) {
			p.whole([]path{of})
		}
	}
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
	for _, one := range of {
		if !p.keys(one) {
			p.fails("it reads all keys of %s", printedPath(one))
		}
	}
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
		p.fails("it has optMap or optFlatMap, which not all engines evaluate alike: test the value with hasValue()")
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
		_, unknown := podFieldOf(of)
		switch {
		case unknown != "":
			p.fails("%s: %s", printedPath(of), unknown)
		case alwaysSet(of):
			p.fails("it reads whether %s is set, and the API server always sets it", printedPath(of))
		case certain(of):
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
		case unknown == byRelease && p.inert: // each container has these
			p.unread = true
		case unknown != "":
			p.fails("%s: %s", printedPath(of), unknown)
		case row == nil && p.keys(of):
		case row == nil:
			p.fails("it reads %s as a whole", printedPath(of))
		default:
			p.reads = append(p.reads, of)
		}
	}
}

// written adds the fields that the expressions read to what an original was. It is nil if they read the namespace, which tests do not have.
func (p *celPods) written(w *Written) *Written {
	if p.ofNamespace {
		return nil
	}
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
