package convert

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time" //nolint:depguard // durations are parsed; there is no clock here

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/fieldpath"
)

// Case is a request for which a rule passes, fails, is skipped, or has an error.
type Case struct {
	// Name says what differs from another case.
	Name string
	// Object is nil for a DELETE, and OldObject for a CREATE.
	Object, OldObject map[string]any
	// Operation is CREATE if it is empty.
	Operation string
	// User is the name of the requester, if it matters.
	User string
}

// maxCases bounds the cases of one rule, maxPairs those with two differences, and maxDerived their objects in bytes of JSON.
const (
	maxCases   = 400
	maxPairs   = 60
	maxDerived = 2 << 20
)

// ErrTooLarge is the error of a rule whose cases would be too large together.
var ErrTooLarge = fmt.Errorf("its tests would have more than %d MiB of objects: shorten the values of the rule, or split it", maxDerived>>20)

// collection collects cases about different requests.
type collection struct {
	cases []Case
	most  int
	known map[[sha256.Size]byte]bool
	names map[string]bool
	bytes int
	// err ends the derivation.
	err error
}

func newCollection(most int) *collection {
	return &collection{most: most, known: map[[sha256.Size]byte]bool{}, names: map[string]bool{}}
}

// full reports whether no case can be added.
func (c *collection) full() bool { return c.err != nil || len(c.cases) >= c.most }

// add adds a case, unless there is one about the same request.
func (c *collection) add(one Case) {
	if c.full() {
		return
	}
	content, err := json.Marshal([]any{one.Object, one.OldObject, one.Operation, one.User})
	if err != nil {
		c.err = fmt.Errorf("encoding the case %q: %w", one.Name, err)
		return
	}
	digest := sha256.Sum256(content)
	if c.known[digest] {
		return
	}
	if c.bytes += len(content); c.bytes > maxDerived {
		c.err = ErrTooLarge
		return
	}
	for n, name := 2, one.Name; c.names[one.Name]; n++ {
		one.Name = fmt.Sprintf("%s (%d)", name, n)
	}
	c.known[digest], c.names[one.Name] = true, true
	c.cases = append(c.cases, one)
}

// change makes an object differ in one place.
type change struct {
	name  string
	place string
	apply func(object map[string]any)
}

// Cases derives requests from a rule. violates evaluates the policy; its error ends the derivation. Of patterns, the first object passes, if
// one can. Each other one differs in one field: it has values at the edges of its pattern, is missing, is empty or has another element.
// Then two fields differ. Of conditions and modules, the cases are those of derived. It returns none for kinds other than VirtualMachine.
func (w *Written) Cases(violates func(Case) (bool, error)) ([]Case, error) {
	if w.kind != apikinds.VirtualMachine {
		return nil, nil
	}
	base := w.least()
	if len(w.patterns) == 0 {
		return w.derived(base, violates)
	}
	return w.matching(base)
}

// least returns an object with the fields that each virtual machine has, and those of the match.
func (w *Written) least() map[string]any {
	base := map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": w.kind, "metadata": map[string]any{"name": "sample", "namespace": "team-a"},
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{
			"domain": map[string]any{"memory": map[string]any{"guest": "1Gi"}, "devices": map[string]any{}},
		}}},
	}
	if w.namespace != "" {
		placeAt(base, []string{"metadata", "namespace"}, w.namespace)
	}
	labels := []string{"metadata", "labels"}
	if w.pods {
		labels = []string{"spec", "template", "metadata", "labels"}
		template := []string{"spec", "template", "spec"}
		// The pod requests what the virtual machine does, and has a second container.
		placeAt(base, append(slices.Clone(template), "domain", "resources", "overcommitGuestOverhead"), true)
		shared := map[string]any{"name": "shared", "virtiofs": map[string]any{}}
		placeAt(base, append(slices.Clone(template), "domain", "devices", "filesystems"), []any{shared})
		placeAt(base, append(slices.Clone(template), "volumes"), []any{map[string]any{"name": "shared", "configMap": map[string]any{"name": "shared"}}})
	}
	for label, value := range w.labels {
		placeAt(base, append(slices.Clone(labels), label), value)
	}
	return base
}

