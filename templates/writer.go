package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/texts"
)

// write appends to the result, up to its bound.
func (r *renderer) write(data ...string) {
	for _, d := range data {
		if len(r.out)+len(d) > maxRendered {
			r.tooLarge()
			return
		}
		r.out = append(r.out, d...)
	}
}

func (r *renderer) tooLarge() {
	if !r.tooLong {
		r.tooLong = true
		r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: virtualMachineAt, BadValue: "", Detail: fmt.Sprintf("the rendered VirtualMachine has more than %d bytes", maxRendered)})
	}
}

func (r *renderer) writeText(text string) {
	if len(r.out)+len(text) > maxRendered {
		r.tooLarge()
		return
	}
	r.out = appendText(r.out, text)
}

// appendText appends a string in JSON.
func appendText(out []byte, text string) []byte {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil { // no string fails
				return append(out, '"', '"')
			}
			return append(out, quoted...)
		}
	}
	out = append(out, '"')
	out = append(out, text...)
	return append(out, '"')
}

// node writes a value of the tree. literal: it is of a parameter's value, in which nothing is replaced.
func (r *renderer) node(node any, s *shape, literal bool) {
	if r.tooLong || r.full() {
		return
	}
	if len(r.path) > maxDepth {
		r.mismatch(s, "it is nested too deeply")
		return
	}
	switch n := node.(type) {
	case nil:
		r.write("null")
	case map[string]any:
		if s.kind == itself {
			r.decodesItself(node, s)
			return
		}
		if s.kind != object && s.kind != dictionary && s.kind != anything {
			r.mismatch(s, "an object")
			return
		}
		r.object(n, s, literal)
	case []any:
		if s.kind != list && s.kind != anything {
			r.mismatch(s, "a list")
			return
		}
		r.list(n, s, literal)
	case string:
		r.string(n, s, literal)
	case json.Number:
		r.number(n, s)
	case bool:
		if s.kind != boolean && s.kind != anything {
			r.mismatch(s, strconv.FormatBool(n))
			return
		}
		r.write(strconv.FormatBool(n))
	}
}

// mismatch reports a value of another type than the field's.
func (r *renderer) mismatch(s *shape, found string) {
	r.deny(RuleDoesNotDecode, invalid(r.at(), texts.Shorten(found, maxShown), "it must be "+s.kind.String()))
}

func (r *renderer) list(elements []any, s *shape, literal bool) {
	element := s.element
	if element == nil {
		element = &shape{}
	}
	r.write("[")
	for i, e := range elements {
		if i > 0 {
			r.write(",")
		}
		r.path = append(r.path, step{index: i, kind: indexStep})
		r.node(e, element, literal)
		r.path = r.path[:len(r.path)-1]
	}
	r.write("]")
}

func (r *renderer) object(members map[string]any, s *shape, literal bool) {
	r.write("{")
	var taken map[string]bool
	first := true
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, replaced, ok := name, false, true
		if !literal {
			key, replaced, ok = r.key(name)
		}
		if !ok || !literal && r.isHardCodedNamespace(key, members[name]) {
			continue
		}
		if replaced {
			if taken == nil {
				taken = keysWithoutReferences(members)
			}
			if taken[key] {
				shown := texts.Shorten(key, maxShown)
				r.deny(RuleKeyCollision, &field.Error{Type: field.ErrorTypeDuplicate, Field: r.at() + "[" + shown + "]", BadValue: shown})
				continue
			}
			taken[key] = true
		}
		child, kind := r.member(key, s)
		if child == nil {
			continue
		}
		if !first {
			r.write(",")
		}
		first = false
		r.writeText(key)
		r.write(":")
		r.path = append(r.path, step{name: key, kind: kind})
		r.node(members[name], child, literal)
		r.path = r.path[:len(r.path)-1]
	}
	r.write("}")
}

// keysWithoutReferences are the keys of an object that stay as they are.
func keysWithoutReferences(members map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range members {
		if !hasReference(key) {
			keys[key] = true
		}
	}
	return keys
}

// member is the shape of a member of an object; nil, and reported, if there is no such field.
func (r *renderer) member(key string, s *shape) (*shape, stepKind) {
	switch s.kind {
	case object:
		if child := s.fields[key]; child != nil {
			return child, fieldStep
		}
		r.deny(RuleUnknownField, invalid(r.at()+"."+texts.Shorten(key, maxShown), texts.Shorten(key, maxShown), "a VirtualMachine has no such field"))
		return nil, fieldStep
	case dictionary:
		return s.element, keyStep
	}
	return &shape{}, keyStep
}

// isHardCodedNamespace reports whether a member is the VirtualMachine's namespace without a reference, which is removed.
func (r *renderer) isHardCodedNamespace(key string, value any) bool {
	if key != "namespace" || len(r.path) != 1 || r.path[0].name != "metadata" {
		return false
	}
	text, isText := value.(string)
	if !isText {
		return value == nil
	}
	return !hasReference(text)
}

// isUnknown notes that a value is not known of what is written. Of very many values, nothing is known of the rest.
func (r *renderer) isUnknown() {
	switch n := len(r.unknown); {
	case n < maxUnknown:
		r.unknown = append(r.unknown, r.at())
	case n == maxUnknown:
		r.unknown = append(r.unknown, virtualMachineAt+".metadata", virtualMachineAt+".spec")
	}
}

// text writes a string, for a field that takes one.
func (r *renderer) text(text string, s *shape) {
	switch {
	case s.kind == itself:
		r.decodesItself(text, s)
	case s.takesText():
		r.writeText(text)
	default:
		r.mismatch(s, text)
	}
}
