package rego

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/limits/decode"
)

// valueOf returns the value of JSON that package json has encoded, without the Go values that OPA's own decoder makes first. Fields of
// objects that are not among fields are left out, if it is not nil. hashed gets its texts; those with near hashes
// are an error.
func valueOf(text string, fields *Fields, hashed *hashedTexts) (ast.Value, error) {
	if !utf8.ValidString(text) {
		text = string([]rune(text)) // as the decoder does
	}
	r := reader{text: text, fields: fields, hashed: hashed}
	switch v := r.value(); {
	case r.near != nil:
		return nil, r.near
	case v != nil && r.at == len(text):
		return v, nil
	}
	v, err := ast.ValueFromReader(strings.NewReader(text)) // which says what is wrong
	if err != nil {
		return nil, err
	}
	if near := hashed.addAll(v); near != nil {
		return nil, near
	}
	return v, nil
}

// reader reads JSON without spaces. Texts without escapes are parts of it.
type reader struct {
	text string
	at   int
	// fields are those of the object that is read next.
	fields *Fields
	// terms are those that are not used yet. They are made together, because a document is kept as a whole.
	terms []ast.Term
	// members and names are those of the objects that are being read, outer ones first.
	members [][2]*ast.Term
	names   []string
	// elements are those of the lists that are being read.
	elements []*ast.Term
	// hashed are the texts that were read, and near are two of them with near hashes.
	hashed *hashedTexts
	near   *nearTexts
}

// termsAtOnce are made together, if a text is long enough for so many.
const termsAtOnce = 64

func (r *reader) term(v ast.Value) *ast.Term {
	if len(r.terms) == 0 {
		r.terms = make([]ast.Term, min(termsAtOnce, 1+(len(r.text)-r.at)/2))
	}
	made := &r.terms[0]
	r.terms = r.terms[1:]
	made.Value = v
	return made
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
			return ast.InternedValue(text)
		}
		return nil
	case 'n':
		return r.literal("null", ast.NullValue)
	case 't':
		return r.literal("true", ast.InternedValue(true))
	case 'f':
		return r.literal("false", ast.InternedValue(false))
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
	text = r.text[from:end]
	if strings.IndexByte(text, '\\') >= 0 && json.Unmarshal([]byte(r.text[from-1:r.at]), &text) != nil {
		return "", false
	}
	r.near = r.hashed.add(text)
	return text, r.near == nil
}

func (r *reader) array() ast.Value {
	r.at++
	r.fields = nil // elements are read whole
	from := len(r.elements)
	for first := true; !r.next("]"); first = false {
		if !first && !r.next(",") {
			return nil
		}
		v := r.value()
		if v == nil {
			return nil
		}
		r.elements = append(r.elements, r.term(v))
	}
	made := ast.NewArray(slices.Clone(r.elements[from:])...)
	r.elements = r.elements[:from]
	return made
}

// fewMembers are so few that a name is looked for among all others.
const fewMembers = 32

func (r *reader) object() ast.Value {
	r.at++
	from, fields := len(r.members), r.fields
	for first := true; !r.next("}"); first = false {
		if !first && !r.next(",") {
			return nil
		}
		name, ok := r.string()
		if !ok || !r.next(":") {
			return nil
		}
		below, read := fields.below(name)
		if !read {
			r.at = decode.Skip(r.text, r.at)
			continue
		}
		r.fields = below
		v := r.value()
		if v == nil {
			return nil
		}
		r.members, r.names = append(r.members, [2]*ast.Term{r.name(name), r.term(v)}), append(r.names, name)
	}
	made := objectOf(r.members[from:], r.names[from:])
	r.members, r.names = r.members[:from], r.names[:from]
	return made
}

// name returns the term of a name, which fields of documents share.
func (r *reader) name(name string) *ast.Term {
	if known := fieldNames()[name]; known != nil {
		return known
	}
	return r.term(ast.InternedValue(name))
}

func objectOf(members [][2]*ast.Term, names []string) ast.Value {
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
