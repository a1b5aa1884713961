package convert

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/virtward/virtward/fieldpath"
)

// outcome is what a pattern, or a part of one, makes of a value: it passes, fails, or does not apply.
type outcome struct {
	// holds is false if the part fails. skipped is true if the part does not apply; then it holds.
	holds, skipped logic
	// rest is holds of a part that is known not to be skipped; the same if it is never skipped.
	rest *logic
	// strict reports whether holds is false if the value is missing, even when nothing tests that before.
	strict bool
	// global reports whether an anchor <() can skip the part.
	global bool
}

// passes is true if the part neither fails nor is skipped.
func (o outcome) passes() logic { return conjunction(negated(o.skipped), o.unskipped()) }

// unskipped is false if a part fails that is known not to be skipped.
func (o outcome) unskipped() logic {
	if o.rest != nil {
		return *o.rest
	}
	return o.holds
}

// ref is a value that a pattern is about.
type ref struct {
	// path is the expression of the value. If it is optional, the value can be missing: then there is one if present is true.
	path     string
	optional bool
	present  logic
	// guard is present as a test that is read before sure, which is the expression of a value that exists.
	guard logic
	sure  string
	typ   reflect.Type
	// silent reports whether the documents have no zero value of the field: it is missing then.
	silent bool
	// steps are those of the pattern, for messages.
	steps []string
}

// absence is what a missing value does to the part about it.
type absence int

const (
	// absenceByPattern: a missing value is compared as null.
	absenceByPattern absence = iota
	absenceFails
	absencePasses
)

// patterns reads one pattern.
type patterns struct {
	// problems are the parts without an equivalent, by their fields, and notes those with a surprising one.
	problems, notes map[string]string
	order           []string
	// names are the variables of the loops around a part.
	names []string
	// written is the rule that was read.
	written *Written
	// pods reports whether the object is the pod of a virtual machine.
	pods bool
}

func newPatterns() *patterns {
	return &patterns{problems: map[string]string{}, notes: map[string]string{}}
}

// fails notes a part without an equivalent.
func (p *patterns) fails(steps []string, format string, values ...any) outcome {
	at := strings.ReplaceAll(strings.Join(steps, "."), "."+everyElement, everyElement)
	if _, ok := p.problems[at]; !ok {
		p.order = append(p.order, at)
		p.problems[at] = fmt.Sprintf(format, values...)
	}
	return unknown
}

// unknown is the outcome of a part without an equivalent.
var unknown = outcome{holds: yes, skipped: no, strict: true}

// anchored is a key of a pattern without its anchor.
var anchored = regexp.MustCompile(`^([+<=X^])?\((.+)\)$`)

// splitAnchor returns the anchor of a key: "()" without a modifier, and empty if there is none.
func splitAnchor(key string) (anchor, name string) {
	parts := anchored.FindStringSubmatch(strings.TrimSpace(key))
	if parts == nil {
		return "", key
	}
	return parts[1] + "()", parts[2]
}

// element returns the outcome of a value.
func (p *patterns) element(r ref, pattern any, absent absence) outcome {
	typ := r.typ
	switch value := pattern.(type) {
	case map[string]any:
		if !isObject(typ) {
			return p.fails(r.steps, "a pattern of an object never matches the field")
		}
		return p.object(r, value, absent)
	case []any:
		if typ.Kind() != reflect.Slice || opaque(typ) {
			return p.fails(r.steps, "a pattern of a list never matches the field")
		}
		return p.list(r, value, absent)
	}
	switch {
	case isObject(typ):
		if pattern != nil || !r.optional || absent == absenceFails {
			return p.fails(r.steps, "a pattern of one value never matches an object")
		}
		return outcome{holds: negated(r.present), skipped: no}
	case typ.Kind() == reflect.Slice && !opaque(typ):
		return p.each(r, pattern, absent)
	case classOf(typ) == classNone:
		return p.fails(r.steps, "the values of the field have several forms")
	}
	c, err := checkOf(classOf(typ), pattern)
	if err != nil {
		return p.fails(r.steps, "%s", err)
	}
	return p.value(r, c, absent)
}

