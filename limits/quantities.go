package limits

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of a quantity. The largest one there can be has nineteen digits before its suffix.
const (
	maxDigits         = 100
	maxExponentDigits = 3
)

// Proportionate tells whether a text is short enough, in its digits and in its exponent, to be parsed as a quantity.
func Proportionate(quantity string) bool {
	if len(quantity) > maxDigits {
		return false
	}
	e := strings.LastIndexAny(quantity, "eE")
	if e < 0 {
		return true
	}
	exponent := strings.TrimLeft(strings.TrimLeft(quantity[e+1:], "+-"), "0")
	return len(exponent) <= maxExponentDigits
}

// disproportionate is what is said of such a field.
const disproportionate = "a quantity of this length or exponent is out of all proportion"

var quantityType = reflect.TypeFor[resource.Quantity]()

// QuantitiesIn finds the first quantity, by path, that is not Proportionate, in an object that was decoded into
// maps and lists and will be decoded into a type. The path is where the object stands; nil for the root.
func QuantitiesIn(value any, t reflect.Type, path *field.Path) *field.Error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := value.(type) {
	case map[string]any:
		return inObject(v, t, path)
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i := range v {
			if err := QuantitiesIn(v[i], t.Elem(), path.Index(i)); err != nil {
				return err
			}
		}
	case string:
		if t == quantityType && !Proportionate(v) {
			return field.Invalid(path, abbreviated(v), disproportionate)
		}
	case json.Number:
		if t == quantityType && !Proportionate(v.String()) {
			return field.Invalid(path, abbreviated(v.String()), disproportionate)
		}
	}
	return nil
}

func inObject(object map[string]any, t reflect.Type, path *field.Path) *field.Error {
	var typeOf func(string) (reflect.Type, bool)
	var below func(string) *field.Path
	switch t.Kind() {
	case reflect.Map:
		typeOf = func(string) (reflect.Type, bool) { return t.Elem(), true }
		below = func(name string) *field.Path { return path.Key(name) }
	case reflect.Struct:
		fields := Fields(t)
		typeOf = func(name string) (reflect.Type, bool) { return fieldNamed(fields, name) }
		below = func(name string) *field.Path { return path.Child(name) }
	default:
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if f, ok := typeOf(name); ok {
			if err := QuantitiesIn(object[name], f, below(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fieldNamed finds a field as Go's decoder does: KubeVirt's VirtualMachineInstanceSpec decodes itself with one
// that takes names in any case.
func fieldNamed(fields map[string]reflect.Type, name string) (reflect.Type, bool) {
	if f, ok := fields[name]; ok {
		return f, true
	}
	for known, f := range fields {
		if strings.EqualFold(known, name) {
			return f, true
		}
	}
	return nil, false
}

// Fields are the types of a struct's fields by their names in JSON, those of embedded structs included.
func Fields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	collect(t, fields)
	return fields
}

func collect(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name != "":
			into[name] = f.Type
		case f.Anonymous:
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				collect(embedded, into)
			}
		}
	}
}

func abbreviated(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return text[:most] + "… (" + strconv.Itoa(len(text)) + " characters)"
}