// matching derives objects from patterns.
func (w *Written) matching(base map[string]any) ([]Case, error) {
	var changes []change
	for i, pattern := range w.patterns {
		fields, ok := pattern.(map[string]any)
		if !ok {
			continue
		}
		if i == 0 {
			fill(base, w.typ, fields)
		}
		changes = append(changes, changesOf(nil, w.typ, fields)...)
	}
	for i := range w.reads {
		changes = append(changes, w.reads[i].changes()...)
	}
	all := newCollection(maxCases)
	all.add(Case{Name: "as the pattern", Object: base})
	add := func(name string, apply ...func(map[string]any)) {
		if all.full() {
			return
		}
		object := runtime.DeepCopyJSON(base)
		for _, one := range apply {
			one(object)
		}
		all.add(Case{Name: name, Object: object})
	}
	for _, c := range changes {
		add(c.name, c.apply)
	}
	pairs := 0
	for i, c := range changes {
		if all.full() {
			break
		}
		for _, other := range changes[i+1:] {
			if c.place != other.place && pairs < maxPairs*len(changes) {
				if pairs++; pairs%max(1, len(changes)*len(changes)/(2*maxPairs)) == 0 {
					add(c.name+", "+other.name, c.apply, other.apply)
				}
			}
		}
	}
	return all.cases, all.err
}

// fill adds to an object what passes a pattern.
func fill(object map[string]any, typ reflect.Type, pattern map[string]any) {
	for _, key := range keysOf(pattern) {
		anchor, name := splitAnchor(key)
		below := belowOf(typ, name)
		if below == nil {
			continue
		}
		name = literalOf(name)
		if anchor == "X()" {
			delete(object, name)
			continue
		}
		switch value := filled(below, pattern[key], object[name]); value {
		case nil:
			delete(object, name)
		default:
			object[name] = value
		}
	}
}

// filled returns a value that passes a pattern, based on another one.
func filled(typ reflect.Type, pattern, before any) any {
	switch p := pattern.(type) {
	case map[string]any:
		made, ok := before.(map[string]any)
		if !ok {
			made, _ = example(typ).(map[string]any)
		}
		if made != nil {
			fill(made, typ, p)
		}
		return made
	case []any:
		if typ.Kind() != reflect.Slice || opaque(typ) {
			return nil
		}
		list := []any{}
		for _, one := range p {
			list = append(list, filled(elem(typ), one, nil))
		}
		return list
	}
	switch {
	case pattern == nil:
		return nil
	case typ.Kind() == reflect.Slice && !opaque(typ) && pattern != "*":
		return []any{filled(elem(typ), pattern, nil)}
	case classOf(typ) == classNone:
		return example(typ)
	}
	c, err := checkOf(classOf(typ), pattern)
	if err != nil {
		return nil
	}
	for _, value := range candidates(classOf(typ), pattern) {
		if c.holds(value) {
			return value
		}
	}
	return nil
}

// changesOf returns the changes at the fields of a pattern. path leads to the object of the pattern.
func changesOf(path []string, typ reflect.Type, pattern map[string]any) []change {
	var all []change
	for _, key := range keysOf(pattern) {
		anchor, name := splitAnchor(key)
		below := belowOf(typ, name)
		if below == nil {
			continue
		}
		at := append(slices.Clone(path), literalOf(name))
		place := strings.Join(at, ".")
		set := func(title string, value any) {
			all = append(all, change{place + " " + title, place, func(object map[string]any) { placeAt(object, at, value) }})
		}
		if anchor == "X()" {
			set("exists", example(below))
			continue
		}
		all = append(all, change{"no " + place, place, func(object map[string]any) { placeAt(object, at, nil) }})
		switch value := pattern[key].(type) {
		case map[string]any:
			all = append(all, changesOf(at, below, value)...)
			continue
		case []any:
			if below.Kind() != reflect.Slice || opaque(below) {
				continue
			}
			set("is empty", []any{})
			for i, one := range value {
				fields, ok := one.(map[string]any)
				if !ok {
					for _, other := range candidates(classOf(elem(below)), one) {
						set(fmt.Sprintf("is %v", other), []any{other})
					}
					continue
				}
				all = append(all, elementChanges(at, i, elem(below), fields)...)
			}
			continue
		}
		if below.Kind() == reflect.Slice && !opaque(below) {
			set("is empty", []any{})
			for _, other := range candidates(classOf(elem(below)), pattern[key]) {
				set(fmt.Sprintf("is %v", other), []any{other})
			}
			continue
		}
		if classOf(below) == classNone {
			set("exists", example(below))
			continue
		}
		for _, other := range candidates(classOf(below), pattern[key]) {
			set(fmt.Sprintf("is %q", fmt.Sprint(other)), other)
		}
	}
	return all
}

// elementChanges returns the changes of an element of a list, and the same changes of a further element.
func elementChanges(at []string, i int, typ reflect.Type, pattern map[string]any) []change {
	all := changesOf(append(slices.Clone(at), strconv.Itoa(i)), typ, pattern)
	for _, c := range slices.Clone(all) {
		all = append(all, change{"one more, with " + c.name, c.place + "+", func(object map[string]any) {
			before := fieldOf(object, at)
			list, _ := before.([]any)
			if i >= len(list) {
				return
			}
			copied := runtime.DeepCopyJSONValue(list)
			c.apply(object)
			changed := fieldOf(object, at)
			others, _ := changed.([]any)
			if i < len(others) {
				placeAt(object, at, append(copied.([]any), others[i]))
			}
		}})
	}
	return all
}

