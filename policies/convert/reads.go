package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// everyElement is the step of a path that stands for each element of a list.
const everyElement = "[]"

// read is a field that conditions, or a module, read.
type read struct {
	// path has names and everyElement.
	path []string
	typ  reflect.Type
	// values are at the edges of what the field is compared with, and counts are lengths of a list at the edges.
	values []any
	counts []int
}

// The bounds of what is derived of one rule.
const (
	maxReads     = 60
	maxValues    = 16
	maxElements  = 16
	maxAttempts  = 600
	maxReadCases = 150
)

// reading adds a field to those that are read, or values to those of a field that is there.
func (w *Written) reading(path []string, typ reflect.Type, values []any, counts ...int) {
	if typ == nil {
		return
	}
	if w.pods {
		if path, values = podSource(path, values); path == nil {
			return
		}
	}
	at := strings.Join(path, ".")
	i := slices.IndexFunc(w.reads, func(r read) bool { return strings.Join(r.path, ".") == at })
	if i < 0 {
		if len(w.reads) >= maxReads {
			return
		}
		i = len(w.reads)
		w.reads = append(w.reads, read{path: slices.Clone(path), typ: pointed(typ)})
	}
	r := &w.reads[i]
	for _, value := range values {
		if len(r.values) < maxValues && !slices.ContainsFunc(r.values, func(other any) bool { return reflect.DeepEqual(other, value) }) {
			r.values = append(r.values, value)
		}
	}
	for _, n := range counts {
		if n >= 0 && n <= maxElements && !slices.Contains(r.counts, n) {
			r.counts = append(r.counts, n)
		}
	}
}

// changes returns the changes of a field: each of its values, its absence, and for elements also those of a second element.
func (r *read) changes() []change {
	values := r.values
	if classOf(r.typ) == classNone {
		values = append(slices.Clone(values), example(r.typ))
	}
	place := strings.Join(r.path, ".")
	var all []change
	add := func(name string, apply func(map[string]any)) {
		all = append(all, change{strings.TrimSpace(place + " " + name), place, apply})
	}
	i := slices.Index(r.path, everyElement)
	if i < 0 {
		for _, value := range values {
			if value != nil {
				add("is "+printedValue(value), func(object map[string]any) { placeAt(object, r.path, value) })
			}
		}
		if place != "metadata.namespace" { // a virtual machine always has one
			all = append(all, change{"no " + place, place, func(object map[string]any) { placeAt(object, r.path, nil) }})
		}
		for _, n := range r.counts {
			add(fmt.Sprintf("has %d", n), func(object map[string]any) { resize(object, r.path, n, elem(r.typ)) })
		}
		if r.typ.Kind() == reflect.Slice && !opaque(r.typ) {
			add("is empty", func(object map[string]any) { placeAt(object, r.path, []any{}) })
		}
		return all
	}
	list, inner := r.path[:i], read{path: r.path[i+1:], typ: r.typ, values: r.values}
	for _, n := range r.counts { // of elements that have the field
		add(fmt.Sprintf("in %d", n), func(object map[string]any) {
			elements := make([]any, n)
			for k := range elements {
				one := map[string]any{"name": fmt.Sprintf("item-%d", k+1)}
				placeAt(one, inner.path, example(r.typ))
				elements[k] = one
			}
			placeAt(object, list, elements)
		})
	}
	all = append(all, change{"no " + strings.Join(list, "."), strings.Join(list, "."), func(object map[string]any) { placeAt(object, list, nil) }})
	if len(inner.path) == 0 { // the elements themselves
		for _, value := range values {
			if value == nil {
				continue
			}
			add("is only "+printedValue(value), func(object map[string]any) { placeAt(object, list, []any{value}) })
			add("has also "+printedValue(value), func(object map[string]any) {
				before, _ := fieldOf(object, list).([]any)
				placeAt(object, list, append(slices.Clone(before), value))
			})
		}
		return all
	}
	for _, c := range inner.changes() {
		all = append(all, change{place + ": " + c.name, place, func(object map[string]any) { inElement(object, list, 0, c.apply) }})
	}
	for _, c := range inner.changes() {
		all = append(all, change{place + " of another element: " + c.name, place + "+", func(object map[string]any) { inElement(object, list, 1, c.apply) }})
	}
	return all
}

