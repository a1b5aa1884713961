package templates

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
)

// shape is what a Go type accepts as JSON. Shapes are made once and never change.
type shape struct {
	kind shapeKind
	// fields of an object, by their names in JSON; nil for a map.
	fields map[string]*shape
	// element of a list or a map.
	element *shape
	// of is the Go type of numbers, and of values that decode themselves.
	of reflect.Type
}

type shapeKind int

const (
	anything shapeKind = iota
	object
	dictionary
	list
	textKind
	boolean
	integer
	unsigned
	float
	// itself is a type that decodes itself, such as a quantity.
	itself
)

func (k shapeKind) String() string {
	return [...]string{"any value", "an object", "an object", "a list", "a string", "true or false", "an integer", "an integer", "a number", "a value"}[k]
}

// takesText reports whether a string can be right for a shape.
func (s *shape) takesText() bool { return s.kind == textKind || s.kind == anything || s.kind == itself }

// virtualMachineShape is the shape of a VirtualMachine.
var virtualMachineShape = sync.OnceValue(func() *shape {
	return shapeOf(reflect.TypeFor[kubevirtv1.VirtualMachine](), map[reflect.Type]*shape{})
})

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// shapeOf makes the shape of a type. known are the shapes that were made before, as types may contain themselves.
func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if made, ok := known[t]; ok {
		return made
	}
	s := &shape{of: t}
	known[t] = s
	// KubeVirt's structs that decode themselves have the form of their fields.
	if reflect.PointerTo(t).Implements(unmarshaler) && (t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "kubevirt.io/")) {
		s.kind = itself
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.kind, s.fields = object, map[string]*shape{}
		s.addFields(t, known)
	case reflect.Map:
		s.kind, s.element = dictionary, shapeOf(t.Elem(), known)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			s.kind = itself
			return s
		}
		s.kind, s.element = list, shapeOf(t.Elem(), known)
	case reflect.String:
		s.kind = textKind
	case reflect.Bool:
		s.kind = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.kind = integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.kind = unsigned
	case reflect.Float32, reflect.Float64:
		s.kind = float
	}
	return s
}

func (s *shape) addFields(t reflect.Type, known map[reflect.Type]*shape) {
	fields := fieldpath.FieldsOf(t)
	for i := range fields {
		s.fields[fields[i].Name] = shapeOf(fields[i].Type, known)
	}
}
