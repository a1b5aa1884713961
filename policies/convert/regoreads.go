package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	admissionv1 "k8s.io/api/admission/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// The bounds of what is read of modules.
const (
	maxLiterals = 40
	maxRounds   = 4
	maxAliases  = 20
)

// regoReads finds the fields of the object that modules read, and the literals with which they may compare them.
type regoReads struct {
	written *Written
	// aliases are the paths of variables, by their rule, and of the values of rules, by their paths.
	aliases  map[string][][]string
	literals []any
	rule     string
	// users reports whether the requester is read.
	users bool
	// params are the functions' parameters, by the paths of functions.
	params map[string][]string
}

// aboutConstraint returns what a constraint was, with an object that its match selects; nil if it matches no VirtualMachine.
func (o *original) aboutConstraint(spec *constraintSpec) *Written {
	w := &Written{Skipped: "false", Errors: "false", kind: apikinds.VirtualMachine, typ: reflect.TypeFor[v1.VirtualMachine](), pods: o.pods}
	of := operations
	if o.pods { // each pod is created
		w.typ, of = podType, operations[:1]
	}
	for _, operation := range of {
		if _, ok := o.matched[cell{policyv1alpha1.PolicyKind(w.kind), operation}]; ok {
			w.operations = append(w.operations, operation)
		}
	}
	if len(w.operations) == 0 {
		return nil
	}
	if len(spec.Match.Namespaces) > 0 {
		w.namespace = literalOf(spec.Match.Namespaces[0])
		w.reading([]string{"metadata", "namespace"}, reflect.TypeFor[string](), []any{w.namespace, "elsewhere"})
	}
	for _, name := range spec.Match.ExcludedNamespaces {
		w.reading([]string{"metadata", "namespace"}, reflect.TypeFor[string](), []any{"team-a", literalOf(name)})
	}
	if spec.Match.LabelSelector != nil {
		w.labels = spec.Match.LabelSelector.MatchLabels
	}
	return w
}

// writtenModule returns what the modules of a template read, for tests, and how; nil if they match no VirtualMachine.
func (o *original) writtenModule(modules []*ast.Module, parameters any, spec *constraintSpec) (*Written, *regoReads) {
	w := o.aboutConstraint(spec)
	if w == nil {
		return nil, nil
	}
	r := &regoReads{written: w, aliases: map[string][][]string{}, params: map[string][]string{}}
	r.literalsOf(parameters)
	for _, m := range modules {
		for _, rule := range m.Rules {
			path := m.Package.Path.String() + "." + nameOfRule(rule)
			for _, arg := range rule.Head.Args {
				name, _ := arg.Value.(ast.Var)
				r.params[path] = append(r.params[path], string(name))
			}
			r.constants(rule)
		}
	}
	for _, literal := range r.literals {
		if text, ok := literal.(string); ok && r.users && len(w.users) < maxValues && text != "" {
			w.users = append(w.users, text, text+"x")
		}
	}
	for round := range maxRounds {
		for _, m := range modules {
			for _, rule := range m.Rules {
				r.rule = m.Package.Path.String() + "." + nameOfRule(rule)
				r.read(rule, round == maxRounds-1)
			}
		}
	}
	return w, r
}

// literalsOf adds the values of parameters.
func (r *regoReads) literalsOf(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range keysOf(v) {
			r.literal(key)
			r.literalsOf(v[key])
		}
	case []any:
		for _, one := range v {
			r.literalsOf(one)
		}
	case nil:
	default:
		r.literal(v)
	}
}

func (r *regoReads) literal(value any) {
	if text, ok := value.(string); ok && strings.ContainsAny(text, " %\n") {
		return
	}
	if len(r.literals) < maxLiterals && !slices.Contains(r.literals, value) {
		r.literals = append(r.literals, value)
	}
}

// constants adds the literals of a rule that are no names of fields.
func (r *regoReads) constants(rule *ast.Rule) {
	var visitor *ast.GenericVisitor
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch v := x.(type) {
		case ast.Ref:
			r.users = r.users || len(v) > 2 && v[2].Equal(ast.StringTerm("userInfo"))
			for _, term := range v[1:] {
				if _, isName := term.Value.(ast.String); !isName {
					visitor.Walk(term)
				}
			}
			return true
		case ast.String:
			r.literal(string(v))
		case ast.Number:
			if n, ok := v.Int64(); ok {
				r.literal(n)
			}
		}
		return false
	})
	visitor.Walk(rule.Body)
	for other := rule.Else; other != nil; other = other.Else {
		visitor.Walk(other.Body)
	}
	if rule.Head.Key != nil && nameOfRule(rule) != violationRule {
		visitor.Walk(rule.Head.Key)
	}
}

