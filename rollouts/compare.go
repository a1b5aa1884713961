package rollouts

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
)

// node is a step of a path. Paths are built only for differences.
type node struct {
	parent *node
	name   string
	// key is set for the name of an item, which is written in brackets.
	key bool
}

func (n *node) child(name string) node { return node{parent: n, name: name} }

func (n *node) item(name string) node { return node{parent: n, name: name, key: true} }

// path of a node below another path.
func (n *node) path(root *field.Path) *field.Path {
	switch {
	case n == nil:
		return root
	case n.key:
		return n.parent.path(root).Key(n.name)
	case n.parent == nil && root == nil:
		return field.NewPath(n.name)
	}
	return n.parent.path(root).Child(n.name)
}

// relative is the path of a node below the spec of an instance.
func (n *node) relative() string { return n.path(nil).String() }

// comparison finds the fields in which two values differ. As in Kubernetes, an empty list or map equals an absent one, and
// quantities are compared by value.
type comparison struct {
	// separate has the fields that the caller compares by itself.
	separate bool
	// differ gets each difference, at the highest field that exists on one side only. It returns false to stop.
	differ func(at *node, before, after reflect.Value) bool
	done   bool
}

// same reports whether two values are equal, as Kubernetes compares them.
func same[T any](before, after *T) bool {
	return before == after || equal(reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem(), false)
}

// equal reports whether two values of one type are equal, the separate fields left out.
func equal(before, after reflect.Value, separate bool) bool {
	switch before.Kind() {
	case reflect.Pointer:
		return equalPointers(before, after, separate)
	case reflect.Struct:
		return equalStructs(structureOf(before.Type()), before, after, separate)
	case reflect.Slice:
		return equalLists(before, after, separate)
	case reflect.Map:
		return equalMaps(before, after)
	}
	return equalScalars(before, after)
}

func equalLists(before, after reflect.Value, separate bool) bool {
	n := before.Len()
	if n != after.Len() {
		return false
	}
	if n == 0 || before.Pointer() == after.Pointer() {
		return true
	}
	if t := before.Type().Elem(); t.Kind() == reflect.Struct {
		s := structureOf(t)
		for i := range n {
			if !equalStructs(s, before.Index(i), after.Index(i), separate) {
				return false
			}
		}
		return true
	}
	for i := range n {
		if !equal(before.Index(i), after.Index(i), separate) {
			return false
		}
	}
	return true
}

func equalPointers(before, after reflect.Value, separate bool) bool {
	switch {
	case before.Pointer() == after.Pointer():
		return true
	case before.IsNil() && separate && filled(after.Type().Elem()):
		return equal(reflect.Zero(after.Type().Elem()), after.Elem(), separate)
	case after.IsNil() && separate && after.Type().Elem() == firmware:
		return equal(before.Elem(), reflect.Zero(firmware), separate)
	case before.IsNil() || after.IsNil():
		return false
	}
	return equal(before.Elem(), after.Elem(), separate)
}

func equalMaps(before, after reflect.Value) bool {
	if before.Len() != after.Len() {
		return false
	}
	for entries := before.MapRange(); entries.Next(); {
		other := after.MapIndex(entries.Key())
		if !other.IsValid() || !equal(entries.Value(), other, false) {
			return false
		}
	}
	return true
}

func equalStructs(s *structure, before, after reflect.Value, separate bool) bool {
	if s.opaque {
		return equalOpaque(before, after)
	}
	for i := range s.parts {
		part := &s.parts[i]
		before, after := part.of(before), part.of(after)
		for j := range part.fields {
			f := &part.fields[j]
			if separate && f.separate {
				continue
			}
			last := f.index[len(f.index)-1]
			x, y := before.Field(last), after.Field(last)
			if f.nested != nil && !equalStructs(f.nested(), x, y, separate) || f.nested == nil && !equal(x, y, separate) {
				return false
			}
		}
	}
	return true
}

// separateFields have rules of their own, which compare them with the running instance.
var separateFields = map[reflect.Type][]string{
	reflect.TypeFor[v1.VirtualMachineInstanceSpec](): {"volumes", "networks", "nodeSelector", "affinity", "tolerations"},
	reflect.TypeFor[v1.Devices]():                    {"disks", "interfaces"},
	reflect.TypeFor[v1.CPU]():                        {"sockets"},
	reflect.TypeFor[v1.Memory]():                     {"guest"},
	reflect.TypeFor[v1.Firmware]():                   {"uuid"},
}

// firmware of a VM always has a UUID in the end.
var firmware = reflect.TypeFor[v1.Firmware]()

// filled are structs that KubeVirt adds to the start of the instance if they only have separate fields.
func filled(t reflect.Type) bool { return t == firmware || t == reflect.TypeFor[v1.Memory]() }