// value returns the outcome of one value without fields.
func (p *patterns) value(r ref, c *check, absent absence) outcome {
	if !r.optional {
		return outcome{holds: c.of(r.path), skipped: no}
	}
	missing, zero := c.holds(nil), zeros[classOf(r.typ)]
	switch absent {
	case absenceFails:
		missing = false
	case absencePasses:
		missing = true
	}
	switch r.typ.Kind() {
	case reflect.Bool:
		if r.silent && c.holds(false) && !missing {
			return p.fails(r.steps, "the documents of a policy do not have the field when it is false, and the pattern fails for a missing field")
		}
	default:
		if n, ok := zero.value.(int64); ok && r.silent && c.holds(n) && !missing && !c.holds(n+1) {
			return p.fails(r.steps, "the documents of a policy do not have the field when it is 0, and the pattern fails for a missing field")
		}
	}
	for _, byDefault := range []struct {
		text  string
		value any
	}{zero, {"true", true}} {
		if _, is := byDefault.value.(bool); is != (r.typ.Kind() == reflect.Bool) || c.holds(byDefault.value) != missing {
			continue
		}
		if tested := c.of(r.path + ".orValue(" + byDefault.text + ")"); len(tested.parts) <= 2 {
			return outcome{holds: tested, skipped: no, strict: !missing}
		}
	}
	tested := c.of(r.sure)
	if missing {
		return outcome{holds: guardedOr(negated(r.guard), tested), skipped: no}
	}
	return outcome{holds: guarded(r.guard, tested), skipped: no, strict: true}
}

// object returns the outcome of an object.
func (p *patterns) object(r ref, pattern map[string]any, absent absence) outcome {
	if !r.optional {
		return p.fields(r, pattern)
	}
	if absent != absencePasses {
		if whole := p.fields(r, pattern); whole.strict && whole.skipped.kind == logicFalse {
			return whole
		}
	}
	return ifPresent(r, p.fields(r.assured(), pattern), absent)
}

// ifPresent returns the outcome of a value that can be missing, from its outcome if it is not.
func ifPresent(r ref, inner outcome, absent absence) outcome {
	rest := inner.unskipped()
	inner.skipped, inner.rest = guarded(r.guard, inner.skipped), &rest
	if absent == absencePasses {
		rest = guardedOr(negated(r.guard), rest)
		inner.holds, inner.strict = guardedOr(negated(r.guard), inner.holds), false
	} else {
		rest = guarded(r.guard, rest)
		inner.holds, inner.strict = guarded(r.guard, inner.holds), true
	}
	return inner
}

// list returns the outcome of a list whose elements match a pattern. Of several patterns, only the first one applies.
func (p *patterns) list(r ref, pattern []any, absent absence) outcome {
	if len(pattern) == 0 {
		return p.fails(r.steps, "an empty list in a pattern never matches")
	}
	if len(pattern) > 1 {
		p.notes[strings.Join(r.steps, ".")] = "of a list in a pattern, Kyverno reads only the first element"
	}
	if _, nested := pattern[0].([]any); nested {
		return p.fails(r.steps, "a list of lists never matches the field")
	}
	list := r
	if r.optional {
		list = r.assured()
	}
	inner := p.elements(list, pattern[0])
	if !r.optional {
		return inner
	}
	return ifPresent(r, inner, absent)
}

// elements returns the outcome of all elements of a list that exists.
func (p *patterns) elements(list ref, pattern any) outcome {
	name, done := p.name(list)
	defer done()
	one := p.element(ref{path: name, typ: elem(list.typ), steps: list.steps}, pattern, absenceByPattern)
	made := outcome{holds: yes, skipped: no}
	if one.holds.kind != logicTrue {
		made.holds = test(list.path + ".all(" + name + ", " + one.holds.String() + ")")
	}
	if one.skipped.kind != logicFalse {
		made.skipped = conjunction(compared(list.path+".size()", ">", "0"), test(list.path+".all("+name+", "+one.skipped.String()+")"))
	}
	return made
}

// each returns the outcome of a list that a pattern of one value is applied to: all elements match it.
func (p *patterns) each(r ref, pattern any, absent absence) outcome {
	typ := elem(r.typ)
	missing := absent == absencePasses
	if classOf(typ) == classNone {
		if pattern != nil {
			return p.fails(r.steps, "a pattern of one value never matches a list of objects")
		}
		switch {
		case !r.optional:
			return outcome{holds: compared(r.path+".size()", "==", "0"), skipped: no}
		case absent == absenceFails:
			return outcome{holds: guarded(r.guard, compared(r.sure+".size()", "==", "0")), skipped: no, strict: true}
		}
		return outcome{holds: compared(r.path+".orValue([]).size()", "==", "0"), skipped: no}
	}
	c, err := checkOf(classOf(typ), pattern)
	if err != nil {
		return p.fails(r.steps, "%s", err)
	}
	if absent == absenceByPattern {
		missing = c.holds(nil)
	}
	all := func(list string) logic {
		name, done := p.name(r)
		defer done()
		if tested := c.of(name); tested.kind != logicTrue {
			return test(list + ".all(" + name + ", " + tested.String() + ")")
		}
		return yes
	}
	switch {
	case !r.optional:
		return outcome{holds: all(r.path), skipped: no}
	case missing:
		return outcome{holds: all(r.path + ".orValue([])"), skipped: no}
	}
	return outcome{holds: guarded(r.guard, all(r.sure)), skipped: no, strict: true}
}

