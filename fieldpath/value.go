package fieldpath

import "reflect"

// Step returns what one step leads to in a value of decoded JSON; ok is false if there is nothing.
func Step(value any, step string) (below any, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		below, ok = v[step]
	case []any:
		if i, is := index(step, len(v)); is {
			return v[i], true
		}
	}
	return below, ok
}

// Get returns what a path leads to in a value of decoded JSON. If that does not exist, it returns nil, and present is
// the number of steps that exist.
func Get(value any, steps []string) (below any, present int) {
	for i, step := range steps {
		var ok bool
		if value, ok = Step(value, step); !ok {
			return nil, i
		}
	}
	return value, len(steps)
}

// StepValue returns what one step leads to in a Go value, by the names in JSON; the zero Value if there is nothing.
func StepValue(v reflect.Value, step string) reflect.Value {
	v = Indirect(v)
	switch v.Kind() {
	case reflect.Struct:
		if f, ok := FieldOf(v.Type(), step); ok {
			if found, err := v.FieldByIndexErr(f.Index); err == nil {
				return found
			}
		}
	case reflect.Map:
		if key := v.Type().Key(); key.Kind() == reflect.String {
			return v.MapIndex(reflect.ValueOf(step).Convert(key))
		}
	case reflect.Slice, reflect.Array:
		if i, ok := index(step, v.Len()); ok {
			return v.Index(i)
		}
	}
	return reflect.Value{}
}

// Indirect returns what a value points at, or the value itself.
func Indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}