// structure is how a struct is compared.
type structure struct {
	fields []structField
	// parts are the same fields, those of each embedded struct together.
	parts []structPart
	// opaque values have fields that are not their JSON.
	opaque bool
	// named is the field with the name of an item, or nil.
	named *structField
}

type structField struct {
	name     string
	index    []int
	separate bool
	// nested is the structure of a field that is a struct itself; nil for other fields.
	nested func() *structure
}

// structPart has the fields of a struct that are in the same embedded struct, or in none.
type structPart struct {
	index  []int
	fields []structField
}

// of is the field of a struct. No field is in an embedded pointer.
func (f *structField) of(v reflect.Value) reflect.Value { return fieldAt(v, f.index) }

// of is the struct that has the fields.
func (p *structPart) of(v reflect.Value) reflect.Value { return fieldAt(v, p.index) }

func fieldAt(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		v = v.Field(i)
	}
	return v
}

var structures sync.Map

func structureOf(t reflect.Type) *structure {
	if known, ok := structures.Load(t); ok {
		return known.(*structure)
	}
	s := &structure{opaque: fieldpath.Opaque(t)}
	for _, f := range fieldpath.FieldsOf(t) {
		if throughPointer(t, f.Index) {
			continue // KubeVirt's types have no such field
		}
		of := structField{name: f.Name, index: f.Index, separate: slices.Contains(separateFields[t], f.Name)}
		if f.Type.Kind() == reflect.Struct {
			of.nested = sync.OnceValue(func() *structure { return structureOf(f.Type) })
		}
		s.fields = append(s.fields, of)
		if in := f.Index[:len(f.Index)-1]; len(s.parts) == 0 || !slices.Equal(s.parts[len(s.parts)-1].index, in) {
			s.parts = append(s.parts, structPart{index: in})
		}
		last := &s.parts[len(s.parts)-1]
		last.fields = append(last.fields, of)
		if f.Name == "name" && f.Type.Kind() == reflect.String {
			s.named = &structField{name: f.Name, index: f.Index}
		}
	}
	known, _ := structures.LoadOrStore(t, s)
	return known.(*structure)
}

// throughPointer reports whether a field is in an embedded pointer.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

func (c *comparison) report(at *node, before, after reflect.Value) {
	if !c.done && !c.differ(at, before, after) {
		c.done = true
	}
}

// compare compares two values of one type. Structs are compared field by field in any case.
func (c *comparison) compare(at *node, before, after reflect.Value) {
	if before.Kind() == reflect.Struct {
		c.structs(at, before, after)
	} else if !c.done && !equal(before, after, c.separate) {
		c.different(at, before, after)
	}
}

// different compares two values of one type that differ.
func (c *comparison) different(at *node, before, after reflect.Value) {
	switch before.Kind() {
	case reflect.Pointer:
		c.pointers(at, before, after)
	case reflect.Struct:
		c.structs(at, before, after)
	case reflect.Slice:
		c.lists(at, before, after)
	case reflect.Map:
		c.maps(at, before, after)
	default:
		c.report(at, before, after)
	}
}

// isScalar reports whether a value is a text, a number or a truth value, or absent.
func isScalar(v reflect.Value) bool {
	if v = fieldpath.Indirect(v); !v.IsValid() {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map, reflect.Interface:
		return fieldpath.Opaque(v.Type())
	}
	return true
}

func equalScalars(before, after reflect.Value) bool {
	switch before.Kind() {
	case reflect.String:
		return before.String() == after.String()
	case reflect.Bool:
		return before.Bool() == after.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return before.Int() == after.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return before.Uint() == after.Uint()
	}
	return equality.Semantic.DeepEqual(before.Interface(), after.Interface())
}

func (c *comparison) pointers(at *node, before, after reflect.Value) {
	switch {
	case before.IsNil() && c.separate && filled(after.Type().Elem()):
		c.compare(at, reflect.Zero(after.Type().Elem()), after.Elem())
	case after.IsNil() && c.separate && after.Type().Elem() == firmware:
		c.compare(at, before.Elem(), reflect.Zero(firmware))
	case before.IsNil() || after.IsNil():
		c.report(at, before, after)
	default:
		c.compare(at, before.Elem(), after.Elem())
	}
}

func (c *comparison) structs(at *node, before, after reflect.Value) {
	s := structureOf(before.Type())
	if s.opaque {
		if !equalOpaque(before, after) {
			c.report(at, before, after)
		}
		return
	}
	for i := range s.fields {
		f := &s.fields[i]
		if c.done {
			return
		}
		if c.separate && f.separate {
			continue
		}
		if x, y := f.of(before), f.of(after); !equal(x, y, c.separate) {
			below := at.child(f.name)
			c.different(&below, x, y)
		}
	}
}

