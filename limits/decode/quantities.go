package decode

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/fieldpath"
)

// Bounds of a quantity. The largest one there can be has nineteen digits before its suffix.
const (
	maxDigits         = 100
	maxExponentDigits = 3
)

// Parsable reports whether a text is short enough, in its digits and in its exponent, to be parsed as a quantity.
// Non-numeric text of any length is parsable in this sense, because parsing it fails immediately. The decoder ignores space
// around a quantity.
func Parsable(quantity string) bool {
	digits, exponent, _ := measure(strings.TrimSpace(quantity))
	return digits <= maxDigits && exponent <= maxExponentDigits
}

// measure counts the digits with which a text begins and, if only an exponent follows, those of the
// exponent without its leading zeroes. A text with an escape there is not measured to its end.
func measure[T string | []byte](text T) (digits, exponent int, escaped bool) {
	begin := past(text, 0, isSign)
	end := past(text, begin, isDecimal)
	digits = end - begin
	if end == len(text) || digits == 0 || text[end] != 'e' && text[end] != 'E' {
		return digits, 0, end < len(text) && text[end] == '\\'
	}
	begin = past(text, past(text, end+1, isSign), isZero)
	end = past(text, begin, isDecimal)
	return digits, end - begin, end < len(text) && text[end] == '\\'
}

// past is where the characters of a kind end that begin at a place.
func past[T string | []byte](text T, at int, kind func(byte) bool) int {
	for at < len(text) && kind(text[at]) {
		at++
	}
	return at
}

func isSign(b byte) bool    { return b == '+' || b == '-' }
func isZero(b byte) bool    { return b == '0' }
func isDecimal(b byte) bool { return b >= '0' && b <= '9' || b == '.' }

// notParsable is what is said of such a field.
const notParsable = "a quantity with too many digits or too large an exponent"

var quantityType = reflect.TypeFor[resource.Quantity]()

// QuantitiesIn finds the first quantity, by path, that is not Parsable, in an object that was decoded into
// maps and lists and will be decoded into a type. The path is that of the object; nil for the root.
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
		if t == quantityType && !Parsable(v) {
			return field.Invalid(path, abbreviated(v), notParsable)
		}
	case json.Number:
		if t == quantityType && !Parsable(v.String()) {
			return field.Invalid(path, abbreviated(v.String()), notParsable)
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
		typeOf = func(name string) (reflect.Type, bool) { return fieldNamed(t, name) }
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
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	if f, ok := fieldpath.FieldOf(t, name); ok {
		return f.Type, true
	}
	fields := fieldpath.FieldsOf(t)
	for i := range fields {
		if strings.EqualFold(fields[i].Name, name) {
			return fields[i].Type, true
		}
	}
	return nil, false
}

func abbreviated(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return text[:most] + "… (" + strconv.Itoa(len(text)) + " characters)"
}