// alias adds a path to a name.
func (r *regoReads) alias(name string, paths [][]string) {
	for _, path := range paths {
		at := strings.Join(path, ".")
		if len(r.aliases[name]) < maxAliases && !slices.ContainsFunc(r.aliases[name], func(p []string) bool { return strings.Join(p, ".") == at }) {
			r.aliases[name] = append(r.aliases[name], path)
		}
	}
}

// local is the name of a variable of the rule.
func (r *regoReads) local(name ast.Var) string { return r.rule + "#" + string(name) }

// read follows the assignments of a rule. In the last round, it notes what the rule reads.
func (r *regoReads) read(rule *ast.Rule, last bool) {
	for one := rule; one != nil; one = one.Else {
		ast.WalkExprs(one.Body, func(e *ast.Expr) bool { r.expression(e); return false })
		ast.WalkTerms(one, func(term *ast.Term) bool {
			r.term(term)
			if last {
				for _, path := range r.paths(term) {
					r.note(path)
				}
			}
			return false
		})
		for _, value := range []*ast.Term{one.Head.Key, one.Head.Value} {
			if value != nil {
				paths := r.paths(value)
				for i := range paths {
					paths[i] = slices.Clone(paths[i])
				}
				r.alias(r.rule, paths)
			}
		}
	}
}

// expression follows an assignment, or a some.
func (r *regoReads) expression(e *ast.Expr) {
	switch {
	case e.IsAssignment() || e.IsEquality():
		for _, pair := range [][2]*ast.Term{{e.Operand(0), e.Operand(1)}, {e.Operand(1), e.Operand(0)}} {
			if name, ok := pair[0].Value.(ast.Var); ok {
				r.alias(r.local(name), r.paths(pair[1]))
			}
		}
	case e.IsCall():
		r.call(e.Terms.([]*ast.Term))
	case e.IsSome():
		for _, symbol := range e.Terms.(*ast.SomeDecl).Symbols {
			if call, ok := symbol.Value.(ast.Call); ok {
				r.member(call)
			}
		}
	case e.IsEvery():
		every := e.Terms.(*ast.Every)
		if name, ok := every.Value.Value.(ast.Var); ok {
			r.alias(r.local(name), r.elements(every.Domain))
		}
	}
}

// term follows calls and comprehensions inside of terms.
func (r *regoReads) term(term *ast.Term) {
	if call, ok := term.Value.(ast.Call); ok {
		r.call(call)
	}
}

// call follows the arguments of a function of the template, and of members of lists.
func (r *regoReads) call(terms []*ast.Term) {
	if len(terms) == 0 {
		return
	}
	ref, ok := terms[0].Value.(ast.Ref)
	if !ok {
		return
	}
	name := ref.String()
	if strings.HasPrefix(name, "internal.member_") {
		r.member(terms)
		return
	}
	for i, param := range r.params[name] {
		if i+1 < len(terms) && param != "" {
			r.alias(name+"#"+param, r.paths(terms[i+1]))
		}
	}
}

// member follows `some x in list`.
func (r *regoReads) member(call []*ast.Term) {
	if len(call) < 3 {
		return
	}
	if name, ok := call[len(call)-2].Value.(ast.Var); ok {
		r.alias(r.local(name), r.elements(call[len(call)-1]))
	}
}

// elements are the paths of the elements of a term.
func (r *regoReads) elements(term *ast.Term) [][]string {
	var all [][]string
	for _, path := range r.paths(term) {
		if typ, ok := r.typeAt(path); ok && typ.Kind() == reflect.Slice && !opaque(typ) {
			all = append(all, append(slices.Clone(path), everyElement))
		} else if ok && len(path) > 0 && path[len(path)-1] == everyElement {
			all = append(all, path)
		}
	}
	return all
}

// reviewStep is the first step of a path that begins with the review, and not with its object.
const reviewStep = "input.review"

// typeAt is the type of a field.
func (r *regoReads) typeAt(path []string) (reflect.Type, bool) {
	typ := r.written.typ
	if len(path) > 0 && path[0] == reviewStep {
		typ, path = reflect.TypeFor[admissionv1.AdmissionRequest](), path[1:]
	}
	for _, step := range path {
		switch {
		case step == everyElement:
			if typ.Kind() != reflect.Slice || opaque(typ) {
				return nil, false
			}
			typ = elem(typ)
		default:
			if typ = belowOf(typ, step); typ == nil {
				return nil, false
			}
		}
	}
	return typ, true
}

// paths are the fields of the object that a term can be.
func (r *regoReads) paths(term *ast.Term) [][]string {
	switch v := term.Value.(type) {
	case ast.Var:
		return r.aliases[r.local(v)]
	case ast.Call:
		if ref, ok := v[0].Value.(ast.Ref); ok && ref.String() == "object.get" && len(v) == 4 {
			return r.below(r.paths(v[1]), keysIn(v[2]))
		}
		if ref, ok := v[0].Value.(ast.Ref); ok {
			return r.aliases[ref.String()]
		}
	case ast.Ref:
		return r.refPaths(v)
	case *ast.ArrayComprehension:
		return r.paths(v.Term)
	case *ast.SetComprehension:
		return r.paths(v.Term)
	}
	return nil
}

