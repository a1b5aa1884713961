package rego

import (
	"strings"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/limits/decode"
)

// maxPairs bounds the pairs of elements that the parser and the compiler may compare when they make the sets and objects of a module.
const maxPairs = 250_000

// pairs rejects a module whose sets and objects have many elements that are neither texts, integers nor names. Lists, calls and fractions can
// have one hash, so that the parser compares each with all others. So it reads the text of the module.
func pairs(module string) []diagnostics.Problem {
	total := 0
	r := bracketReader{module: module, open: []bracket{{}}}
	for r.next() {
		if total = min(total+r.closed.pairs(), tooHeavy); total > maxPairs {
			return []diagnostics.Problem{problemAt(module, r.closed.at,
				"the sets and objects up to this one have too many elements that are lists, sets, objects, calls, references or fractions: write lists instead of sets")}
		}
	}
	return nil
}

// bracket is what is between two brackets.
type bracket struct {
	kind byte
	at   int
	// elements are those that were read, and composed are those of them that may have the hash of another one.
	elements, composed int
	// tokens are those of the element that is being read, up to its colon, and shared reports that one of them has parts, or is a fraction.
	tokens int
	shared bool
	// value reports that the colon of the element was read, and body that these are expressions.
	value, body bool
}

// pairs are the pairs of elements that are compared at most.
func (b bracket) pairs() int {
	if b.kind != '{' || b.body {
		return 0
	}
	return times(b.composed, b.elements)
}

// token notes a token of the element that is being read.
func (b *bracket) token(shared bool) {
	if !b.value {
		b.tokens++
		b.shared = b.shared || shared
	}
}

// end ends an element.
func (b *bracket) end() {
	if b.tokens > 0 {
		b.elements++
		if b.shared || b.tokens > 1 {
			b.composed++
		}
	}
	b.tokens, b.shared, b.value = 0, false, false
}

// bracketReader reads the brackets of a module.
type bracketReader struct {
	module string
	at     int
	// open are the brackets around a place, outer ones first, and closed is the last one that was closed.
	open   []bracket
	closed bracket
}

func (r *bracketReader) top() *bracket { return &r.open[len(r.open)-1] }

// next reads up to the end of a bracket. It reports false at the end of the module.
func (r *bracketReader) next() bool {
	for r.at < len(r.module) {
		from, b := r.at, r.module[r.at]
		r.at++
		switch b {
		case ' ', '\t', '\r', '\n', '-':
		case '#':
			r.skip("\n")
		case '`':
			r.skip("`")
			r.top().token(false)
		case '"':
			r.at = min(decode.ClosingQuote(r.module, r.at)+1, len(r.module))
			r.top().token(false)
		case '$':
			r.top().token(true)
			if r.at < len(r.module) && (r.module[r.at] == '"' || r.module[r.at] == '`') {
				r.at++
				r.template(r.module[r.at-1])
			}
		case '[', '{', '(':
			r.top().token(true)
			r.open = append(r.open, bracket{kind: b, at: from})
		case ']', '}', ')':
			if len(r.open) == 1 {
				continue // the parser says what is wrong
			}
			r.top().end()
			r.closed = *r.top()
			r.open = r.open[:len(r.open)-1]
			if r.closed.kind == '"' || r.closed.kind == '`' {
				r.template(r.closed.kind)
			}
			return true
		case ',':
			r.top().end()
		case ':':
			r.top().value = true
		default:
			word := r.word(from)
			r.top().token(fraction(word))
			r.top().body = r.top().body || word == "some" || word == "every"
		}
	}
	return false
}

// template reads a part of a text with expressions in brackets, whose kind is the end of the text.
func (r *bracketReader) template(end byte) {
	for r.at < len(r.module) {
		b := r.module[r.at]
		r.at++
		switch {
		case b == end:
			return
		case b == '{':
			r.open = append(r.open, bracket{kind: end, at: r.at})
			return
		case b == '\\' && (end == '"' || strings.HasPrefix(r.module[r.at:], "{")):
			r.at++
		}
	}
}

// skip reads up to the end of a comment or a text.
func (r *bracketReader) skip(end string) {
	_, rest, _ := strings.Cut(r.module[r.at:], end)
	r.at = len(r.module) - len(rest)
}

// word reads a name, a number or an operator.
func (r *bracketReader) word(from int) string {
	for inName(r.module[from]) && r.at < len(r.module) && (inName(r.module[r.at]) || r.module[r.at] == '.') {
		r.at++
	}
	return r.module[from:r.at]
}

// fraction reports whether a word is a number that is no plain integer, or a reference.
func fraction(word string) bool {
	number := word[0] >= '0' && word[0] <= '9'
	return strings.Contains(word, ".") || number && (len(word) > exactDigits || strings.ContainsAny(word, "eE"))
}
