package rego

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/limits/decode"
)

// maxPairs bounds the pairs of elements that the parser and the compiler may compare when they make the sets and objects of a module, and the
// pairs of its constants with one hash, which the compiler puts into indices and trees of types. A pair of short values is one.
const maxPairs = 250_000

// maxOpen are the brackets that may be in one another. A module with more has expressions of more than maxDepth.
const maxOpen = 10 * maxDepth

// pairs rejects a module whose sets and objects have many elements that may have one hash, and a module with many constants that have one hash.
// The parser and the compiler compare each of them with all others. So it reads the text of the module.
func pairs(module string) []diagnostics.Problem {
	total := 0
	r := bracketReader{module: module, open: []bracket{{}}}
	for r.next() {
		if total = min(total+r.closed.pairs(), tooHeavy); total > maxPairs {
			return []diagnostics.Problem{problemAt(module, r.closed.at,
				"the sets and objects up to this one have too many elements that are lists, sets, objects, calls, references, fractions or long integers: write lists instead of sets")}
		}
	}
	if len(r.open) > maxOpen {
		return []diagnostics.Problem{problemAt(module, r.top().at, fmt.Sprintf("the expression is nested deeper than %d levels", maxDepth))}
	}
	if total, at := alikePairs(r.constants); total > maxPairs {
		return []diagnostics.Problem{problemAt(module, at,
			"the module has too many values with the same hash as this one: numbers with one integer part, or lists, sets or objects whose numbers have one sum; write texts instead")}
	}
	return nil
}

// bracket is what is between two brackets.
type bracket struct {
	kind byte
	at   int
	// elements are those that were read, and composed are those of them that are not plain and whose hashes are not known.
	elements, composed int
	// tokens are those of the element that is being read, up to its colon, and values are those after it. Shared reports that one of the tokens
	// has parts, or is a fraction, a boolean or null.
	tokens, values int
	shared         bool
	// value reports that the colon of the element was read, and body that these are expressions.
	value, body bool
	// key is what was read of the element up to its colon, and whole are all elements with their values.
	key, whole literalValue
	// plain are the elements or keys that are texts or integers, and pairsOfKeys is how many elements have a colon.
	plain       []literalValue
	pairsOfKeys int
	// hashes are those of the elements that are constants, and weight is the largest one of an element that is not plain.
	hashes []elementHash
	weight int
}

// pairs are the pairs of elements that are compared at most.
func (b *bracket) pairs() int {
	if b.kind != '{' || b.body {
		return 0
	}
	return times(times(b.composed, b.elements)+2*displaced(b.hashes), b.weight)
}

// token notes a token of the element that is being read. It has parts, or is a fraction, a boolean or null, if it is shared.
func (b *bracket) token(c literalValue, shared bool) {
	b.whole.add(c)
	if b.value {
		b.values++
		return
	}
	b.tokens++
	b.key.add(c)
	b.shared = b.shared || shared
}

// end ends an element.
func (b *bracket) end() {
	if b.tokens > 0 {
		b.endElement()
	}
	b.tokens, b.values, b.shared, b.value, b.key = 0, 0, false, false, literalValue{}
}

func (b *bracket) endElement() {
	b.elements++
	b.whole.variable = b.whole.variable || b.tokens > 1 || b.value && b.values != 1
	plain := b.tokens == 1 && !b.shared
	if !plain {
		b.weight = max(b.weight, b.key.weight())
	}
	switch {
	case b.tokens == 1 && b.key.hashed():
		b.hashes = append(b.hashes, elementHash{b.key.hash, plain})
	case !plain:
		b.composed++
	}
	if plain && !b.key.variable {
		b.plain = append(b.plain, b.key)
	}
	if b.value {
		b.pairsOfKeys++
	}
}

// made returns what the bracket is, after its end. The hash of a set or an object is known if its elements or keys are texts and integers: there
// are no other ones that may be equal.
func (b *bracket) made() literalValue {
	made := b.whole
	made.kind = b.kind
	switch b.kind {
	case '[':
		return made
	case '{':
	default:
		made.variable = true
		return made
	}
	different := differentHashes(b.plain)
	switch {
	case b.pairsOfKeys != 0 && b.pairsOfKeys != b.elements:
		made.variable = true
	case len(b.plain) != b.elements:
		made.unhashed = true
	case b.pairsOfKeys != 0:
		made.unhashed = made.unhashed || len(different) != b.elements
	default:
		made.kind, made.hash, made.mark = aSetLiteral, 0, 0
		for _, one := range different {
			made.hash += one.hash
			made.mark += one.mark
		}
	}
	return made
}