// keysIn are the keys of object.get: a name, or several.
func keysIn(term *ast.Term) []*ast.Term {
	list, ok := term.Value.(*ast.Array)
	if !ok {
		return []*ast.Term{term}
	}
	var all []*ast.Term
	list.Foreach(func(one *ast.Term) { all = append(all, one) })
	return all
}

// refPaths are the fields that a reference reads.
func (r *regoReads) refPaths(ref ast.Ref) [][]string {
	name, ok := ref[0].Value.(ast.Var)
	if !ok {
		return nil
	}
	if name == "input" {
		if len(ref) < 2 || !ref[1].Equal(ast.StringTerm("review")) || len(ref) == 2 && !r.written.pods || len(ref) > 2 && !ofObject(ref[2]) {
			return nil
		}
		return r.below([][]string{{reviewStep}}, ref[2:])
	}
	if name == "data" {
		for n := len(ref); n > 1; n-- {
			if paths := r.aliases[ref[:n].String()]; len(paths) > 0 {
				rest := ref[n:]
				if len(rest) > 0 { // the first step selects an element of the set
					rest = rest[1:]
				}
				return r.below(paths, rest)
			}
		}
		return nil
	}
	return r.below(r.aliases[r.local(name)], ref[1:])
}

// ofObject reports whether a step from the review is the object, or the old one.
func ofObject(step *ast.Term) bool {
	return step.Equal(ast.StringTerm("object")) || step.Equal(ast.StringTerm("oldObject"))
}

// below are the fields below others.
func (r *regoReads) below(paths [][]string, steps []*ast.Term) [][]string {
	all := paths
	for _, step := range steps {
		var next [][]string
		for _, path := range all {
			typ, ok := r.typeAt(path)
			if !ok {
				continue
			}
			name, isName := step.Value.(ast.String)
			switch {
			case len(path) == 1 && path[0] == reviewStep && ofObject(step):
				next = append(next, []string{})
			case typ.Kind() == reflect.Slice && !opaque(typ) && !isName:
				next = append(next, append(slices.Clone(path), everyElement))
			case isName:
				next = append(next, append(slices.Clone(path), string(name)))
			case typ.Kind() == reflect.Map:
				for _, literal := range r.literals {
					if text, ok := literal.(string); ok && len(next) < maxAliases {
						next = append(next, append(slices.Clone(path), text))
					}
				}
			case typ.Kind() == reflect.Struct && !opaque(typ):
				for _, literal := range r.literals {
					if text, ok := literal.(string); ok && belowOf(typ, text) != nil {
						next = append(next, append(slices.Clone(path), text))
					}
				}
			}
		}
		all = next
	}
	return all
}

// note adds a path to what is read, and the list around it.
func (r *regoReads) note(path []string) {
	typ, ok := r.typeAt(path)
	if !ok || len(path) < 2 || path[0] == reviewStep || len(path) == 2 && path[1] == "template" || isObject(typ) && !isMapOrOptional(path, typ) {
		return
	}
	if path[len(path)-1] == everyElement && isObject(typ) {
		return
	}
	counts := []int{0, 1, 2}
	for _, literal := range r.literals {
		if n, ok := literal.(int64); ok && n > 0 {
			counts = append(counts, int(min(n, maxElements+1)), int(min(n+1, maxElements+1)))
		}
	}
	if i := slices.Index(path, everyElement); i > 0 {
		list, _ := r.typeAt(path[:i])
		r.written.reading(path[:i], list, nil, counts...)
	}
	if typ.Kind() != reflect.Slice || opaque(typ) {
		counts = nil
	}
	r.written.reading(path, typ, r.values(typ), counts...)
}

// values are those of a field that may be compared with any literal.
func (r *regoReads) values(typ reflect.Type) []any {
	var values []any
	switch classOf(typ) {
	case classNone:
		if typ.Kind() == reflect.Map && classOf(elem(typ)) == classText {
			for _, literal := range r.literals {
				values = append(values, map[string]any{fmt.Sprint(literal): "x"})
			}
		}
	case classText:
		for _, literal := range r.literals {
			values = append(values, literalOf(fmt.Sprint(literal)))
		}
		values = append(values, "other", "")
		for _, literal := range r.literals {
			values = append(values, fmt.Sprintf("%vx", literal), fmt.Sprintf("x:%v", literal))
		}
	default:
		values = valuesOf(classOf(typ), r.literals)
	}
	return values
}

// isMapOrOptional reports whether an object is worth to be read as a whole: fields above others are there anyway.
func isMapOrOptional(path []string, typ reflect.Type) bool {
	return typ.Kind() == reflect.Map || len(path) > 3 && path[len(path)-1] != "domain" && path[len(path)-1] != "devices"
}
