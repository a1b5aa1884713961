package manifests

import (
	"maps"
	"reflect"
	"slices"

	"github.com/virtward/virtward/fieldpath"
)

// fitting compares an object with its Go type before it is decoded. The decoder does not: types of KubeVirt with a
// decoder of their own neither report unknown fields nor distinguish upper case from lower case.
type fitting struct {
	// unknown are the fields that the type lacks.
	unknown []string
}

// fit copies a value without fields that its type lacks. The API server drops them too.
func (f *fitting) fit(value any, t reflect.Type, path string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := value.(type) {
	case map[string]any:
		return f.object(v, t, path)
	case []any:
		if t.Kind() != reflect.Slice {
			return value
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = f.fit(v[i], t.Elem(), fieldpath.Indexed(path, i, ""))
		}
		return list
	}
	return value
}

func (f *fitting) object(object map[string]any, t reflect.Type, path string) any {
	typeOf := func(string) (reflect.Type, bool) { return t.Elem(), true }
	switch t.Kind() {
	case reflect.Map:
	case reflect.Struct:
		if len(fieldpath.FieldsOf(t)) == 0 { // its form in JSON is another one than in Go
			return object
		}
		typeOf = func(name string) (reflect.Type, bool) {
			if field, ok := fieldpath.FieldOf(t, name); ok {
				return field.Type, true
			}
			return nil, false
		}
	default:
		return object
	}
	kept := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if field, ok := typeOf(name); ok {
			kept[name] = f.fit(object[name], field, fieldpath.Joined(path, name))
		} else {
			f.unknown = append(f.unknown, fieldpath.Joined(path, name))
		}
	}
	return kept
}
