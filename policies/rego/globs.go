package rego

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

// OPA's matcher of globs tries all ways in which the wildcards of a pattern can share a text: with twenty wildcards, a text of 60 characters
// takes years. So glob.match is answered here. A part of a pattern is matched at all places at once that the parts before it can end at.

// maxGlob bounds a pattern, in bytes.
const maxGlob = 8_000

// globPart is a part of a pattern.
type globPart struct {
	kind globKind
	// text is what a literal matches, and the characters of a class.
	text string
	// low and high are the ends of a class that is a range, and not reports that a class matches all other characters.
	low, high rune
	not       bool
	// alternatives are what is between braces.
	alternatives [][]globPart
}

type globKind uint8

const (
	globLiteral globKind = iota
	// globCharacter is a question mark, and globStar and globStars are one and two asterisks.
	globCharacter
	globStar
	globStars
	// globSet and globRange are classes.
	globSet
	globRange
	globAlternatives
)

// globbed answers whether a text matches a pattern.
func globbed(operands []*ast.Term) (charge, error) {
	pattern, ok := operands[0].Value.(ast.String)
	delimiters, known := globDelimiters(operands[1])
	subject, too := operands[2].Value.(ast.String)
	if !ok || !known || !too {
		return charge{}, nil // the function says what is wrong
	}
	if len(pattern) > maxGlob {
		return charge{}, fmt.Errorf("a pattern of %d characters is longer than %d", len(pattern), maxGlob)
	}
	const part, places, tried = 512, 4, 512
	size := len(pattern) + weight(operands[1])
	return charge{
		takes: times(part, size) + times(places, times(1+strings.Count(string(pattern), "{"), len(subject))),
		work:  (size+len(subject))/64 + times(size, len(subject))/tried,
		then: func() (charge, error) {
			matches, err := globMatches(string(pattern), delimiters, string(subject))
			if err != nil {
				return charge{}, err
			}
			return charge{}, answer{ast.InternedTerm(matches)}
		},
	}, nil
}

// globDelimiters are the characters that an asterisk does not match. It reports false for a term that is wrong.
func globDelimiters(term *ast.Term) (delimiters string, ok bool) {
	switch v := term.Value.(type) {
	case ast.Null:
		return "", true
	case *ast.Array:
		if v.Len() == 0 {
			return ".", true
		}
		wrong := v.Until(func(element *ast.Term) bool {
			one, ok := element.Value.(ast.String)
			delimiters += string(one)
			return !ok || utf8.RuneCountInString(string(one)) != 1
		})
		return delimiters, !wrong
	}
	return "", false
}

func globMatches(pattern, delimiters, subject string) (bool, error) {
	if !utf8.ValidString(pattern) {
		return false, errors.New("the pattern is no valid UTF-8")
	}
	p := globParser{rest: []rune(pattern)}
	parts := p.sequence(false)
	if p.wrong != "" {
		return false, fmt.Errorf("the pattern is wrong: %s", p.wrong)
	}
	m := globMatcher{subject: subject}
	m.delimited = m.empty()
	for at, r := range subject {
		m.delimited[at] = strings.ContainsRune(delimiters, r)
	}
	places := m.empty()
	places[0] = true
	return m.sequence(parts, places)[len(subject)], nil
}

// globParser reads a pattern as OPA does.
type globParser struct {
	rest  []rune
	wrong string
}

func (p *globParser) next() (r rune, ok bool) {
	if len(p.rest) == 0 {
		return 0, false
	}
	r, p.rest = p.rest[0], p.rest[1:]
	return r, true
}

