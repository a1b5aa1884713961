package domain

import (
	"reflect"
	"strconv"
)

// FromElement returns the domain of a document, as policies read it. Parts that the types do not have are left out, such as those
// that only a Plugin writes.
func FromElement(root *Element) *Domain {
	d := &Domain{}
	decodeInto(root, reflect.ValueOf(d).Elem())
	return d
}

// decodeInto fills a struct from an element: it reverses encode.
func decodeInto(e *Element, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		t, value := tagOf(&field), v.Field(i)
		switch {
		case t.text:
			setText(value, e.Text)
		case t.attr:
			if a, has := e.attribute(t.path[0]); has {
				setText(value, a.Value)
			}
		case value.Kind() == reflect.Slice:
			decodeList(e, &t, value)
		default:
			if child := e.Child(t.path[0]); child != nil {
				decodeChild(child, value)
			}
		}
	}
}

func decodeChild(child *Element, value reflect.Value) {
	if value.Kind() == reflect.Pointer {
		value.Set(reflect.New(value.Type().Elem()))
		value = value.Elem()
	}
	if value.Kind() == reflect.Struct {
		decodeInto(child, value)
	} else {
		setText(value, child.Text)
	}
}

func decodeList(e *Element, t *tag, value reflect.Value) {
	if len(t.path) > 1 {
		if e = e.Child(t.path[0]); e == nil {
			return
		}
	}
	name := t.path[len(t.path)-1]
	for _, child := range e.Children {
		if child.Name == name {
			item := reflect.New(value.Type().Elem()).Elem()
			decodeChild(child, item)
			value.Set(reflect.Append(value, item))
		}
	}
}

// setText sets a string or a number. A text that is no number is zero: libvirt rejects such a domain.
func setText(value reflect.Value, text string) {
	if value.Kind() == reflect.Pointer {
		value.Set(reflect.New(value.Type().Elem()))
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		number, _ := strconv.ParseUint(text, 10, value.Type().Bits())
		value.SetUint(number)
	case reflect.Int64:
		number, _ := strconv.ParseInt(text, 10, 64)
		value.SetInt(number)
	default:
		value.SetString(text)
	}
}
