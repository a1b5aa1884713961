package convert

import (
	"slices"
	"strings"
	"unicode"
)

// token is a part of an expression.
type token struct {
	// start and stop are positions in code points.
	start, stop int
	kind        tokenKind
	text        string
}

type tokenKind int

const (
	tokenName tokenKind = iota
	tokenLiteral
	tokenSign
	tokenSpace
)

// signs are the operators of two characters.
var signs = []string{"==", "!=", "<=", ">=", "&&", "||"}

// tokens splits an expression, without its spaces and comments. It expects one that compiles.
func tokens(runes []rune) []token {
	var all []token
	for i := 0; i < len(runes); {
		kind, stop := tokenAt(runes, i)
		if kind != tokenSpace {
			all = append(all, token{i, stop, kind, string(runes[i:stop])})
		}
		i = stop
	}
	return all
}

// tokenAt returns the kind of the token at a position, and where it ends.
func tokenAt(runes []rune, i int) (kind tokenKind, stop int) {
	while := func(from int, more func(rune) bool) int {
		for from < len(runes) && more(runes[from]) {
			from++
		}
		return from
	}
	isWord := func(r rune) bool { return isLetter(r) || isDigit(r) }
	switch r := runes[i]; {
	case unicode.IsSpace(r):
		return tokenSpace, i + 1
	case r == '/' && i+1 < len(runes) && runes[i+1] == '/':
		return tokenSpace, while(i, func(r rune) bool { return r != '\n' })
	case r == '\'' || r == '"':
		return tokenLiteral, afterString(runes, i, false)
	case isDigit(r):
		return tokenLiteral, while(i, func(r rune) bool { return isWord(r) || r == '.' })
	case isLetter(r):
		stop := while(i, isWord)
		if stop < len(runes) && (runes[stop] == '\'' || runes[stop] == '"') && stop-i <= 2 { // the prefix of a string, such as r
			return tokenLiteral, afterString(runes, stop, strings.ContainsAny(string(runes[i:stop]), "rR"))
		}
		return tokenName, stop
	case i+1 < len(runes) && slices.Contains(signs, string(runes[i:i+2])):
		return tokenSign, i + 2
	}
	return tokenSign, i + 1
}

func isLetter(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '`'
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// afterString returns the position behind the string that begins at a quote.
func afterString(runes []rune, i int, raw bool) int {
	quote, n := runes[i], 1
	if i+2 < len(runes) && runes[i+1] == quote && runes[i+2] == quote {
		n = 3
	}
	for i += n; i < len(runes); i++ {
		if runes[i] == '\\' && !raw {
			i++
			continue
		}
		closing := 0
		for closing < n && i+closing < len(runes) && runes[i+closing] == quote {
			closing++
		}
		if closing == n {
			return i + n
		}
	}
	return len(runes)
}

// opposite are the brackets.
var opposite = map[string]string{"(": ")", "[": "]", "{": "}", ")": "(", "]": "[", "}": "{"}

// matching returns the index of the bracket that belongs to the one at an index; -1 if there is none.
func matching(all []token, at, step int) int {
	depth := 0
	for i := at; i >= 0 && i < len(all); i += step {
		if all[i].kind != tokenSign {
			continue
		}
		switch all[i].text {
		case all[at].text:
			depth++
		case opposite[all[at].text]:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// before returns the index at which the operand that ends at an index begins; -1 if it cannot be found.
func before(all []token, end int) int {
	for i := end; i >= 0; {
		switch t := all[i]; {
		case t.text == ")" || t.text == "]":
			open := matching(all, i, -1)
			if open < 0 {
				return -1
			}
			called := open > 0 && (all[open-1].kind == tokenName && all[open-1].text != "in" || t.text == "]" && slices.Contains([]string{")", "]"}, all[open-1].text))
			if !called {
				return open
			}
			i = open - 1
		case t.kind == tokenName || t.kind == tokenLiteral:
			dot := i - 1
			if dot >= 0 && all[dot].text == "?" {
				dot--
			}
			if dot < 1 || all[dot].text != "." {
				return i
			}
			i = dot - 1
		default:
			return -1
		}
	}
	return -1
}

// after returns the index at which the operand that begins at an index ends; -1 if it cannot be found.
func after(all []token, begin int) int {
	if begin >= len(all) {
		return -1
	}
	i := begin
	switch t := all[begin]; {
	case t.text == "(" || t.text == "[":
		if i = matching(all, begin, 1); i < 0 {
			return -1
		}
	case t.kind == tokenSign:
		return -1
	}
	for i+1 < len(all) {
		switch next := all[i+1]; {
		case next.text == "." && i+2 < len(all):
			i += 2
			if all[i].text == "?" && i+1 < len(all) {
				i++
			}
		case next.text == "(" || next.text == "[":
			if i = matching(all, i+1, 1); i < 0 {
				return -1
			}
		default:
			return i
		}
	}
	return i
}