// sees passes by a character if it is the next one.
func (p *globParser) sees(r rune) bool {
	if len(p.rest) == 0 || p.rest[0] != r {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *globParser) fails(wrong string) {
	if p.wrong == "" {
		p.wrong = wrong
	}
	p.rest = nil
}

// sequence reads up to the end of the pattern, or of an alternative.
func (p *globParser) sequence(inBraces bool) []globPart {
	var parts []globPart
	special := `?*[{`
	if inBraces {
		special += `,}`
	}
	for len(p.rest) > 0 && (!inBraces || p.rest[0] != ',' && p.rest[0] != '}') {
		switch {
		case p.sees('?'):
			parts = append(parts, globPart{kind: globCharacter})
		case p.sees('*'):
			kind := globStar
			if p.sees('*') {
				kind = globStars
			}
			parts = append(parts, globPart{kind: kind})
		case p.sees('['):
			parts = append(parts, p.class())
		case p.sees('{'):
			parts = append(parts, p.braces())
		default:
			parts = append(parts, globPart{text: p.text(special)})
		}
	}
	return parts
}

// text reads up to one of some characters. A backslash is in front of a literal one.
func (p *globParser) text(end string) string {
	var text strings.Builder
	for len(p.rest) > 0 && !strings.ContainsRune(end, p.rest[0]) {
		r, _ := p.next()
		if r == '\\' {
			var ok bool
			if r, ok = p.next(); !ok {
				p.fails("it ends with a backslash")
				break
			}
		}
		text.WriteRune(r)
	}
	return text.String()
}

// class reads what is behind a bracket.
func (p *globParser) class() globPart {
	made := globPart{kind: globSet, not: p.sees('!')}
	if len(p.rest) > 1 && p.rest[1] == '-' {
		made.kind, made.low = globRange, p.rest[0]
		p.rest = p.rest[2:]
		if made.high, _ = p.next(); made.high < made.low {
			p.fails("a range ends before it begins")
		}
	} else if made.text = p.text("]"); made.text == "" {
		p.fails("a class is empty")
	}
	if !p.sees(']') {
		p.fails("a class has no end")
	}
	return made
}

// braces reads what is behind a brace.
func (p *globParser) braces() globPart {
	made := globPart{kind: globAlternatives}
	for {
		made.alternatives = append(made.alternatives, p.sequence(true))
		switch {
		case p.sees('}'):
			return made
		case !p.sees(','):
			p.fails("a brace has no end")
			return made
		}
	}
}

// globMatcher matches the parts of a pattern. A place is a number of bytes of the subject, and places are true where a part may begin or end.
type globMatcher struct {
	subject string
	// delimited are where delimiters begin, and unused are places that are used again.
	delimited []bool
	unused    [][]bool
}

// empty returns no places.
func (m *globMatcher) empty() []bool {
	if last := len(m.unused) - 1; last >= 0 {
		places := m.unused[last]
		m.unused = m.unused[:last]
		clear(places)
		return places
	}
	return make([]bool, len(m.subject)+1)
}

// sequence returns where parts can end that begin at some places, which it uses.
func (m *globMatcher) sequence(parts []globPart, places []bool) []bool {
	for i := range parts {
		next := m.empty()
		m.part(&parts[i], places, next)
		m.unused = append(m.unused, places)
		places = next
	}
	return places
}

// part notes where a part can end.
func (m *globMatcher) part(part *globPart, from, to []bool) {
	switch part.kind {
	case globAlternatives:
		for _, alternative := range part.alternatives {
			places := m.empty()
			copy(places, from)
			places = m.sequence(alternative, places)
			for at, ends := range places {
				to[at] = to[at] || ends
			}
			m.unused = append(m.unused, places)
		}
	case globStar, globStars:
		m.star(part.kind == globStars, from, to)
	case globLiteral, globCharacter, globSet, globRange:
		for at, begins := range from {
			if begins {
				if width, ok := m.width(part, at); ok {
					to[at+width] = true
				}
			}
		}
	}
}

// star notes all places up to the next delimiter.
func (m *globMatcher) star(all bool, from, to []bool) {
	within := false
	for at := 0; at <= len(m.subject); {
		within = within || from[at]
		to[at] = within
		_, width := utf8.DecodeRuneInString(m.subject[at:])
		within = within && (all || !m.delimited[at])
		at += max(width, 1)
	}
}

// width is how many bytes a part matches that is no star.
func (m *globMatcher) width(part *globPart, at int) (bytes int, ok bool) {
	if part.kind == globLiteral {
		return len(part.text), strings.HasPrefix(m.subject[at:], part.text)
	}
	r, bytes := utf8.DecodeRuneInString(m.subject[at:])
	switch {
	case bytes == 0:
		return 0, false
	case part.kind == globSet:
		return bytes, strings.ContainsRune(part.text, r) != part.not
	case part.kind == globRange:
		return bytes, (part.low <= r && r <= part.high) != part.not
	}
	return bytes, !m.delimited[at]
}