// printedValue returns a value as the name of a case has it.
func printedValue(value any) string {
	text := fmt.Sprintf("%v", value)
	if s, ok := value.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxQuoted)], "")
}

// resize gives a list a number of elements.
func resize(object map[string]any, path []string, n int, typ reflect.Type) {
	before, _ := fieldOf(object, path).([]any)
	list := slices.Clone(before[:min(n, len(before))])
	for len(list) < n {
		one := example(typ)
		if fields, ok := one.(map[string]any); ok && fields["name"] != nil {
			fields["name"] = fmt.Sprintf("item-%d", len(list)+1)
		}
		list = append(list, one)
	}
	placeAt(object, path, list)
}

// inElement applies a change to an element of a list, which gets an empty one if it is one too short.
func inElement(object map[string]any, path []string, i int, apply func(map[string]any)) {
	before, _ := fieldOf(object, path).([]any)
	list, _ := runtime.DeepCopyJSONValue(append([]any{}, before...)).([]any)
	for len(list) <= i {
		one := map[string]any{}
		if len(list) > 0 {
			if first, ok := list[0].(map[string]any); ok {
				one = runtime.DeepCopyJSON(first)
			}
		}
		if name, ok := one["name"].(string); ok {
			one["name"] = fmt.Sprintf("%s-%d", name, len(list)+1)
		}
		list = append(list, one)
	}
	element, ok := list[i].(map[string]any)
	if !ok {
		return
	}
	apply(element)
	if name, ok := element["name"].(string); !ok || name == "" {
		element["name"] = fmt.Sprintf("item-%d", i+1)
	}
	placeAt(object, path, list)
}

// derivation collects the cases of conditions and modules.
type derivation struct {
	*Written
	*collection

	violates func(Case) (bool, error)
	base     map[string]any
	// changes are those of each field.
	changes [][]change
	// operation is that of most cases, and old is what an update changes.
	operation string
	old       map[string]any
	// found has an object that passes, and one that fails.
	found map[bool]map[string]any
}

// derived returns objects for conditions and modules, whose edges are known but not what passes. It evaluates combinations of values
// until one passes and one fails. Each further case differs from one of the two in one field. Then there are users and updates.
func (w *Written) derived(base map[string]any, violates func(Case) (bool, error)) ([]Case, error) {
	d := &derivation{Written: w, collection: newCollection(maxReadCases), violates: violates, base: base, old: base, operation: w.first()}
	for i := range w.reads {
		d.changes = append(d.changes, w.reads[i].changes())
	}
	least := d.of("the least object", base)
	d.add(least)
	d.found = map[bool]map[string]any{}
	d.evaluate(least, base)
	for _, one := range w.operations {
		d.operation = string(one)
		if d.search(); len(d.found) == 2 {
			break
		}
	}
	if len(d.found) < 2 {
		d.operation = w.first()
	}
	d.edges()
	d.requests()
	return d.cases, d.err
}

// evaluate remembers the first object that passes, and the first that fails.
func (d *derivation) evaluate(c Case, object map[string]any) {
	fails, err := d.violates(c)
	if err != nil {
		d.err = err
		return
	}
	if d.found[fails] == nil {
		d.found[fails] = object
	}
}

// of returns a case about an object.
func (d *derivation) of(name string, object map[string]any) Case {
	return Case{Name: name, Object: object}.with(d.operation, d.old)
}

// search evaluates combinations of values until one passes and one fails.
func (d *derivation) search() {
	for i := 0; i < maxAttempts && len(d.found) < 2 && d.err == nil; i++ {
		object := runtime.DeepCopyJSON(d.base)
		for k, all := range d.changes {
			// Each field has each of its values, or is left, in another rhythm.
			if n := (i*(k+1) + i/(k+2) + k) % (len(all) + 1); n < len(all) {
				all[n].apply(object)
			}
		}
		if i == 0 {
			d.old = object
		}
		d.evaluate(d.of("combined", object), object)
	}
}

