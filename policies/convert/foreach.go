package convert

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// loop is an entry of foreach.
type loop struct {
	List          string `json:"list"`
	ElementScope  *bool  `json:"elementScope,omitempty"`
	Preconditions any    `json:"preconditions,omitempty"`
	Deny          any    `json:"deny,omitempty"`
	Pattern       any    `json:"pattern,omitempty"`
	AnyPattern    any    `json:"anyPattern,omitempty"`
	Context       []any  `json:"context,omitempty"`
	ForEach       any    `json:"foreach,omitempty"`
}

// loops returns whether an element of a list of foreach is denied. An error about an element denies too, so the result has none.
func (c *conditions) loops(value any, ignores bool) evaluation {
	list, ok := value.([]any)
	if !ok {
		c.fails([]string{"foreach"}, "it must be a list")
		return evaluation{yes, yes}
	}
	denied := no
	for i, one := range list {
		steps := []string{fmt.Sprintf("foreach[%d]", i)}
		fields, _ := one.(map[string]any)
		read := loop{}
		unknown, err := decodeValue(fields, &read)
		switch {
		case err != nil || len(unknown) > 0:
			c.fails(steps, "it has another form than list, elementScope, preconditions, deny, pattern, anyPattern and context")
		case read.ForEach != nil:
			c.fails(steps, "it has a loop inside: write an expression with exists() in exists()")
		case countOf(read.Deny, read.Pattern, read.AnyPattern) != 1:
			c.fails(steps, "it must have one of deny, pattern and anyPattern")
		default:
			denied = disjunction(denied, c.loop(steps, &read, ignores))
		}
	}
	return evaluation{yes, denied}
}

// countOf returns how many values there are.
func countOf(values ...any) (n int) {
	for _, value := range values {
		if value != nil {
			n++
		}
	}
	return n
}

// loop returns whether an element of the list of a loop is denied, or of one of several lists.
func (c *conditions) loop(steps []string, l *loop, ignores bool) logic {
	asked, err := parsedQuery(l.List)
	if err == nil {
		asked, err = c.inlined(asked)
	}
	if err != nil {
		c.fails(append(slices.Clone(steps), "list"), "%s", err)
		return yes
	}
	if len(asked.among) == 0 {
		return c.loopOver(steps, asked, l, ignores)
	}
	denied := no
	for _, one := range asked.each() {
		denied = disjunction(denied, c.loopOver(steps, one, l, ignores))
	}
	return denied
}

// listOf returns the list of a loop. It is false if there is none, which is noted.
func (c *conditions) listOf(steps []string, asked *query) (base ref, ok bool) {
	steps = append(slices.Clone(steps), "list")
	wrong := func(problem string) (ref, bool) {
		c.fails(steps, "%s", problem)
		return ref{}, false
	}
	if asked.length || asked.function != nil || asked.path[0] != "request" {
		return wrong("it is no path of a list of the object")
	}
	base, ok = c.resolve(steps, asked)
	if !ok {
		return ref{}, false
	}
	if base.typ.Kind() != reflect.Slice || opaque(base.typ) {
		return wrong("it is one value, and no list")
	}
	if list, isList := asked.byDefault.([]any); asked.optional && (!isList || len(list) > 0) {
		return wrong("the default of a list must be `[]`")
	}
	return base, true
}

// loopOver returns whether an element of a list is denied. A list that is missing has none.
func (c *conditions) loopOver(steps []string, asked *query, l *loop, ignores bool) logic {
	base, ok := c.listOf(steps, asked)
	if !ok {
		return yes
	}
	if c.pods && slices.Equal(base.steps, []string{"spec", "ephemeralContainers"}) { // a new pod has none
		return no
	}
	name, done := c.name(base)
	defer done()
	element, ok, err := c.elementOf(asked, ref{path: name, typ: elem(base.typ), steps: append(slices.Clone(base.steps), everyElement)})
	if err != nil {
		c.fails(append(slices.Clone(steps), "list"), "%s", err)
	}
	if err != nil || !ok {
		return yes
	}
	c.readingList(asked, base, element)
	has, assured := yes, element
	if element.optional {
		has, assured = element.guard, element.assured()
	}
	inner := &conditions{patterns: c.patterns, root: c.root, variables: c.inner(l), unread: c.unread, element: &assured}
	fails := guarded(has, inner.elementFails(steps, l, ignores))
	c.object = c.object || inner.object
	list := base.path
	if base.optional {
		list += ".orValue([])"
	}
	switch fails.kind {
	case logicFalse:
		return no
	case logicTrue:
		return compared(list+".size()", ">", "0")
	}
	return test(list + ".exists(" + name + ", " + fails.String() + ")")
}