// fieldOf returns the value at a path of names and indexes.
func fieldOf(object map[string]any, path []string) any {
	value, steps := fieldpath.Get(object, path)
	if steps < len(path) {
		return nil
	}
	return value
}

// placeAt sets the value at a path, or removes it if it is nil. It adds the objects around it.
func placeAt(object map[string]any, path []string, value any) {
	var at any = object
	for i, step := range path {
		last := i == len(path)-1
		switch inner := at.(type) {
		case map[string]any:
			switch {
			case last && value == nil:
				delete(inner, step)
			case last:
				inner[step] = runtime.DeepCopyJSONValue(value)
			case inner[step] == nil && value == nil:
				return
			case inner[step] == nil:
				inner[step] = map[string]any{}
			}
			at = inner[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(inner) {
				return
			}
			if last && value != nil {
				inner[n] = value
			}
			at = inner[n]
		default:
			return
		}
	}
}

// keysOf returns the keys of a pattern without those for nothing.
func keysOf(pattern map[string]any) []string {
	var all []string
	for key := range pattern {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// literalOf returns a key that matches a key with wildcards.
func literalOf(name string) string { return strings.NewReplacer("*", "x", "?", "x").Replace(name) }

// belowOf returns the type of a field; nil if there is none.
func belowOf(typ reflect.Type, name string) reflect.Type {
	found := fieldpath.Below(typ, name)
	if found == nil || typ.Kind() == reflect.Slice {
		return nil
	}
	return pointed(found)
}

// example returns a value of a type, with the fields that the API requires.
func example(typ reflect.Type) any {
	switch classOf(typ) {
	case classText:
		return "x"
	case classInteger:
		return int64(1)
	case classBoolean:
		return true
	case classQuantity:
		return "1Gi"
	}
	switch {
	case typ.Kind() == reflect.Slice && !opaque(typ):
		return []any{example(elem(typ))}
	case typ.Kind() == reflect.Map:
		return map[string]any{"x": example(elem(typ))}
	case typ.Kind() == reflect.Struct && !opaque(typ):
		made := map[string]any{}
		for _, f := range fieldpath.FieldsOf(typ) {
			if of := pointed(f.Type); !f.OmitEmpty && classOf(of) != classNone {
				made[f.Name] = example(of)
			}
		}
		return made
	}
	return nil
}

// candidates returns values at the edges of a pattern.
func candidates(c class, pattern any) []any {
	var all []any
	add := func(values ...any) {
		for _, value := range values {
			if !slices.Contains(all, value) {
				all = append(all, value)
			}
		}
	}
	switch p := pattern.(type) {
	case bool:
		add(p)
	case int64, float64:
		if n, err := integerOf(p); err == nil {
			add(n, n+1, max(n-1, 0))
		}
	case string:
		for _, operand := range operands(p) {
			add(edges(c, operand)...)
		}
	}
	switch c {
	case classBoolean:
		add(true, false)
	case classInteger:
		add(int64(1), int64(1000))
	case classQuantity:
		add("1Gi", "1Ei")
	case classText:
		add("other")
	}
	return all
}

// operands returns the operands of a pattern.
func operands(pattern string) []string {
	var all []string
	for _, part := range strings.FieldsFunc(pattern, func(r rune) bool { return r == '|' || r == '&' }) {
		part = strings.TrimSpace(part)
		if ends := inside.FindStringSubmatch(part); ends != nil {
			all = append(all, ends[1], ends[2])
			continue
		}
		if ends := outside.FindStringSubmatch(part); ends != nil {
			all = append(all, ends[1], ends[2])
			continue
		}
		all = append(all, strings.TrimSpace(strings.TrimLeft(part, "<>=!")))
	}
	return all
}

// edges returns values at and beside an operand.
func edges(c class, operand string) []any {
	amount, err := resource.ParseQuantity(operand)
	isAmount := err == nil
	whole, exact := amount.AsInt64()
	switch c {
	case classInteger:
		if isAmount && exact {
			return []any{whole, whole + 1, max(whole-1, 0)}
		}
	case classQuantity:
		if isAmount && exact && whole < 1<<60 {
			return []any{amount.String(), resource.NewQuantity(whole+1, amount.Format).String(), resource.NewQuantity(max(whole-1, 1), amount.Format).String()}
		}
	case classText:
		text := literalOf(operand)
		all := []any{text, text + "x", "x" + text}
		if span, err := time.ParseDuration(operand); err == nil {
			all = append(all, (span + time.Second).String(), (span - time.Second).String())
		}
		if isAmount && exact {
			all = append(all, strconv.FormatInt(whole+1, 10), strconv.FormatInt(whole-1, 10))
		}
		return all
	}
	return nil
}
