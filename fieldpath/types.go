package fieldpath

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Field is a field of a struct as JSON has it.
type Field struct {
	// Name is the name in JSON.
	Name string
	// OmitEmpty reports whether the tag has the option omitempty.
	OmitEmpty bool
	Type      reflect.Type
	// Index is for reflect.Value.FieldByIndex.
	Index []int
}

// structure is the fields of a struct, in the order of the struct and by their names.
type structure struct {
	fields []Field
	byName map[string]*Field
}

// structures is a cache of the fields by type: the types of the API are few and do not change.
var structures sync.Map

// FieldsOf returns the fields of a struct in its order, with the fields of embedded structs. Do not change it. A type
// that is no struct, nor a pointer to one, has none.
func FieldsOf(t reflect.Type) []Field { return structureOf(t).fields }

// FieldOf finds a field of a struct by its name in JSON.
func FieldOf(t reflect.Type, name string) (*Field, bool) {
	f, ok := structureOf(t).byName[name]
	return f, ok
}

// NamesOf returns the names of the fields of a struct, sorted.
func NamesOf(t reflect.Type) []string {
	fields := FieldsOf(t)
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	slices.Sort(names)
	return names
}

// Name returns the name of a field in JSON, and whether its tag has the option omitempty. Inline is for an embedded
// struct, whose fields are fields of the object. The name is empty if the field has no tag with a name: the fields of
// such a struct, as those of IntOrString, are not its JSON.
func Name(f *reflect.StructField) (name string, omitEmpty, inline bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	omitEmpty = slices.Contains(strings.Split(options, ","), "omitempty")
	switch {
	case name == "-" || !f.IsExported() && !f.Anonymous:
		return "", false, false
	case name == "" && f.Anonymous:
		return "", omitEmpty, pointed(f.Type).Kind() == reflect.Struct
	}
	return name, omitEmpty, false
}

// Below returns the type that one step leads to, or nil.
func Below(t reflect.Type, step string) reflect.Type {
	switch t = pointed(t); t.Kind() {
	case reflect.Struct:
		if f, ok := FieldOf(t, step); ok {
			return f.Type
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		return t.Elem()
	}
	return nil
}

// Opaque reports whether the JSON of a type differs from its fields, as that of quantities.
func Opaque(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func pointed(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func structureOf(t reflect.Type) *structure {
	t = pointed(t)
	if known, ok := structures.Load(t); ok {
		return known.(*structure)
	}
	s := &structure{byName: map[string]*Field{}}
	if t.Kind() == reflect.Struct {
		s.fields = collect(t, nil, map[string]bool{}, nil)
	}
	for i := range s.fields {
		s.byName[s.fields[i].Name] = &s.fields[i]
	}
	known, _ := structures.LoadOrStore(t, s)
	return known.(*structure)
}

// collect adds the fields of a struct. Of fields with the same name, the outer one counts.
func collect(t reflect.Type, fields []Field, taken map[string]bool, index []int) []Field {
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := Name(&f); name != "" {
			taken[name] = true
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		name, omitEmpty, inline := Name(&f)
		switch {
		case inline:
			inner := map[string]bool{}
			for _, field := range collect(pointed(f.Type), nil, inner, at) {
				if !taken[field.Name] {
					taken[field.Name] = true
					fields = append(fields, field)
				}
			}
		case name != "":
			fields = append(fields, Field{Name: name, OmitEmpty: omitEmpty, Type: f.Type, Index: at})
		}
	}
	return fields
}