// equalOpaque compares quantities, times and the like.
func equalOpaque(before, after reflect.Value) bool {
	if before.CanAddr() && after.CanAddr() {
		if quantity, ok := reflect.TypeAssert[*resource.Quantity](before.Addr()); ok {
			return quantity.Cmp(*after.Addr().Interface().(*resource.Quantity)) == 0
		}
	}
	return equality.Semantic.DeepEqual(before.Interface(), after.Interface())
}

func (c *comparison) lists(at *node, before, after reflect.Value) {
	if before.Type().Elem().Kind() == reflect.Uint8 || before.Len() == 0 || after.Len() == 0 {
		c.report(at, before, after)
		return
	}
	if names, ok := namesOf(before); ok {
		if others, ok := namesOf(after); ok {
			c.items(at, before, after, names, others)
			return
		}
	}
	if before.Len() != after.Len() {
		c.report(at, before, after)
		return
	}
	for i := range before.Len() {
		below := at.item(itoa(i))
		c.compare(&below, before.Index(i), after.Index(i))
	}
}

// items compares lists whose items have names. Equal items in another order are a difference of the list.
func (c *comparison) items(at *node, before, after reflect.Value, names, others []string) {
	known := make(map[string]int, len(names))
	for i, name := range names {
		known[name] = i
	}
	ordered, last := true, -1
	for i, name := range others {
		below := at.item(name)
		k, ok := known[name]
		if !ok {
			c.report(&below, reflect.Zero(after.Type().Elem()), after.Index(i))
			continue
		}
		delete(known, name)
		ordered, last = ordered && k > last, k
		c.compare(&below, before.Index(k), after.Index(i))
	}
	for i, name := range names {
		if _, gone := known[name]; gone {
			below := at.item(name)
			c.report(&below, before.Index(i), reflect.Zero(before.Type().Elem()))
		}
	}
	if !ordered {
		c.report(at, before, after)
	}
}

// namesOf are the names of items, if all have one of their own.
func namesOf(list reflect.Value) ([]string, bool) {
	if list.Type().Elem().Kind() != reflect.Struct {
		return nil, false
	}
	s := structureOf(list.Type().Elem())
	if s.named == nil {
		return nil, false
	}
	names, taken := make([]string, list.Len()), make(map[string]bool, list.Len())
	for i := range names {
		name := s.named.of(list.Index(i)).String()
		if name == "" || taken[name] {
			return nil, false
		}
		names[i], taken[name] = name, true
	}
	return names, true
}

func (c *comparison) maps(at *node, before, after reflect.Value) {
	for _, key := range sortedKeys(before, after) {
		below := at.item(key.String())
		x, y := before.MapIndex(key), after.MapIndex(key)
		switch {
		case !x.IsValid():
			c.report(&below, reflect.Zero(y.Type()), y)
		case !y.IsValid():
			c.report(&below, x, reflect.Zero(x.Type()))
		default:
			c.compare(&below, x, y)
		}
	}
}

// covers reports whether every field that is set in wanted has the same value in running.
func covers(running, wanted reflect.Value) bool {
	if !running.IsValid() {
		return false
	}
	if running.Kind() == reflect.Pointer && wanted.Kind() != reflect.Pointer { // a field of the instance, and the value of one of the VM
		return !running.IsNil() && covers(running.Elem(), wanted)
	}
	switch wanted.Kind() {
	case reflect.Pointer:
		return wanted.IsNil() || !running.IsNil() && covers(running.Elem(), wanted.Elem())
	case reflect.Struct:
		s := structureOf(wanted.Type())
		if s.opaque {
			return equalOpaque(running, wanted)
		}
		for i := range s.fields {
			if y := s.fields[i].of(wanted); !y.IsZero() && !covers(s.fields[i].of(running), y) {
				return false
			}
		}
		return true
	}
	return equal(running, wanted, false)
}

// valueAt is the value of a struct, a map or a list of named items at a node; the zero Value if there is none.
func valueAt(root reflect.Value, at *node) reflect.Value {
	if at == nil {
		return root
	}
	v := fieldpath.Indirect(valueAt(root, at.parent))
	switch v.Kind() {
	case reflect.Slice:
		names, ok := namesOf(v)
		for i := range v.Len() {
			if ok && names[i] == at.name || !ok && itoa(i) == at.name {
				return v.Index(i)
			}
		}
		return reflect.Value{}
	case reflect.Struct, reflect.Map:
		return fieldpath.StepValue(v, at.name)
	}
	return reflect.Value{}
}

// nodeOf is the node of a path.
func nodeOf(path string) *node {
	var at *node
	for path != "" {
		step, key, rest := fieldpath.Cut(path)
		at, path = &node{parent: at, name: step, key: key}, rest
	}
	return at
}
