package convert

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/texts"
)

// regoPods checks that modules read only known fields of pods. It follows values as regoReads does, and fails where it cannot.
type regoPods struct {
	*regoReads

	problem error
	// everyKey reports whether a module reads all labels or annotations, and named whether a message has the name of the pod.
	everyKey, named bool
	// text is the message of a violation, as its rule assigns it; nil if the rule reads it, too.
	text *ast.Expr
	// given are the parameters, and unread reports whether a part has no effect with them.
	given  map[string]any
	unread bool
}

func (p *regoPods) fails(format string, values ...any) {
	if p.problem == nil {
		p.problem = fmt.Errorf(format, values...)
	}
}

// check returns why modules about pods have no equivalent.
func (p *regoPods) check(modules []*ast.Module) error {
	known := p.followed()
	for _, m := range modules {
		for _, rule := range m.Rules {
			p.rule = m.Package.Path.String() + "." + nameOfRule(rule)
			p.read(rule, false)
		}
	}
	if p.followed() != known || slices.ContainsFunc(slices.Collect(maps.Values(p.aliases)), func(paths [][]string) bool { return len(paths) >= maxAliases }) {
		p.fails("its values cannot be followed through that many rules")
	}
	used := p.used(modules)
	for _, m := range modules {
		for _, first := range m.Rules {
			if p.rule = m.Package.Path.String() + "." + nameOfRule(first); used[p.rule] {
				p.bodies(first)
			}
		}
	}
	return p.problem
}

// bodies checks the bodies of a rule.
func (p *regoPods) bodies(first *ast.Rule) {
	violation := nameOfRule(first) == violationRule
	for rule := first; rule != nil; rule = rule.Else {
		before := p.problem
		p.text = nil
		if violation {
			p.text = textOf(rule)
		}
		p.head(rule.Head, violation)
		p.body(rule.Body)
		if p.problem != nil && before == nil && p.never(rule.Body) {
			p.problem, p.unread = nil, true
		}
	}
}

// used are the rules that a violation reads with the parameters, also through others, by their paths.
func (p *regoPods) used(modules []*ast.Module) map[string]bool {
	rules := map[string][]*ast.Rule{}
	for _, m := range modules {
		for _, rule := range m.Rules {
			path := m.Package.Path.String() + "." + nameOfRule(rule)
			rules[path] = append(rules[path], rule)
		}
	}
	used := map[string]bool{}
	var use func(path string)
	use = func(path string) {
		if used[path] || rules[path] == nil {
			return
		}
		used[path] = true
		for _, first := range rules[path] {
			for rule := first; rule != nil; rule = rule.Else {
				if p.never(rule.Body) {
					continue
				}
				one := rule.Copy()
				one.Else = nil
				ast.WalkRefs(one, func(ref ast.Ref) bool {
					for n := len(ref); n > 1; n-- {
						use(ref[:n].String())
					}
					return false
				})
			}
		}
	}
	use(modules[0].Package.Path.String() + "." + violationRule)
	return used
}

// followed is how many values of names and rules are known.
func (p *regoPods) followed() (n int) {
	for _, paths := range p.aliases {
		n += len(paths)
	}
	return n
}

// head checks what a rule returns. Of a violation, only the message stays.
func (p *regoPods) head(head *ast.Head, violation bool) {
	if element, ok := keyOf(head).(ast.Object); ok && violation && element.Get(ast.StringTerm("msg")) != nil {
		if p.text == nil { // or else the body has it
			p.message(element.Get(ast.StringTerm("msg")))
		}
		return
	}
	for _, term := range []*ast.Term{head.Key, head.Value} {
		if term != nil {
			p.term(term, !violation)
		}
	}
}

// keyOf is the value of the key of a head; nil if it has none.
func keyOf(head *ast.Head) ast.Value {
	if head.Key == nil {
		return nil
	}
	return head.Key.Value
}

func (p *regoPods) body(body ast.Body) {
	for _, e := range body {
		if e == p.text {
			p.message(e.Operand(1))
			continue
		}
		p.expression(e)
	}
}

// message checks the message of a violation. The name of the pod can be the message, or a part of it: it must have no effect on whether
// there is a message, so it can be in the arguments of functions of texts only.
func (p *regoPods) message(term *ast.Term) {
	call, ok := term.Value.(ast.Call)
	switch {
	case p.isName(term):
		p.named = true
	case ok && joinsTexts(call):
		for _, argument := range call[1:] {
			p.messagePart(argument)
		}
	default:
		p.term(term, false)
	}
}

// messagePart checks an argument of a function of texts in a message: a part of the message, or a list of these.
func (p *regoPods) messagePart(argument *ast.Term) {
	if list, ok := argument.Value.(*ast.Array); ok {
		list.Foreach(p.message)
		return
	}
	p.message(argument)
}

// isName reports whether a term is the name of the pod.
func (*regoPods) isName(term *ast.Term) bool {
	ref, ok := term.Value.(ast.Ref)
	return ok && ref.Equal(nameOfPod)
}

