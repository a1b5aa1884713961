package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/limits/decode"
)

// Decode reads an object into a value of its Go type. The warnings name fields that the type does not have,
// and which the API server would drop. The error names the field that cannot be read.
func Decode(object map[string]any, into any) (warnings []string, err error) {
	var f fitting
	kept := f.fit(object, reflect.TypeOf(into), "")
	if err := decode.QuantitiesIn(kept, reflect.TypeOf(into), nil); err != nil {
		return nil, err
	}
	for _, path := range f.unknown {
		warnings = append(warnings, "unknown field "+path)
	}
	if err := decodeInto(kept, into); err != nil {
		return nil, located(kept, into, err)
	}
	return warnings, nil
}

func decodeInto(value, into any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// located adds the name of the field to an error of the decoder, which rarely has it. It decodes smaller and smaller
// parts of the object, until it finds the one that fails.
func located(object, into any, err error) error {
	n := narrowing{fails: func(value any) error {
		return decodeInto(value, reflect.New(reflect.TypeOf(into).Elem()).Interface())
	}}
	found := n.narrow(part{value: object}, func(v any) any { return v })
	if found == nil {
		return plain(err, object)
	}
	if found.path == "" {
		return plain(found.cause, found.value)
	}
	return &FieldError{found.path, plain(found.cause, found.value)}
}

// maxDepth bounds the depth of the search. No field of the API is deeper.
const maxDepth = 64

// narrowing looks for the smallest part of an object that cannot be decoded by itself.
type narrowing struct {
	fails func(whole any) error
}

// part is a part of an object, and why it cannot be decoded.
type part struct {
	value any
	path  string
	depth int
	cause error
}

// narrow returns nil if the part can be decoded. wrap returns an object that has only this part, at its field.
func (n narrowing) narrow(p part, wrap func(any) any) *part {
	if p.cause = n.fails(wrap(p.value)); p.cause == nil {
		return nil
	}
	if p.depth == maxDepth {
		return &p
	}
	switch v := p.value.(type) {
	case map[string]any:
		if n.fails(wrap(map[string]any{})) != nil { // no object is expected here
			return &p
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := part{value: v[name], path: fieldpath.Joined(p.path, name), depth: p.depth + 1}
			if found := n.narrow(below, func(value any) any { return wrap(map[string]any{name: value}) }); found != nil {
				return found
			}
		}
	case []any:
		if n.fails(wrap([]any{})) != nil { // no list is expected here
			return &p
		}
		for i := range v {
			below := part{value: v[i], path: fieldpath.Indexed(p.path, i, ""), depth: p.depth + 1}
			if found := n.narrow(below, func(value any) any { return wrap([]any{value}) }); found != nil {
				return found
			}
		}
	}
	return &p
}

// plain describes an error of the decoder without types of Go.
func plain(err error, value any) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Type != nil:
		return fmt.Errorf("is %s where %s is expected", describe(value), describeType(wrong.Type))
	case errors.Is(err, resource.ErrFormatWrong), errors.Is(err, resource.ErrNumeric), errors.Is(err, resource.ErrSuffix):
		return fmt.Errorf("%q is not a quantity such as 500m or 4Gi", fmt.Sprint(value))
	}
	return oneLine(err)
}

// describe describes a value in terms of YAML.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	}
	return fmt.Sprintf("a %T", value)
}

// describeType describes a Go type in terms of YAML.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 up"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "a number"
}

// oneLine puts messages of parsers on one line.
func oneLine(err error) error {
	var parts []string
	for _, line := range strings.Split(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	text := strings.Join(parts, "; ")
	for _, noise := range []string{"error converting YAML to JSON: ", "yaml: unmarshal errors:; ", "yaml: ", "json: "} {
		text = strings.TrimPrefix(text, noise)
	}
	return errors.New(text)
}