// name returns a name for the elements of a list.
func (p *patterns) name(list ref) (name string, done func()) {
	last := "element"
	if n := len(list.steps); n > 0 && list.steps[n-1] != everyElement {
		last = list.steps[n-1]
	}
	name = strings.ToLower(last[:1])
	for n := 2; slices.Contains(p.names, name); n++ {
		name = fmt.Sprintf("%s%d", strings.ToLower(last[:1]), n)
	}
	p.names = append(p.names, name)
	return name, func() { p.names = p.names[:len(p.names)-1] }
}

// fields returns the outcome of the keys of a pattern: first those with the anchors (), =(), X() and ^(), then the others.
func (p *patterns) fields(r ref, pattern map[string]any) outcome {
	if isLabels(r) {
		pattern = p.texts(r, pattern)
	}
	var first, conditions, later []string
	known := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(pattern)) {
		anchor, name := splitAnchor(key)
		if known[name] && slices.Contains([]string{"metadata", "labels", "annotations"}, name) {
			return p.fails(append(slices.Clone(r.steps), name), "it is there twice, and Kyverno expands the wildcards of one of them")
		}
		known[name] = true
		for other := range known {
			if isLabels(r) && other != name && (isLike(other, name) || isLike(name, other)) {
				return p.fails(append(slices.Clone(r.steps), name), "another key of the pattern matches it, and Kyverno reads one of them")
			}
		}
		switch anchor {
		case "()":
			conditions = append(conditions, key)
		case "=()", "X()", "^()":
			first = append(first, key)
		default:
			later = append(later, key)
		}
	}
	made := outcome{holds: yes, skipped: no}
	for _, key := range slices.Backward(nestedFirst(pattern, later)) {
		one := p.later(r, key, pattern[key])
		if one.skipped.kind != logicFalse && made.holds.kind != logicTrue {
			p.notes[strings.Join(append(slices.Clone(r.steps), key), ".")] = "where its conditions in () are not met, Kyverno skips the whole rule: " +
				"the policy then checks nothing else either"
		}
		made = followed(one, made)
	}
	if len(first) > 0 {
		made = followed(p.together(r, pattern, first, len(conditions) == 0), made)
	}
	if len(conditions) > 0 {
		all := make([]logic, len(conditions))
		for i, key := range conditions {
			_, name := splitAnchor(key)
			all[i] = p.condition(r, name, pattern[key])
		}
		made = followed(outcome{holds: yes, skipped: negated(conjunction(all...))}, made)
	}
	return made
}

// followed returns the outcome of a part and the rest, which is evaluated if the part passes.
func followed(first, rest outcome) outcome {
	is := first.unskipped()
	passes := conjunction(is, rest.unskipped())
	made := outcome{holds: unless(first.skipped, is, rest.holds), skipped: unless(first.skipped, is, rest.skipped), rest: &passes, global: first.global || rest.global}
	if rest.holds.kind == logicTrue {
		made.holds = first.holds
	}
	if first.skipped.kind == logicFalse {
		made.strict = first.strict || rest.strict
	}
	return made
}

// together returns the outcome of the anchors =(), X() and ^() of an object. A part of them that is skipped counts only if all are.
func (p *patterns) together(r ref, pattern map[string]any, keys []string, only bool) outcome {
	all := make([]outcome, len(keys))
	skipped, holds := yes, yes
	made := outcome{}
	for i, key := range keys {
		anchor, name := splitAnchor(key)
		all[i] = p.anchor(r, anchor, name, pattern[key])
		if all[i].global && (len(keys) > 1 || !only) {
			return p.fails(append(slices.Clone(r.steps), key), "an anchor <() below it has an effect on the anchors beside it")
		}
		skipped, holds = conjunction(skipped, all[i].skipped), conjunction(holds, all[i].holds)
		made.strict, made.global = made.strict || all[i].strict, made.global || all[i].global
	}
	made.holds, made.skipped = holds, skipped
	if len(keys) == 1 {
		made.rest = all[0].rest
	}
	if !only {
		made.skipped, made.rest = no, nil
	}
	return made
}