// joinsTexts reports whether a call has a text for all texts, whatever they are: sprintf, and concat.
func joinsTexts(call ast.Call) bool {
	name := call[0].String()
	return name == ast.Sprintf.Name || name == ast.Concat.Name
}

// textOf returns the expression that gives a violation its message, if nothing else of the rule reads it; nil if there is none.
func textOf(rule *ast.Rule) (found *ast.Expr) {
	element, _ := keyOf(rule.Head).(ast.Object)
	if element == nil {
		return nil
	}
	message := element.Get(ast.StringTerm("msg"))
	if message == nil {
		return nil
	}
	name, ok := message.Value.(ast.Var)
	if !ok {
		return nil
	}
	reads := 0
	ast.WalkVars(rule.Body, func(v ast.Var) bool {
		if v == name {
			reads++
		}
		return false
	})
	for _, e := range rule.Body {
		if (e.IsAssignment() || e.IsEquality()) && !e.Negated && len(e.With) == 0 && e.Operand(0).Value.Compare(name) == 0 && reads == 1 {
			found = e
		}
	}
	return found
}

// expression checks an expression. A field that has unknown ones below it can get a name, be an argument of a function of the template,
// or be tested for its presence.
func (p *regoPods) expression(e *ast.Expr) {
	if len(e.With) > 0 {
		p.fails("it has a with, which replaces the input")
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		p.term(terms, true)
	case *ast.SomeDecl:
		for _, symbol := range terms.Symbols {
			p.term(symbol, false)
		}
	case *ast.Every:
		p.term(terms.Domain, true)
		p.body(terms.Body)
	case []*ast.Term:
		if e.IsAssignment() || e.IsEquality() {
			left, right := e.Operand(0), e.Operand(1)
			_, names := left.Value.(ast.Var)
			_, named := right.Value.(ast.Var)
			flows := names != named || names && e.IsAssignment() // two names that have values are compared
			p.term(left, flows)
			p.term(right, flows)
			return
		}
		p.call(terms)
	}
}

// call checks the arguments of a function.
func (p *regoPods) call(terms []*ast.Term) {
	name := terms[0].String()
	params := p.params[name]
	for i, term := range terms[1:] {
		flows := i < len(params) && params[i] != "" || strings.HasPrefix(name, "internal.member_") && i == len(terms)-2 || name == "object.get" && i == 0
		if name == ast.Count.Name {
			flows = true
			for _, path := range p.paths(term) {
				if unknown := countUnknown(path); unknown != "" {
					p.fails("the length of %s: %s", printedPath(path), unknown)
				}
			}
		}
		p.term(term, flows)
	}
}

// term checks a term. Without flows, all that is below its value must be known.
func (p *regoPods) term(term *ast.Term, flows bool) {
	switch v := term.Value.(type) {
	case ast.Ref:
		for _, step := range v[1:] {
			switch step.Value.(type) {
			case ast.String, ast.Var, ast.Number:
			default:
				p.term(step, false)
			}
		}
		p.reference(v)
	case ast.Call:
		p.call(v)
	case *ast.ArrayComprehension:
		p.term(v.Term, flows)
		p.body(v.Body)
	case *ast.SetComprehension:
		p.term(v.Term, flows)
		p.body(v.Body)
	case *ast.ObjectComprehension:
		p.term(v.Key, false)
		p.term(v.Value, false)
		p.body(v.Body)
	case *ast.Array:
		v.Foreach(func(one *ast.Term) { p.term(one, false) })
		return
	case ast.Set:
		v.Foreach(func(one *ast.Term) { p.term(one, false) })
		return
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) { p.term(key, false); p.term(value, false) })
		return
	}
	for _, path := range p.paths(term) {
		p.path(path, flows)
	}
}

// reference checks the steps of a reference to a pod.
func (p *regoPods) reference(ref ast.Ref) {
	of, steps := p.beginning(ref)
	for i, step := range steps {
		for _, path := range of {
			p.step(ref, path, step)
		}
		of = p.regoReads.below(of, steps[i:i+1])
	}
	for _, path := range of {
		if row, _ := podFieldOf(path); row != nil && row.reading != "" && !ref.Equal(namespaceOfPod) {
			p.fails("it reads %s by a variable: write %s", printedPath(path), namespaceOfPod)
		}
	}
}

// beginning is what the first part of a reference can be, and the steps below it.
func (p *regoPods) beginning(ref ast.Ref) (of [][]string, steps []*ast.Term) {
	name, _ := ref[0].Value.(ast.Var)
	switch {
	case name == "input" && ref.HasPrefix(reviewObject):
		return [][]string{{}}, ref[3:]
	case name == "input":
		return nil, nil
	case name != "data":
		return p.aliases[p.local(name)], ref[1:]
	}
	for n := len(ref); n > 1; n-- {
		if of = p.aliases[ref[:n].String()]; len(of) > 0 {
			return of, ref[min(n+1, len(ref)):] // the first step selects an element of the set
		}
	}
	return nil, nil
}

