package limits

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
	MaxValues = 10_000
	// MaxMembers bounds the members and elements of all of them together.
	MaxMembers = 30_000
)

// Object says what of the JSON of an object is out of all proportion: the number of values in it, or a
// quantity, by the type that it will be decoded into. What field managers note (metadata.managedFields) does not
// count: its author does not write it, and it is not looked into. It costs one look at every byte, unless there
// is something to find.
func Object(object []byte, t reflect.Type) *field.Error {
	c := scan(object)
	switch {
	case c.values > MaxValues:
		return tooMany(c.values, MaxValues, "objects and lists")
	case c.members > MaxMembers:
		return tooMany(c.members, MaxMembers, "members and elements")
	case !c.suspicious:
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

// tooMany is about the object as a whole; its spec is where there may be so many.
func tooMany(found, most int, of string) *field.Error {
	return &field.Error{
		Type: field.ErrorTypeTooMany, Field: "spec", BadValue: found,
		Detail: fmt.Sprintf("the object has %d %s in it, where %d are the most", found, of, most),
	}
}

// census is what scan finds.
type census struct {
	// values are the objects and lists, members what is in them.
	values, members int
	// suspicious: a number, or a string that looks like one, is longer than a quantity should be.
	suspicious bool
}

// managers is the member of an object's metadata that is not counted, and where it is.
const (
	managers      = "managedFields"
	managersDepth = 2
)

// scan counts what is in an object.
func scan(object []byte) census {
	c := counting{}
	for i := 0; i < len(object); i++ {
		switch b := object[i]; {
		case b == '"':
			end := closing(object, i+1)
			c.text(object[i+1 : end])
			i = end
		case b >= '0' && b <= '9' || b == '-':
			end := i + 1
			for end < len(object) && numeric(object[end]) {
				end++
			}
			c.suspicious = c.suspicious || looksLong(object[i:end])
			i = end - 1
		default:
			c.mark(b)
		}
	}
	return c.census
}

// counting is a census that is under way.
type counting struct {
	census
	// depth is the number of objects and lists that are open. From muted on, which is the depth within
	// managedFields, nothing counts; 0 outside.
	depth, muted int
}

// mark counts at a character outside of strings and numbers.
func (c *counting) mark(b byte) {
	switch b {
	case '{', '[':
		c.depth++
		if c.muted == 0 {
			c.values++
		}
	case '}', ']':
		c.depth--
		if c.depth < c.muted {
			c.muted = 0
		}
	case ',':
		if c.depth < c.muted {
			c.muted = 0
		}
		if c.muted == 0 {
			c.members++
		}
	}
}

// text looks at a string.
func (c *counting) text(text []byte) {
	c.suspicious = c.suspicious || looksLong(text)
	if c.depth == managersDepth && c.muted == 0 && string(text) == managers {
		c.muted = managersDepth + 1
	}
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
		return err.Detail
	}
	return err.Error()
}
