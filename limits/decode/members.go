package decode

import (
	"bytes"
	"encoding/json"
)

// Members visits the members of the object that begins at a position of JSON, in their order, and returns where it ends. visit gets
// a name and where its value begins, and returns where that ends: what Skip returns, for a value that it does not look at. If visit
// returns a negative position, so does Members, at once. JSON that is cut off ends everything that is open. Of other text, Members
// may visit anything.
func Members(text []byte, at int, visit func(name []byte, from int) (to int)) int {
	at = spaces(text, at)
	if at >= len(text) || text[at] != '{' {
		return Skip(text, at)
	}
	for at = spaces(text, at+1); at < len(text) && text[at] == '"'; {
		quote := min(ClosingQuote(text, at+1), len(text)-1)
		from := spaces(text, quote+1)
		if from >= len(text) || text[from] != ':' {
			return len(text)
		}
		if from = spaces(text, from+1); from >= len(text) {
			return len(text)
		}
		to := visit(unquoted(text[at:quote+1]), from)
		if to < 0 {
			return to
		}
		if at = spaces(text, to); at >= len(text) || text[at] != ',' {
			break
		}
		at = spaces(text, at+1)
	}
	return min(at+1, len(text))
}

// Elements visits the elements of the list that begins at a position of JSON, as Members does.
func Elements(text []byte, at int, visit func(index, from int) (to int)) int {
	at = spaces(text, at)
	if at >= len(text) || text[at] != '[' {
		return Skip(text, at)
	}
	at = spaces(text, at+1)
	for i := 0; at < len(text) && text[at] != ']'; i++ {
		to := visit(i, at)
		if to < 0 {
			return to
		}
		if at = spaces(text, to); at >= len(text) || text[at] != ',' {
			break
		}
		at = spaces(text, at+1)
	}
	return min(at+1, len(text))
}

// Skip returns where the value that begins at a position of JSON ends.
func Skip[T ~string | ~[]byte](text T, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = ClosingQuote(text, at+1)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return min(at+1, len(text))
		}
	}
	return len(text)
}

func spaces(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// unquoted returns the name in quotes; nil if it has an error.
func unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return bytes.Trim(quoted, `"`)
	}
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return nil
	}
	return []byte(name)
}