// step checks one step below a field.
func (p *regoPods) step(ref ast.Ref, path []string, step *ast.Term) {
	typ, ok := p.typeAt(path)
	if !ok {
		return
	}
	_, isName := step.Value.(ast.String)
	switch {
	case typ.Kind() == reflect.Slice && !opaque(typ) && !isName:
	case typ.Kind() == reflect.Map && !isName && anyKey(path):
		p.everyKey = true
	case !isName:
		p.fails("it reads fields of %s by a variable", printedPath(path))
	case typ.Kind() == reflect.Struct && belowOf(typ, stringOf(step)) == nil:
		p.fails("it reads %s, and pods have no such field", texts.Shorten(ref.String(), maxQuoted))
	}
}

// reviewObject is the object in Gatekeeper's modules; namespaceOfPod and nameOfPod are its namespace and its name.
var (
	reviewObject   = ast.MustParseRef("input.review.object")
	namespaceOfPod = ast.MustParseRef("input.review.object.metadata.namespace")
	nameOfPod      = ast.MustParseRef("input.review.object.metadata.name")
)

// stringOf is the text of a term; empty if it is none.
func stringOf(term *ast.Term) string {
	text, _ := term.Value.(ast.String)
	return string(text)
}

// anyKey reports whether each key of a map is known but those that are listed.
func anyKey(path []string) bool {
	at := strings.Join(path, ".") + ".*"
	return slices.ContainsFunc(rowsOfPods, func(f podField) bool { return f.path == at })
}

// path checks a field. Without flows, all that is below it must be known.
func (p *regoPods) path(path []string, flows bool) {
	if len(path) == 0 {
		if !flows {
			p.fails("it reads the whole pod")
		}
		return
	}
	if path[0] == reviewStep {
		switch {
		case len(path) == 1 && !flows:
			p.fails("it reads input.review as a whole, which has the request for the pod")
		case len(path) > 1 && podReviewFields()[path[1]] == "":
			p.fails("it reads input.review.%s, which is about KubeVirt's request for the pod", texts.Shorten(path[1], maxQuoted))
		}
		return
	}
	row, unknown := podFieldOf(path)
	switch {
	case unknown != "":
		p.fails("%s: %s", printedPath(path), unknown)
	case row != nil && row.byDefault != "":
		p.fails("%s: the API server sets it to %s where KubeVirt sets none", printedPath(path), row.byDefault)
	case row == nil && anyKey(path):
		p.everyKey = p.everyKey || !flows
	case row == nil && !flows:
		p.fails("it reads %s as a whole", printedPath(path))
	}
}

// printedPath is a path for messages.
func printedPath(path []string) string {
	return texts.Shorten(strings.ReplaceAll(strings.Join(path, "."), "."+everyElement, everyElement), maxQuoted)
}

// podReviewFields are the fields of a review of a pod, as terms of a policy. A pod is evaluated when it is created.
func podReviewFields() map[string]string {
	return map[string]string{
		"object": "input.pod", "operation": `"CREATE"`, "namespace": "input.request.namespace", "kind": `{"group": "", "kind": "Pod", "version": "v1"}`,
	}
}

// ofPod is what a reference to the review of a pod becomes. below returns a reference to a path of the input.
func (t *regoTranslation) ofPod(ref ast.Ref, field string, below func([]string, ast.Ref) ast.Ref) (ast.Ref, error) {
	switch {
	case len(ref) == 2:
		return t.reviewRule(ref), nil
	case ref.Equal(namespaceOfPod) || field == "namespace":
		return below([]string{"request", "namespace"}, nil), nil
	case ref.Equal(nameOfPod):
		return below([]string{"pod", "metadata", "generateName"}, nil), nil
	case field == "object":
		return below([]string{"pod"}, ref[3:]), nil
	case podReviewFields()[field] != "":
		return append(t.reviewRule(ref), ref[2:]...), nil
	}
	return nil, fmt.Errorf("it reads %s, which is about KubeVirt's request for the pod", texts.Shorten(ref.String(), maxQuoted))
}

// moveLaunchers makes a constraint about pods of virtual machines one about virtual machines, whose labels are still those of the pods.
// It is false for a constraint about others. The problem says why it cannot be moved.
func (s *constraintSpec) moveLaunchers() (ok bool, problem string) {
	m := &s.Match
	if !s.ofPods() {
		return false, ""
	}
	rest, ok := withoutLauncher(m.LabelSelector)
	switch {
	case !ok:
		return false, ""
	case m.Name != "" && m.Name != "*" && m.Name != launcherValue+"*" && m.Name != launcherValue+"-*":
		return true, podsNamed
	}
	if unknown := unknownLabel(rest); unknown != "" {
		return true, unknown
	}
	m.Name, m.LabelSelector = "", rest
	m.Kinds = []constraintKinds{{APIGroups: []string{"kubevirt.io"}, Kinds: []string{"VirtualMachine", "VirtualMachineInstance"}}}
	return true, ""
}

// ofPods reports whether a constraint matches only pods.
func (s *constraintSpec) ofPods() bool {
	kinds := s.Match.Kinds
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k constraintKinds) bool {
		return !slices.Equal(k.Kinds, []string{"Pod"}) || slices.ContainsFunc(k.APIGroups, func(group string) bool { return group != "" && group != "*" })
	})
}
