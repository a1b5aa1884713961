package limits

import (
	"bytes"
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

// Quantities finds the first quantity, by path, that is not Proportionate, in the JSON of an object that will
// be decoded into a type. It costs one look at every byte, unless there is something to find.
func Quantities(object []byte, t reflect.Type) *field.Error {
	if !suspicious(object) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil // whoever decodes it next says what is wrong
	}
	return QuantitiesIn(value, t, nil)
}

// suspicious tells whether there is a run of digits, or an exponent, that a quantity should not have.
func suspicious(object []byte) bool {
	digits, afterE := 0, false
	for i, b := range object {
		switch {
		case b >= '0' && b <= '9':
			digits++
			if afterE && digits > maxExponentDigits || digits > maxDigits {
				return true
			}
			continue
		case (b == 'e' || b == 'E') && i > 0 && (digits > 0 || object[i-1] == '.'):
			digits, afterE = 0, true
			continue
		case (b == '+' || b == '-') && afterE && digits == 0:
			continue
		case b == '.' && digits > 0:
			continue // digits on both sides of the point count together
		}
		digits, afterE = 0, false
	}
	return false
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// QuantitiesIn is Quantities for an object that is decoded into maps and lists already. The path is where the
// object stands; nil for the root.
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
		typeOf = func(name string) (reflect.Type, bool) { f, ok := fields[name]; return f, ok }
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
