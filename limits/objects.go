package limits

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxValues bounds the objects and lists in one object. A VM with a hundred disks has about a thousand.
const MaxValues = 10_000

// Object says what of the JSON of an object is out of all proportion: the number of values in it, or a
// quantity, by the type that it will be decoded into. It costs one look at every byte, unless there is
// something to find.
func Object(object []byte, t reflect.Type) *field.Error {
	values, suspicious := scan(object)
	if values > MaxValues {
		return field.TooMany(nil, values, MaxValues)
	}
	if !suspicious {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil //nolint:nilerr // whoever decodes it next says what is wrong
	}
	return QuantitiesIn(value, t, nil)
}

// scan counts the objects and lists, and tells whether a number, or a string that looks like one, is longer
// than a quantity should be.
func scan(object []byte) (values int, suspicious bool) {
	for i := 0; i < len(object); i++ {
		switch b := object[i]; {
		case b == '{' || b == '[':
			values++
		case b == '"':
			end := closing(object, i+1)
			suspicious = suspicious || looksLong(object[i+1:end])
			i = end
		case b >= '0' && b <= '9' || b == '-':
			end := i + 1
			for end < len(object) && numeric(object[end]) {
				end++
			}
			suspicious = suspicious || looksLong(object[i:end])
			i = end - 1
		}
	}
	return values, suspicious
}

// closing finds the quote that ends a string which begins at from.
func closing(object []byte, from int) int {
	for i := from; i < len(object); {
		next := bytes.IndexAny(object[i:], `"\`)
		if next < 0 {
			return len(object)
		}
		if i += next; object[i] == '"' {
			return i
		}
		i += 2 // what is escaped
	}
	return len(object)
}

func numeric(b byte) bool {
	return b >= '0' && b <= '9' || b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-'
}

// looksLong tells whether a text begins like a number and is not Proportionate. Escapes do not matter: a
// string with one is no number that anybody means.
func looksLong(text []byte) bool {
	if len(text) == 0 || !numeric(text[0]) && text[0] != '\\' {
		return false
	}
	return text[0] == '\\' || !Proportionate(string(text))
}

// Describe is what a person is told of a finding.
func Describe(err *field.Error) string {
	if err.Type == field.ErrorTypeTooMany {
		return fmt.Sprintf("it has %v objects and lists in it, where %d are the most", err.BadValue, MaxValues)
	}
	return err.Error()
}
