package policytest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/texts"
)

func unmarshal(data []byte, into any) error {
	return sigsjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// decode reads a document into a value of its Go type. An unknown field is a problem: a misspelled one would change
// what is tested.
func decode(d manifests.Document, into any) []Problem {
	unknown, err := decodeKnown(d, into)
	if err != nil {
		return []Problem{*err}
	}
	return unknown
}

// maxUnknownFields bounds the unknown fields of a document that are reported. The position of each is searched in the file.
const maxUnknownFields = 100

// decodeKnown reads the known fields of a document into a value of its Go type, and returns the unknown ones, up to a bound.
func decodeKnown(d manifests.Document, into any) (unknown []Problem, wrong *Problem) {
	fields, err := manifests.Decode(d.Object.Object, into)
	if err != nil {
		field, message, named := strings.Cut(err.Error(), ": ")
		if !named || strings.ContainsAny(field, " \"") {
			field, message = "", err.Error()
		}
		problem := at(d, field, message)
		return nil, &problem
	}
	for _, text := range fields[:min(len(fields), maxUnknownFields)] {
		field := strings.TrimPrefix(text, "unknown field ")
		unknown = append(unknown, at(d, field, "unknown field"+meant(reflect.TypeOf(into), field)))
	}
	return unknown, nil
}

// meant suggests a field of a type for the last step of a path; it is empty if no field is similar.
func meant(t reflect.Type, path string) string {
	steps := fieldpath.Split(path)
	for _, step := range steps[:max(0, len(steps)-1)] {
		if t = fieldpath.Below(t, step); t == nil {
			return ""
		}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || len(steps) == 0 {
		return ""
	}
	return suggestion(steps[len(steps)-1], fieldpath.NamesOf(t))
}

// suggestion suggests a known name for an unknown one; it is empty if none is similar.
func suggestion(name string, known []string) string {
	best := texts.Closest(name, known)
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// index returns the path of an element.
func index(list string, i int) string { return fieldpath.Indexed(list, i, "") }

// oneOf returns an error text, or an empty one if the value is one of the words.
func oneOf[T ~string](value T, known ...T) string {
	if slices.Contains(known, value) {
		return ""
	}
	words := make([]string, len(known))
	for i := range known {
		words[i] = string(known[i])
	}
	return fmt.Sprintf("%q must be one of %s", value, strings.Join(words, ", "))
}