// readingList notes the list of a loop, for tests.
func (c *conditions) readingList(asked *query, base, element ref) {
	if c.written == nil || c.root.typ != c.written.typ {
		return
	}
	c.written.reading(base.steps, base.typ, nil, 0, 1, 2)
	if asked.projects >= 0 && asked.projects < len(asked.path) {
		c.written.reading(element.steps, element.typ, nil)
	}
}

// inner returns the variables of a loop: its own, and those of the rule.
func (c *conditions) inner(l *loop) map[string]contextVariable {
	all := maps.Clone(c.variables)
	maps.Copy(all, contextVariables(l.Context))
	return all
}

// elementFails returns whether the element of a loop is denied.
func (c *conditions) elementFails(steps []string, l *loop, ignores bool) logic {
	scoped := isObject(c.element.typ)
	if l.ElementScope != nil {
		if *l.ElementScope && !scoped {
			c.fails(append(slices.Clone(steps), "elementScope"), "it is true for values that are no objects, which is an error")
		}
		scoped = *l.ElementScope
	}
	applies := evaluation{yes, yes}
	if l.Preconditions != nil {
		applies = c.evaluate(append(slices.Clone(steps), "preconditions"), l.Preconditions)
	}
	denies := c.denies(steps, l, scoped)
	if ignores && denies.ok.kind != logicTrue {
		c.fails(steps, "with failurePolicy Ignore, what follows an error depends on the order of the elements")
	}
	// An error of the preconditions skips the element.
	return guarded(guarded(applies.ok, applies.is), disjunction(negated(denies.ok), denies.is))
}

// denies returns whether a loop denies its element.
func (c *conditions) denies(steps []string, l *loop, scoped bool) evaluation {
	if l.Deny != nil {
		deny, _ := l.Deny.(map[string]any)
		if len(deny) != 1 || deny["conditions"] == nil {
			c.fails(append(slices.Clone(steps), "deny"), "it must have conditions, and nothing else")
			return evaluation{yes, yes}
		}
		return c.evaluate(append(slices.Clone(steps), "deny", "conditions"), deny["conditions"])
	}
	if !scoped {
		c.fails(append(slices.Clone(steps), "elementScope"), "without it, each element is checked by a pattern of the whole object: write the pattern outside of foreach")
		return evaluation{yes, yes}
	}
	holds, _ := c.patternsOf(*c.element, l.Pattern, l.AnyPattern)
	if c.written != nil && c.root.typ == c.written.typ {
		list, _ := l.AnyPattern.([]any)
		for _, pattern := range append(slices.Clone(list), l.Pattern) {
			c.written.readingPattern(c.element.steps, c.element.typ, pattern)
		}
	}
	return evaluation{yes, negated(holds)}
}

// readingPattern notes the fields of a pattern.
func (w *Written) readingPattern(path []string, typ reflect.Type, pattern any) {
	switch value := pattern.(type) {
	case map[string]any:
		for _, key := range keysOf(value) {
			_, name := splitAnchor(key)
			if below := belowOf(typ, name); below != nil {
				w.readingPattern(append(slices.Clone(path), literalOf(name)), below, value[key])
			}
		}
	case []any:
		if typ.Kind() == reflect.Slice && !opaque(typ) && len(value) > 0 {
			w.readingPattern(append(slices.Clone(path), everyElement), elem(typ), value[0])
		}
	default:
		if typ.Kind() == reflect.Slice && !opaque(typ) {
			w.readingPattern(append(slices.Clone(path), everyElement), elem(typ), value)
			return
		}
		if len(path) > 0 {
			w.reading(path, typ, candidates(classOf(typ), value))
		}
	}
}