// edges adds what differs from what passes, or from what fails, in one field.
func (d *derivation) edges() {
	for _, fails := range []bool{false, true} {
		object, ok := d.found[fails]
		if !ok {
			continue
		}
		from := map[bool]string{false: "what passes", true: "what fails"}[fails]
		d.add(d.of(from, object))
		for _, c := range slices.Concat(d.changes...) {
			if d.full() {
				return
			}
			changed := runtime.DeepCopyJSON(object)
			c.apply(changed)
			d.add(d.of(from+", but "+c.name, changed))
		}
	}
}

// requests adds requests by other users, and of other operations.
func (d *derivation) requests() {
	for _, user := range d.users {
		for _, fails := range []bool{false, true} {
			if object, ok := d.found[fails]; ok {
				c := d.of("the user "+user, object)
				c.User = user
				d.add(c)
			}
		}
	}
	passes, fails := d.found[false], d.found[true]
	if passes == nil || fails == nil {
		return
	}
	for _, c := range []Case{
		{Name: "an update of what passes to what fails", Operation: "UPDATE", Object: fails, OldObject: passes},
		{Name: "an update of what fails to what passes", Operation: "UPDATE", Object: passes, OldObject: fails},
		{Name: "an update of what fails", Operation: "UPDATE", Object: annotated(fails), OldObject: fails},
		{Name: "the deletion of what passes", Operation: "DELETE", OldObject: passes},
		{Name: "the deletion of what fails", Operation: "DELETE", OldObject: fails},
		{Name: "the creation of what fails", Object: fails},
	} {
		if slices.Contains(d.operations, policyv1alpha1.PolicyOperation(c.operation())) && c.keepsNamespace() {
			d.add(c)
		}
	}
}

// keepsNamespace reports whether an update leaves the namespace as it is, as each does.
func (c *Case) keepsNamespace() bool {
	namespace := []string{"metadata", "namespace"}
	return c.Object == nil || c.OldObject == nil || fieldOf(c.Object, namespace) == fieldOf(c.OldObject, namespace)
}

// annotated returns an object with another annotation.
func annotated(object map[string]any) map[string]any {
	changed := runtime.DeepCopyJSON(object)
	placeAt(changed, []string{"metadata", "annotations", "changed"}, "x")
	return changed
}

// first is the operation of most cases: CREATE, if the rule has it.
func (w *Written) first() string {
	for _, operation := range operations {
		if slices.Contains(w.operations, operation) {
			return string(operation)
		}
	}
	return string(policyv1alpha1.PolicyCreate)
}

// with returns a case with another operation. old is what an update changes.
func (c Case) with(operation string, old map[string]any) Case {
	switch operation {
	case "UPDATE":
		c.Operation, c.OldObject = operation, old
	case "DELETE":
		c.Operation, c.Object, c.OldObject = operation, nil, c.Object
	}
	return c
}

// operation is that of the request.
func (c *Case) operation() string {
	if c.Operation == "" {
		return string(policyv1alpha1.PolicyCreate)
	}
	return c.Operation
}

// valuesOf returns values of a class at the edges of literals.
func valuesOf(c class, literals []any) []any {
	var all []any
	add := func(values ...any) {
		for _, value := range values {
			if !slices.ContainsFunc(all, func(other any) bool { return reflect.DeepEqual(other, value) }) {
				all = append(all, value)
			}
		}
	}
	written := make([]string, 0, len(literals))
	for _, literal := range literals {
		if list, ok := literal.([]any); ok {
			add(valuesOf(c, list)...)
			continue
		}
		text := fmt.Sprint(literal)
		written = append(written, text)
		switch c {
		case classText:
			add(literalOf(text))
		case classQuantity:
			if _, err := resource.ParseQuantity(text); err == nil {
				add(edges(c, text)...)
			}
		case classInteger:
			add(edges(c, text)...)
		}
	}
	switch c {
	case classText:
		add("other", "")
		for _, text := range written {
			add(edges(c, text)...)
		}
	case classBoolean:
		add(true, false)
	case classInteger:
		add(int64(1), int64(1000))
	case classQuantity:
		add("1Gi", "1Ei")
	}
	return all
}