// bracketReader reads the brackets of a module.
type bracketReader struct {
	module string
	at     int
	// open are the brackets around a place, outer ones first, and closed is the last one that was closed.
	open   []bracket
	closed bracket
	// minus and dot report that they were read after the last other token.
	minus, dot bool
	// constants are the numbers, lists, sets and objects of the module.
	constants []literalValue
}

func (r *bracketReader) top() *bracket { return &r.open[len(r.open)-1] }

// next reads up to the end of a bracket. It reports false at the end of the module, and if more than maxOpen brackets are open.
func (r *bracketReader) next() bool {
	for r.at < len(r.module) && len(r.open) <= maxOpen {
		from, b := r.at, r.module[r.at]
		r.at++
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '-':
			r.minus = true
			continue
		case '#':
			r.skip("\n")
			continue
		case '`':
			r.skip("`")
			r.top().token(textAt(r.module, from), false)
		case '"':
			r.at = min(decode.ClosingQuote(r.module, r.at)+1, len(r.module))
			r.top().token(textAt(r.module, from), false)
		case '$':
			r.top().token(literalValue{variable: true}, true)
			if r.at < len(r.module) && (r.module[r.at] == '"' || r.module[r.at] == '`') {
				r.at++
				r.template(r.module[r.at-1])
			}
		case '[', '{', '(':
			r.open = append(r.open, bracket{kind: b, at: from})
		case ']', '}', ')':
			if len(r.open) == 1 {
				continue // the parser says what is wrong
			}
			r.close()
			return true
		case ',':
			r.top().end()
		case ':':
			r.top().value = true
		default:
			r.token(from)
			continue
		}
		r.minus, r.dot = false, false
	}
	return false
}

// close ends a bracket.
func (r *bracketReader) close() {
	r.top().end()
	r.closed = *r.top()
	r.open = r.open[:len(r.open)-1]
	r.minus, r.dot = false, false
	if r.closed.kind == '"' || r.closed.kind == '`' {
		r.template(r.closed.kind)
		return
	}
	c := r.closed.made()
	r.note(c, r.closed.at)
	r.top().token(c, true)
}

// token reads a name, a number or an operator.
func (r *bracketReader) token(from int) {
	word := r.word(from)
	if word == "." { // a number or a field follows
		r.dot = true
		return
	}
	keyword := !r.dot && (word == "some" || word == "every")
	r.top().body = r.top().body || keyword
	c := literalValue{variable: true}
	shared := r.dot || fraction(word)
	switch {
	case number(word):
		if r.dot {
			word = "." + word
		}
		if r.minus {
			word = "-" + word
		}
		c = numberOf(word)
		r.note(c, from)
	case r.minus || r.dot:
	case word == "true":
		c, shared = literalValue{hash: ast.Boolean(true).Hash(), mark: markOf(word)}, true
	case word == "false", word == "null":
		c, shared = literalValue{hash: ast.Boolean(false).Hash(), mark: markOf(word)}, true
	}
	r.top().token(c, shared)
	r.minus, r.dot = false, strings.HasSuffix(word, ".")
}

// note notes a constant of the module.
func (r *bracketReader) note(c literalValue, at int) {
	if !c.variable {
		c.at = at
		r.constants = append(r.constants, c.group())
	}
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
	for inName(r.module[from]) && r.at < len(r.module) && (inName(r.module[r.at]) || r.module[r.at] == '.' || r.signsExponent(from)) {
		r.at++
	}
	return r.module[from:r.at]
}

// signsExponent reports whether the next byte is the sign of the exponent of a number.
func (r *bracketReader) signsExponent(from int) bool {
	next := r.module[r.at]
	return (next == '-' || next == '+') && number(r.module[from:]) && r.module[r.at-1]|' ' == 'e'
}

// number reports whether a word is a number.
func number(word string) bool { return word[0] >= '0' && word[0] <= '9' }

// fraction reports whether a word is a number that is no plain integer, or a reference.
func fraction(word string) bool {
	return strings.Contains(word, ".") || number(word) && (len(word) > exactDigits || strings.ContainsAny(word, "eE"))
}
