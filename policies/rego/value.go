package rego

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/limits/decode"
)

// valueOf returns the value of JSON that package json has encoded, without the Go values that OPA's own decoder makes first.
func valueOf(data []byte) (ast.Value, error) {
	r := reader{text: string(data)}
	if utf8.Valid(data) {
		if v := r.value(); v != nil && r.at == len(r.text) {
			return v, nil
		}
	}
	return ast.ValueFromReader(bytes.NewReader(data)) // which says what is wrong
}

// reader reads JSON without spaces. Texts without escapes are parts of it.
type reader struct {
	text string
	at   int
}

// value reads a value; nil for another text.
func (r *reader) value() ast.Value {
	if r.at >= len(r.text) {
		return nil
	}
	switch r.text[r.at] {
	case '{':
		return r.object()
	case '[':
		return r.array()
	case '"':
		if text, ok := r.string(); ok {
			return ast.InternedTerm(text).Value
		}
		return nil
	case 'n':
		return r.literal("null", ast.NullValue)
	case 't':
		return r.literal("true", ast.InternedTerm(true).Value)
	case 'f':
		return r.literal("false", ast.InternedTerm(false).Value)
	}
	return r.number()
}

func (r *reader) literal(text string, v ast.Value) ast.Value {
	if !r.next(text) {
		return nil
	}
	return v
}

// next passes by a text.
func (r *reader) next(text string) bool {
	if !strings.HasPrefix(r.text[r.at:], text) {
		return false
	}
	r.at += len(text)
	return true
}

func (r *reader) number() ast.Value {
	from := r.at
	for r.at < len(r.text) && decode.Numeric(r.text[r.at]) {
		r.at++
	}
	digits := r.text[from:r.at]
	if known := ast.InternedIntNumberTermFromString(digits); known != nil {
		return known.Value
	}
	if v, err := ast.NumberChecked(digits); err == nil && json.Valid([]byte(digits)) {
		return v
	}
	return nil
}

func (r *reader) string() (text string, ok bool) {
	if !r.next(`"`) {
		return "", false
	}
	from := r.at
	end := decode.ClosingQuote(r.text, from)
	if end >= len(r.text) {
		return "", false
	}
	r.at = end + 1
	if text = r.text[from:end]; strings.IndexByte(text, '\\') < 0 {
		return text, true
	}
	return text, json.Unmarshal([]byte(r.text[from-1:r.at]), &text) == nil
}

func (r *reader) array() ast.Value {
	r.at++
	var elements []*ast.Term
	for first := true; !r.next("]"); first = false {
		if !first && !r.next(",") {
			return nil
		}
		v := r.value()
		if v == nil {
			return nil
		}
		elements = append(elements, ast.NewTerm(v))
	}
	return ast.NewArray(elements...)
}

// fewMembers are so few that a name is looked for among all others.
const fewMembers = 32

func (r *reader) object() ast.Value {
	r.at++
	var members [][2]*ast.Term
	var names []string
	for first := true; !r.next("}"); first = false {
		if !first && !r.next(",") {
			return nil
		}
		name, ok := r.string()
		if !ok || !r.next(":") {
			return nil
		}
		v := r.value()
		if v == nil {
			return nil
		}
		members, names = append(members, [2]*ast.Term{ast.InternedTerm(name), ast.NewTerm(v)}), append(names, name)
	}
	if distinct(names) {
		return ast.NewObject(members...)
	}
	made := ast.NewObject()
	for _, member := range members {
		made.Insert(member[0], member[1])
	}
	return made
}

// distinct reports whether no name occurs twice.
func distinct(names []string) bool {
	if len(names) > fewMembers {
		known := make(map[string]bool, len(names))
		for _, name := range names {
			known[name] = true
		}
		return len(known) == len(names)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return false
		}
	}
	return true
}
