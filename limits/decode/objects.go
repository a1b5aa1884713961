package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of one object. A VM with a hundred disks has about a thousand objects and lists in it, and three times
// as many members and elements.
const (
	// MaxValues bounds the objects and lists.
	MaxValues = 5_000
	// MaxMembers bounds the members and elements of all of them together.
	MaxMembers = 15_000
)

// Object returns the limit that the JSON of an object exceeds: the number of values in it, or a quantity, by the type that
// the object will be decoded into. It returns nil if there is none.
func Object(object []byte, t reflect.Type) *field.Error {
	_, err := Evaluated(object, t)
	return err
}

// Evaluated is an object without what is not evaluated: what field managers note, the finalizers, and most owner
// references of an object that has very many. These do not count. The error is that of Object. It costs one look at
// every byte, unless there is something to find.
func Evaluated(object []byte, t reflect.Type) ([]byte, *field.Error) {
	return EvaluatedIn(new([]byte), object, t)
}

// EvaluatedIn is Evaluated, and writes what is left into a buffer, which grows, if that is not the whole object.
func EvaluatedIn(buffer *[]byte, object []byte, t reflect.Type) ([]byte, *field.Error) {
	c := scan(object)
	evaluated := c.evaluated(buffer, object)
	switch {
	case c.values > MaxValues:
		return nil, tooMany(c.values, MaxValues, "objects and lists")
	case c.members > MaxMembers:
		return nil, tooMany(c.members, MaxMembers, "members and elements")
	case !c.suspicious:
		return evaluated, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(evaluated))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return evaluated, nil //nolint:nilerr // the caller decodes it, and returns the error
	}
	if err := QuantitiesIn(value, t, nil); err != nil {
		return nil, err
	}
	return evaluated, nil
}

// tooMany is about the object as a whole; its spec is where there may be so many.
func tooMany(found, most int, of string) *field.Error {
	return &field.Error{
		Type: field.ErrorTypeTooMany, Field: "spec", BadValue: found,
		Detail: fmt.Sprintf("the object has %d %s in it, where %d are the most", found, of, most),
	}
}

// Describe is the message of an error of this package.
func Describe(err *field.Error) string {
	if err.Type == field.ErrorTypeTooMany {
		return err.Detail
	}
	return err.Error()
}
