package convert

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time" //nolint:depguard // durations are parsed; there is no clock here

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/texts"
)

// subject is the variable that has the object, or the old object at deletions, as Kyverno's conditions read it.
const subject = "variables.subject"

// evaluation is the result of conditions, which can be an error in Kyverno.
type evaluation struct {
	// ok is false if Kyverno has an error. is is the result otherwise; without ok, it can be an error in CEL too.
	ok, is logic
}

// always reports whether the result is true for each request.
func (e evaluation) always() bool { return e.ok.kind == logicTrue && e.is.kind == logicTrue }

// conditions reads the conditions of a rule.
type conditions struct {
	*patterns

	root ref
	// element is that of a loop; nil outside of one.
	element *ref
	// variables are those of the context.
	variables map[string]contextVariable
	// unread says why queries of the context cannot be read; empty if they can.
	unread string
	// object reports whether a condition reads the object.
	object bool
}

// anyAll are conditions of which one of the first and all of the second must be true.
type anyAll struct {
	Any []clusterCondition `json:"any,omitempty"`
	All []clusterCondition `json:"all,omitempty"`
}

// clusterCondition is one condition of Kyverno.
type clusterCondition struct {
	Key      any    `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    any    `json:"value,omitempty"`
	Message  string `json:"message,omitempty"`
}

// evaluate returns the result of conditions in one of their forms. A list is for all.
func (c *conditions) evaluate(steps []string, value any) evaluation {
	var read anyAll
	if list, ok := value.([]any); ok {
		value = map[string]any{"all": list}
	}
	fields, ok := value.(map[string]any)
	if !ok {
		c.fails(steps, "conditions are any and all, or a list")
		return evaluation{yes, yes}
	}
	unknown, err := decodeValue(fields, &read)
	if err != nil || len(unknown) > 0 {
		c.fails(steps, "conditions have the fields key, operator, value and message below any and all, or in a list")
		return evaluation{yes, yes}
	}
	// Kyverno stops at the first condition that decides, and at an error.
	either, all := evaluation{yes, no}, evaluation{yes, yes}
	if fields["any"] == nil {
		either.is = yes
	}
	for i := len(read.Any) - 1; i >= 0; i-- {
		one := c.condition(append(slices.Clone(steps), fmt.Sprintf("any[%d]", i)), &read.Any[i])
		either.ok = guarded(one.ok, disjunction(one.is, either.ok))
		either.is = disjunction(one.is, either.is)
	}
	for i := len(read.All) - 1; i >= 0; i-- {
		one := c.condition(append(slices.Clone(steps), fmt.Sprintf("all[%d]", i)), &read.All[i])
		all.ok = guarded(one.ok, disjunction(negated(one.is), all.ok))
		all.is = conjunction(one.is, all.is)
	}
	return evaluation{conjunction(either.ok, all.ok), conjunction(either.is, all.is)}
}

// condition returns the result of one condition.
func (c *conditions) condition(steps []string, one *clusterCondition) evaluation {
	wrong := func(err error) evaluation {
		c.fails(steps, "%s", err)
		return evaluation{yes, yes}
	}
	operator, ok := conditionOperators()[one.Operator]
	if !ok {
		return wrong(fmt.Errorf("the operator %q is unknown", texts.Shorten(one.Operator, maxQuoted)))
	}
	key, ok := one.Key.(string)
	if !ok {
		return wrong(fmt.Errorf("the key must be one variable"))
	}
	operand, err := c.operand(one.Value)
	if err != nil {
		return wrong(err)
	}
	asked, err := variableOf(strings.TrimSpace(key))
	if err == nil {
		asked, err = c.inlined(asked)
	}
	if err != nil {
		return wrong(err)
	}
	if strings.TrimSpace(key) != key {
		return wrong(fmt.Errorf("the key has spaces around its variable, so Kyverno reads a text"))
	}
	if c.pods && strings.Join(asked.path, ".") == "request.operation" && asked.projects < 0 {
		made, err := asked.creation(operator, operand)
		if err != nil {
			return wrong(err)
		}
		return made
	}
	if len(asked.among) > 0 {
		return c.among(steps, asked, operator, operand)
	}
	made, err := c.compared(steps, asked, operator, operand)
	if err != nil {
		return wrong(err)
	}
	return made
}

// among returns the result of a condition about the elements of several lists.
func (c *conditions) among(steps []string, asked *query, operator operatorOf, operand any) evaluation {
	made := no
	if operator.elements == aggregateEvery {
		made = yes
	}
	for _, one := range asked.each() {
		of, err := c.compared(steps, one, operator, operand)
		switch {
		case err == nil && (asked.length || operator.elements == aggregateNone):
			err = fmt.Errorf("the elements of several lists are compared with AnyIn, AllIn, AnyNotIn and AllNotIn only")
		case err == nil && operator.elements == aggregateEvery:
			made = conjunction(made, of.is)
		case err == nil:
			made = disjunction(made, of.is)
		}
		if err != nil {
			c.fails(steps, "%s", err)
			return evaluation{yes, yes}
		}
	}
	return evaluation{yes, made}
}

// compared returns the result of a condition about one value, or one list.
func (c *conditions) compared(steps []string, asked *query, operator operatorOf, operand any) (made evaluation, err error) {
	base, sure := c.resolve(steps, asked)
	if !sure {
		return evaluation{yes, yes}, nil
	}
	switch unknown := countUnknown(base.steps); {
	case c.pods && asked.length && asked.projects < 0 && unknown != "":
		err = fmt.Errorf("the length of %s: %s", strings.Join(base.steps, "."), unknown)
	case asked.length && !asked.ofText(base.typ) || base.typ.Kind() == reflect.Slice && !opaque(base.typ):
		made, err = c.list(asked, base, operator, operand)
	default:
		made, err = c.single(asked, base, operator, operand)
	}
	if err == nil {
		c.reading(asked, base, operand)
	}
	return made, err
}

// creation returns the result of a condition about the operation of a request for a pod, which is evaluated when it is created.
func (q *query) creation(operator operatorOf, operand any) (evaluation, error) {
	if _, isText := operand.(string); operator.exact && isText {
		return evaluation{}, errExact
	}
	made, err := q.operandOf(operator, classText, operand)
	if err != nil {
		return evaluation{}, err
	}
	if made.holds(string(policyv1alpha1.PolicyCreate)) {
		return evaluation{yes, yes}, nil
	}
	return evaluation{yes, no}, nil
}

// errExact is the reason for an operator that reads a text as JSON.
var errExact = errors.New("the operators In and NotIn read a text as JSON: write a list")

// reading notes what a condition reads, for tests.
func (c *conditions) reading(asked *query, base ref, operand any) {
	w := c.written
	if w == nil || c.root.typ != w.typ {
		return
	}
	literals := []any{operand}
	if asked.ofText(base.typ) {
		literals = asked.literals(operand)
	}
	if asked.byDefault != nil {
		literals = append(literals, asked.byDefault)
	}
	switch text := strings.Join(asked.path, "."); {
	case text == "request.userInfo.username" || strings.HasPrefix(text, "serviceAccount"):
		for _, name := range valuesOf(classText, literals) {
			user := fmt.Sprint(name)
			if strings.HasPrefix(text, "serviceAccount") {
				user = fmt.Sprintf("system:serviceaccount:%s:%s", user, user)
			}
			if len(w.users) < maxValues {
				w.users = append(w.users, user)
			}
		}
		return
	case text == "request.namespace":
		w.ByNamespace = true
		w.reading([]string{"metadata", "namespace"}, reflect.TypeFor[string](), slices.DeleteFunc(valuesOf(classText, literals), func(v any) bool { return v == "" }))
		return
	case asked.path[0] == "request" && len(asked.path) > 1 && asked.path[1] != "object":
		return
	}
	w.readingPath(base.steps, asked.path, asked, base.typ, literals)
}

// readingPath notes the field of a query.
func (w *Written) readingPath(steps, path []string, asked *query, typ reflect.Type, literals []any) {
	at := slices.Clone(steps)
	if asked.projects >= 0 {
		at, typ = append(at, everyElement), elem(typ)
		for _, name := range path[asked.projects:] {
			if typ = fieldpath.Below(typ, name); typ == nil {
				return
			}
			at, typ = append(at, name), pointed(typ)
		}
	}
	var counts []int
	if asked.length && !asked.ofText(typ) {
		for _, n := range valuesOf(classInteger, literals) {
			if n, ok := n.(int64); ok && n <= maxElements {
				counts = append(counts, int(n))
			}
		}
		literals = nil
	}
	if typ.Kind() == reflect.Slice && !opaque(typ) && classOf(elem(typ)) != classNone {
		at, typ = append(at, everyElement), elem(typ)
	}
	w.reading(at, typ, valuesOf(classOf(typ), literals), counts...)
}

// resolve returns the value that the path of a query names; before its projection, if it has one.
func (c *conditions) resolve(steps []string, asked *query) (ref, bool) {
	text, groups := reflect.TypeFor[string](), reflect.TypeFor[[]string]()
	user := func(missing string) string {
		parts := "request.userInfo.username.split(':')"
		return "(" + parts + ".size() >= 4 && request.userInfo.username.startsWith('system:serviceaccount:') ? " + parts + missing + " : '')"
	}
	requests := map[string]ref{
		"request.operation":         {path: "request.operation", typ: text},
		"request.namespace":         {path: "request.namespace", typ: text},
		"request.userInfo.username": {path: "request.userInfo.username", typ: text},
		"request.userInfo.groups":   {path: "request.userInfo.groups", typ: groups},
		"serviceAccountName":        {path: user("[3]"), typ: text},
		"serviceAccountNamespace":   {path: user("[2]"), typ: text},
	}
	if found, ok := requests[strings.Join(asked.path, ".")]; ok && asked.projects < 0 {
		if c.pods && found.path != "request.namespace" {
			c.fails(steps, "%s is that of KubeVirt's request for the pod", strings.Join(asked.path, "."))
		}
		found.steps = asked.path
		return found, true
	}
	found, first := c.root, 2
	switch {
	case c.element != nil && asked.path[0] == "element":
		found, first = *c.element, 1
	case len(asked.path) >= 3 && asked.path[0] == "request" && asked.path[1] == "object":
		c.object = true
	default:
		c.fails(steps, "the variable %s is not converted", texts.Shorten(strings.Join(asked.path, "."), maxQuoted))
		return ref{}, false
	}
	last := len(asked.path)
	if asked.projects >= 0 {
		last = asked.projects
	}
	for _, name := range asked.path[first:last] {
		if !isObject(found.typ) {
			c.fails(steps, "%s is below a field without fields: use a projection []", texts.Shorten(name, maxQuoted))
			return ref{}, false
		}
		below, ok := c.child(found, name)
		if !ok {
			return ref{}, false
		}
		found = below
	}
	if asked.projects >= 0 && (found.typ.Kind() != reflect.Slice || opaque(found.typ)) {
		c.fails(steps, "the projection is of no list")
		return ref{}, false
	}
	return found, true
}

// single returns the result for one value.
func (c *conditions) single(asked *query, base ref, operator operatorOf, operand any) (evaluation, error) {
	class := classOf(base.typ)
	if class == classNone {
		return evaluation{}, fmt.Errorf("the field is an object, or its values have several forms")
	}
	if _, isText := operand.(string); operator.exact && isText {
		return evaluation{}, errExact
	}
	made, err := asked.operandOf(operator, class, operand)
	if err != nil {
		return evaluation{}, err
	}
	present := yes
	value := base.path
	if base.optional {
		present, value = base.guard, base.sure
	}
	if !asked.optional {
		return evaluation{present, made.of(value)}, nil
	}
	// A missing value, false and an empty text have the default.
	if class == classBoolean && !asked.onlyMissing {
		present = guarded(present, test(value))
	}
	fallback, err := asked.fallback(class, made, operator, operand)
	if err != nil {
		return evaluation{}, err
	}
	of := made.of(value)
	if class == classText && asked.byDefault != "" && !asked.onlyMissing {
		present = guarded(present, compared(value, "!=", `""`))
	}
	if class == classText && asked.byDefault == "" && base.optional {
		return evaluation{yes, made.of(base.path + `.orValue("")`)}, nil
	}
	if present.kind == logicTrue {
		return evaluation{yes, of}, nil
	}
	if fallback {
		return evaluation{yes, guardedOr(negated(present), of)}, nil
	}
	return evaluation{yes, guarded(present, of)}, nil
}

// fallback returns the result for the default of a query, of which made is the test.
func (q *query) fallback(field class, made *check, operator operatorOf, operand any) (bool, error) {
	if q.function == nil && !q.length {
		return defaultOf(field, operator, operand, q.byDefault)
	}
	if _, ok := q.byDefault.(string); !ok {
		return false, fmt.Errorf("the default of the variable has another form than the field")
	}
	return made.holds(q.byDefault), nil
}

// defaultOf returns the result for the default of a query about a field of a class.
func defaultOf(field class, operator operatorOf, operand, byDefault any) (bool, error) {
	var class class
	switch value := byDefault.(type) {
	case string:
		class = classText
		_, err := resource.ParseQuantity(value)
		if _, isSpan := time.ParseDuration(value); field == classQuantity && err == nil && (isSpan != nil || value == "0") {
			class = classQuantity
		}
	case bool:
		class = classBoolean
	case float64:
		class = classInteger
		n, err := integerOf(value)
		if err != nil {
			return false, err
		}
		byDefault = n
	default:
		return false, fmt.Errorf("the default of the variable has another form than the field")
	}
	made, err := operator.operandOf(class, operand)
	if err != nil {
		return false, fmt.Errorf("its default: %w", err)
	}
	return made.holds(byDefault), nil
}

// elementOf returns the field that a projection reads of each element. It is false if there is none, which is noted.
func (c *conditions) elementOf(asked *query, element ref) (field ref, ok bool, err error) {
	if asked.projects < 0 {
		return element, true, nil
	}
	for _, step := range asked.path[asked.projects:] {
		if !isObject(element.typ) {
			return ref{}, false, fmt.Errorf("%s is below a field without fields", texts.Shorten(step, maxQuoted))
		}
		below, ok := c.child(element, step)
		if !ok {
			return ref{}, false, nil
		}
		element = below
	}
	return element, true, nil
}

// compares returns an error if an operator does not compare the elements of a list.
func (o operatorOf) compares(class class, operand any) error {
	switch {
	case o.elements == aggregateNone:
		return fmt.Errorf("the operator does not compare the elements of a list: use AnyIn, AllIn, AnyNotIn or AllNotIn")
	case class == classNone:
		return fmt.Errorf("the elements of the list are objects, or have several forms")
	case o.exact && class != classText:
		return fmt.Errorf("the operators In and NotIn fail for a list of other values than texts")
	}
	values, isList := operand.([]any)
	if o.exact && (!isList || slices.ContainsFunc(values, func(v any) bool { text, ok := v.(string); return !ok || wild(text) })) {
		return fmt.Errorf("the operators In and NotIn compare a list with a list of texts without wildcards")
	}
	return nil
}

// list returns the result for a list: of its elements, or of their number.
func (c *conditions) list(asked *query, base ref, operator operatorOf, operand any) (evaluation, error) {
	if base.typ.Kind() != reflect.Slice || opaque(base.typ) {
		return evaluation{}, fmt.Errorf("length() is converted for lists and texts only")
	}
	if asked.function != nil {
		return evaluation{}, fmt.Errorf("%s() is converted for texts only", asked.function.name)
	}
	if list, ok := asked.byDefault.([]any); asked.optional && (!ok || len(list) > 0) {
		return evaluation{}, fmt.Errorf("the default of a list must be `[]`")
	}
	name, done := c.name(base)
	defer done()
	element, ok, err := c.elementOf(asked, ref{path: name, typ: elem(base.typ), steps: base.steps})
	if err != nil || !ok {
		return evaluation{yes, yes}, err
	}
	present, list, has, value := yes, base.path, yes, element.path
	if element.optional {
		has, value = element.guard, element.sure
	}
	if base.optional {
		present, list = base.guard, base.sure
	}
	if asked.optional && base.optional {
		present, list = yes, base.path+".orValue([])"
	}
	if asked.length {
		if has.kind != logicTrue {
			list += ".filter(" + name + ", " + has.String() + ")"
		}
		made, err := operator.operandOf(classInteger, operand)
		if err != nil {
			return evaluation{}, err
		}
		return evaluation{present, made.of(list + ".size()")}, nil
	}
	class := classOf(element.typ)
	if err := operator.compares(class, operand); err != nil {
		return evaluation{}, err
	}
	made, err := operator.operandOf(class, operand)
	if err != nil {
		return evaluation{}, err
	}
	tested := made.of(value)
	var is logic
	if operator.elements == aggregateSome {
		is = test(list + ".exists(" + name + ", " + guarded(has, tested).String() + ")")
	} else {
		is = test(list + ".all(" + name + ", " + disjunction(negated(has), tested).String() + ")")
	}
	if asked.projects >= 0 { // a projection of a missing list has no value, with which every condition is false
		return evaluation{yes, guarded(present, is)}, nil
	}
	return evaluation{present, is}, nil
}

// applied adds the preconditions of a rule in patterns to its validations.
func (p *patterns) applied(r *clusterRule, validations []admissionregistrationv1.Validation, ignores bool) []admissionregistrationv1.Validation {
	if r.Preconditions == nil || len(p.problems) > 0 {
		return validations
	}
	var applies evaluation
	for i, kind := range r.machines(operations[:2]) {
		read := &conditions{patterns: p, root: p.root("object", &kind), variables: contextVariables(r.Context), unread: r.unread()}
		one := read.evaluate([]string{"preconditions"}, r.Preconditions)
		if i > 0 && (one.is.String() != applies.is.String() || one.ok.String() != applies.ok.String()) {
			p.fails([]string{"preconditions"}, "its kinds have other fields: write one rule for each kind")
		}
		applies = one
	}
	skipped := negated(guarded(applies.ok, applies.is)) // an error has a validation of its own
	if skipped.kind == logicTrue && p.pods {
		p.fails([]string{"preconditions"}, "they skip each new pod, so the rule has no effect")
	}
	made := slices.Clone(validations)
	for i := range made {
		if skipped.kind != logicFalse {
			made[i].Expression = skipped.String() + " || (" + made[i].Expression + ")"
		}
		if n := len(made[i].Expression); n > maxExpression {
			p.fails([]string{"preconditions"}, "it becomes an expression of %d bytes, and a policy can have %d: split the rule", n, maxExpression)
		}
	}
	if p.written != nil {
		p.written.Errors = negated(applies.ok).String()
		if unmet := guarded(applies.ok, negated(applies.is)); unmet.kind != logicFalse {
			p.written.Skipped = unmet.String() + " || (" + p.written.Skipped + ")"
		}
	}
	if !ignores && applies.ok.kind != logicTrue {
		made = slices.Insert(made, 0, admissionregistrationv1.Validation{
			Expression: applies.ok.String(), Message: "a precondition of the rule " + strconv.Quote(texts.Shorten(r.Name, maxQuoted)) + " reads a missing field",
		})
	}
	return made
}

// root returns the object that a rule reads: the pod, if the rule is about pods.
func (p *patterns) root(path string, kind *apikinds.Machine) ref {
	if p.pods {
		return ref{path: "pod", typ: podType}
	}
	return ref{path: path, typ: kind.Type}
}

// machines returns the kinds that a rule matches with some operations.
func (r *clusterRule) machines(of []policyv1alpha1.PolicyOperation) []apikinds.Machine {
	var all []apikinds.Machine
	cells := r.cells(operations)
	for _, kind := range apikinds.Machines() {
		if slices.ContainsFunc(of, func(o policyv1alpha1.PolicyOperation) bool {
			return cells[cell{policyv1alpha1.PolicyKind(kind.Kind), o}]
		}) {
			all = append(all, kind)
		}
	}
	return all
}

// denials returns the validations of a rule with deny or foreach, and whether they read the variable subject.
func (p *patterns) denials(r *clusterRule, ignores bool) (validations []admissionregistrationv1.Validation, reads bool) {
	deny, _ := r.Validate.Deny.(map[string]any)
	if r.Validate.Deny != nil && (deny == nil || len(deny) > 1 || len(deny) == 1 && deny["conditions"] == nil) {
		p.fails([]string{"deny"}, "it must have conditions, and nothing else")
		return nil, false
	}
	var first *logic
	var parts []logic
	base, of := "object", operations
	switch {
	case r.Validate.Deny == nil: // at deletions, a list has no elements
		of = operations[:2]
	case len(r.machines(operations[2:])) > 0:
		base = subject
	}
	for _, kind := range r.machines(of) {
		if p.written == nil {
			p.written = r.about(&kind)
		}
		read := &conditions{patterns: p, root: p.root(base, &kind), variables: contextVariables(r.Context), unread: r.unread()}
		applies, denies := read.rule(r, deny, ignores)
		reads = reads || read.object && base == subject
		var holds logic
		holds, parts = admitted(&applies, &denies, ignores)
		p.written.Skipped = guarded(applies.ok, negated(applies.is)).String()
		p.written.Errors = disjunction(negated(applies.ok), guarded(applies.is, negated(denies.ok))).String()
		if first != nil && first.String() != holds.String() {
			p.fails(nil, "its kinds have other fields: write one rule for each kind")
		}
		first = &holds
	}
	if len(p.problems) > 0 || first == nil {
		return nil, reads
	}
	if first.kind == logicTrue {
		p.fails(nil, "no object meets its conditions")
		return nil, reads
	}
	return p.denying(r, parts), reads
}

// rule returns when a rule applies, and when it denies.
func (c *conditions) rule(r *clusterRule, deny map[string]any, ignores bool) (applies, denies evaluation) {
	applies, denies = evaluation{yes, yes}, evaluation{yes, yes}
	if r.Preconditions != nil {
		applies = c.evaluate([]string{"preconditions"}, r.Preconditions)
	}
	switch {
	case len(deny) > 0:
		denies = c.evaluate([]string{"deny", "conditions"}, deny["conditions"])
	case r.Validate.Deny == nil:
		denies = c.loops(r.Validate.ForEach, ignores)
		if len(r.machines(operations[2:])) > 0 && applies.ok.kind != logicTrue {
			c.fails([]string{"preconditions"}, "they can be an error, which denies deletions: name the operations CREATE and UPDATE in the match")
		}
	}
	return applies, denies
}

// admitted is what holds for an object that a rule with deny admits, as a whole and in parts, each of which must hold.
func admitted(applies, denies *evaluation, ignores bool) (holds logic, parts []logic) {
	holds = guarded(applies.ok, disjunction(negated(applies.is), guarded(denies.ok, negated(denies.is))))
	if ignores { // what Kyverno has an error for is admitted
		holds = negated(conjunction(applies.ok, applies.is, denies.ok, denies.is))
	}
	if !applies.always() || denies.ok.kind != logicTrue {
		return holds, []logic{holds}
	}
	for _, one := range denies.is.separate(logicAny) {
		parts = append(parts, negated(one))
	}
	return holds, parts
}

// denying returns a validation for each part of a rule with deny.
func (p *patterns) denying(r *clusterRule, parts []logic) []admissionregistrationv1.Validation {
	message := strings.TrimSpace(r.Validate.Message)
	if message == "" {
		message = "the object meets the conditions of the rule " + strconv.Quote(texts.Shorten(r.Name, maxQuoted))
	}
	if strings.Contains(message, "{{") {
		p.notes["message"] = "its variables are not replaced: write a messageExpression"
	}
	var made []admissionregistrationv1.Validation
	for _, part := range parts {
		if n := len(part.String()); n > maxExpression {
			p.fails(nil, "it becomes an expression of %d bytes, and a policy can have %d: split the rule", n, maxExpression)
			return nil
		}
		made = append(made, admissionregistrationv1.Validation{Expression: part.String(), Message: message})
	}
	return made
}
