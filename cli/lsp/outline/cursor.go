package outline

import "strings"

// Cursor is what an author types at an offset.
type Cursor struct {
	// Path is the object around a key, the field of a value, or an element that has neither key nor value yet.
	Path string
	// Value reports whether a value is typed.
	Value bool
	// Element reports whether the key begins an element of a list.
	Element bool
	// From is where the typed word begins, and Prefix is the word as far as it is before the cursor. In a block scalar, it is
	// the text before the cursor.
	From   int
	Prefix string
	// Named reports whether the typed key has its colon.
	Named bool
}

// CursorAt returns what is typed at an offset.
func CursorAt(text string, offset int) Cursor {
	offset = min(max(offset, 0), len(text))
	start := strings.LastIndexByte(text[:offset], '\n') + 1
	whole := scanned(text[:offset])
	if c := whole.inFlow; c != nil {
		c.Prefix = strings.TrimLeft(text[c.From:offset], ` "'`)
		c.From = offset - len(c.Prefix)
		c.Named = behind(text, offset)
		return *c
	}
	before := scanned(text[:start])
	line := text[start:offset]
	column := len(line) - len(strings.TrimLeft(line, " "))
	if f := before.inBlock; f != nil && column > before.top().indent {
		return Cursor{Path: f.Path, Value: true, From: f.Value.From, Prefix: text[f.Value.From:offset]}
	}
	column, element := before.dashes(line, column)
	rest := line[column:]
	if rest != "" {
		if key := keyLength(rest); key > 0 {
			before.leave(column)
			value := strings.TrimLeft(rest[key+1:], ` "'`)
			return Cursor{Path: joined(before.top().path, unquoted(rest[:key])), Value: true, From: offset - len(value), Prefix: value}
		}
	}
	if !element {
		before.leave(column)
	}
	prefix := strings.TrimLeft(rest, `"'`)
	return Cursor{Path: before.top().path, Element: element, From: offset - len(prefix), Prefix: prefix, Named: behind(text, offset)}
}

func scanned(text string) *scanner {
	s := &scanner{outline: &Outline{text: text, documents: []int{0}, byPath: map[place]int{}}}
	for s.at < len(text) && len(s.outline.Fields) < maxFields {
		s.line()
	}
	return s
}

// behind reports whether the word at an offset ends with a colon.
func behind(text string, offset int) bool {
	rest := text[offset:lineEnd(text, offset)]
	end := strings.IndexAny(rest, " ,:{}[]\"'\r")
	return end >= 0 && rest[end] == ':'
}