// condition returns when a part with the anchor (), or <(), passes.
func (p *patterns) condition(r ref, name string, pattern any) logic {
	if keys, like, ok := p.wildKey(r, name); ok {
		one := p.element(r.entry(keys, name), pattern, absenceFails)
		return test(r.keys() + ".exists(" + keys + ", " + conjunction(like, one.passes()).String() + ")")
	}
	child, ok := p.child(r, name)
	if !ok {
		return no
	}
	return p.element(child, pattern, absenceFails).passes()
}

// anchor returns the outcome of a part with an anchor that does not skip.
func (p *patterns) anchor(r ref, anchor, name string, pattern any) outcome {
	keys, like, isWild := p.wildKey(r, name)
	if isWild && anchor == "X()" {
		return outcome{holds: negated(test(r.keys() + ".exists(" + keys + ", " + like.String() + ")")), skipped: no}
	}
	if isWild {
		one := p.element(r.entry(keys, name), pattern, absenceFails)
		return outcome{holds: test(r.keys() + ".all(" + keys + ", " + disjunction(negated(like), one.holds).String() + ")"), skipped: no}
	}
	child, ok := p.child(r, name)
	switch {
	case !ok:
		return unknown
	case anchor == "X()" && !child.optional:
		return p.fails(child.steps, "the field is always there, so X() always fails")
	case anchor == "X()":
		return outcome{holds: negated(child.present), skipped: no}
	case anchor == "^()":
		return p.existence(child, pattern)
	}
	return p.element(child, pattern, absencePasses)
}

// existence returns the outcome of ^(): for each pattern, an element of the list passes. A missing list does too.
func (p *patterns) existence(r ref, pattern any) outcome {
	list, ok := pattern.([]any)
	if !ok || r.typ.Kind() != reflect.Slice || opaque(r.typ) {
		return p.fails(r.steps, "^() is for lists of objects")
	}
	name, done := p.name(r)
	defer done()
	sure := r
	if r.optional {
		sure = r.assured()
	}
	var all []logic
	for _, one := range list {
		fields, ok := one.(map[string]any)
		if !ok {
			return p.fails(r.steps, "^() is for lists of objects")
		}
		made := p.element(ref{path: name, typ: elem(r.typ), steps: r.steps}, fields, absenceByPattern)
		all = append(all, test(sure.path+".exists("+name+", "+made.passes().String()+")"))
	}
	if !r.optional {
		return outcome{holds: conjunction(all...), skipped: no}
	}
	return outcome{holds: guardedOr(negated(r.guard), conjunction(all...)), skipped: no}
}

// later returns the outcome of a key without an anchor, or with the anchor <().
func (p *patterns) later(r ref, key string, pattern any) outcome {
	anchor, name := splitAnchor(key)
	at := append(slices.Clone(r.steps), key)
	switch anchor {
	case "+()":
		return p.fails(at, "the anchor +() is for mutations")
	case "<()":
		if keys, like, ok := p.wildKey(r, name); ok {
			one := p.element(r.entry(keys, name), pattern, absenceFails)
			some := test(r.keys() + ".exists(" + keys + ", " + conjunction(like, negated(one.passes())).String() + ")")
			return outcome{holds: yes, skipped: some, global: true}
		}
		child, ok := p.child(r, name)
		if !ok {
			return unknown
		}
		present := yes
		if child.optional {
			present = child.present
		}
		return outcome{holds: yes, skipped: conjunction(present, negated(p.condition(r, name, pattern))), global: true}
	}
	if keys, like, ok := p.wildKey(r, name); ok {
		one := outcome{holds: yes, skipped: no}
		if pattern != "*" {
			one = p.element(r.entry(keys, name), pattern, absenceFails)
		}
		return outcome{holds: test(r.keys() + ".exists(" + keys + ", " + conjunction(like, one.holds).String() + ")"), skipped: no, strict: true}
	}
	child, ok := p.child(r, name)
	switch {
	case !ok:
		return unknown
	case pattern == "*" && !child.optional:
		return outcome{holds: yes, skipped: no}
	case pattern == "*":
		return outcome{holds: child.present, skipped: no, strict: true}
	}
	return p.element(child, pattern, absenceByPattern)
}

// nestedFirst returns the keys in the order in which they are evaluated: those with anchors below them first, the last one
// before the others.
func nestedFirst(pattern map[string]any, keys []string) []string {
	var first, rest []string
	for _, key := range keys {
		if anchor, _ := splitAnchor(key); anchor == "<()" || hasAnchors(pattern[key]) {
			first = append(first, key)
		} else {
			rest = append(rest, key)
		}
	}
	slices.Reverse(first)
	return slices.Concat(first, rest)
}

// hasAnchors reports whether there is an anchor below a pattern.
func hasAnchors(pattern any) bool {
	switch value := pattern.(type) {
	case map[string]any:
		for key, below := range value {
			if anchor, _ := splitAnchor(key); anchor != "" && anchor != "+()" || hasAnchors(below) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasAnchors)
	}
	return false
}

// isLabels reports whether a value is the labels or the annotations of metadata, whose keys can have wildcards.
func isLabels(r ref) bool {
	n := len(r.steps)
	return n >= 2 && r.steps[n-2] == "metadata" && (r.steps[n-1] == "labels" || r.steps[n-1] == "annotations")
}

// texts returns the keys of labels whose patterns are texts: Kyverno leaves out the others.
func (p *patterns) texts(r ref, pattern map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range pattern {
		if _, ok := value.(string); ok {
			kept[key] = value
		} else {
			p.notes[strings.Join(append(slices.Clone(r.steps), key), ".")] = "Kyverno ignores patterns of labels and annotations that are no texts"
		}
	}
	return kept
}

// wildKey returns a name for the keys of labels that match a key with wildcards, and their test.
func (p *patterns) wildKey(r ref, name string) (key string, like logic, ok bool) {
	if !isLabels(r) || !wild(name) {
		return "", yes, false
	}
	if unknown := keyUnknown(r.steps, name); p.pods && unknown != "" {
		p.fails(append(slices.Clone(r.steps), name), "%s", unknown)
	}
	key = "k"
	for n := 2; slices.Contains(p.names, key); n++ {
		key = fmt.Sprintf("k%d", n)
	}
	if strings.Trim(name, "*") == "" {
		return key, yes, true
	}
	return key, wildcards(key, name), true
}

// keys returns the expression of a map for a loop over its keys.
func (r ref) keys() string {
	if r.optional {
		return r.path + ".orValue({})"
	}
	return r.path
}

// entry returns the value of a key in a loop over the keys of a map.
func (r ref) entry(key, name string) ref {
	base := r.path
	if r.optional {
		base = r.sure
	}
	return ref{path: base + "[" + key + "]", typ: elem(r.typ), steps: append(slices.Clone(r.steps), name)}
}

// assured returns the value when it is known to exist.
func (r ref) assured() ref {
	r.path, r.optional = r.sure, false
	return r
}

// simple is a name that can follow a dot.
var simple = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// child returns the value of a key.
func (p *patterns) child(r ref, name string) (ref, bool) {
	steps := append(slices.Clone(r.steps), name)
	if p.pods {
		row, unknown := podFieldOf(steps)
		if unknown != "" {
			p.fails(steps, "%s", unknown)
			return ref{}, false
		}
		if known, ok := row.known(steps); ok {
			return known, true
		}
	}
	sure := r.path
	if r.optional {
		sure = r.sure
	}
	if r.typ.Kind() == reflect.Map {
		key := quote(name)
		made := ref{path: r.path + "[?" + key + "]", optional: true, sure: sure + "[" + key + "]", typ: elem(r.typ), steps: steps}
		made.exists(r, contained(key, sure))
		return made, true
	}
	field, ok := fieldpath.FieldOf(r.typ, name)
	if !ok || !simple.MatchString(name) {
		p.fails(steps, "KubeVirt has no such field")
		return ref{}, false
	}
	made := ref{path: r.path + "." + name, sure: sure + "." + name, typ: pointed(field.Type), steps: steps}
	if r.optional || field.OmitEmpty && field.Type.Kind() != reflect.Struct {
		made.path, made.optional = r.path+".?"+name, true
		made.exists(r, test("has("+made.sure+")"))
		made.silent = field.OmitEmpty && field.Type.Kind() != reflect.Pointer
	}
	return made, true
}

// exists sets when the value exists, from a test that is read if the value around it exists.
func (r *ref) exists(around ref, is logic) {
	r.present, r.guard = is, is
	if around.optional {
		r.present, r.guard = test(r.path+".hasValue()"), conjunction(around.guard, is)
	}
}

func pointed(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func elem(t reflect.Type) reflect.Type { return pointed(t.Elem()) }

// opaque reports whether the JSON of a type is not that of its fields or elements.
func opaque(t reflect.Type) bool {
	return fieldpath.Opaque(t) || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func isObject(t reflect.Type) bool {
	return (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) && !opaque(t)
}
