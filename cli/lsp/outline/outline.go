package outline

import (
	"slices"
	"strings"

	"github.com/virtward/virtward/fieldpath"
)

// maxFields bounds the fields of a text. With the bounds of a path, their paths have at most 50 MB.
const maxFields = 50_000

// Span is a part of a text, in bytes.
type Span struct{ From, To int }

// Contains reports whether an offset is in the span or at its end.
func (s Span) Contains(offset int) bool { return s.From <= offset && offset <= s.To }

// Field is a field, or an element of a list without a key.
type Field struct {
	// Path is its path in its document, such as spec.disks[0].name.
	Path string
	// Key is empty for an element. Value is empty for a field whose value begins in another line.
	Key, Value Span
	// Document counts the documents of the text, from 0.
	Document int
	// Block reports whether the value is a block scalar: Value has its lines then.
	Block bool
}

// Outline has the fields of a text, in their order.
type Outline struct {
	text   string
	Fields []Field
	// documents are the offsets at which documents begin.
	documents []int
	// byPath has the first field of each path.
	byPath map[place]int
}

// place is a path in a document.
type place struct {
	document int
	path     string
}

// Parse returns the fields of a text.
func Parse(text string) *Outline {
	return scanned(text).outline
}

// DocumentAt returns the number of the document at an offset.
func (o *Outline) DocumentAt(offset int) int {
	n, begins := slices.BinarySearch(o.documents, offset)
	if !begins {
		n--
	}
	return max(n, 0)
}

// Find returns a field of a document.
func (o *Outline) Find(document int, path string) (Field, bool) {
	i, ok := o.byPath[place{document, path}]
	if !ok {
		return Field{}, false
	}
	return o.Fields[i], true
}

// At returns the field whose key or value is at an offset.
func (o *Outline) At(offset int) (Field, bool) {
	for i := len(o.Fields) - 1; i >= 0; i-- { // inner fields are behind outer ones
		if f := o.Fields[i]; f.Key.To > f.Key.From && f.Key.Contains(offset) || f.Value.To > f.Value.From && f.Value.Contains(offset) {
			return f, true
		}
	}
	return Field{}, false
}

func (o *Outline) has(at place) bool { _, known := o.byPath[at]; return known }

// Text returns the value of a field without quotes and comments.
func (o *Outline) Text(f Field) string { return unquoted(o.text[f.Value.From:f.Value.To]) }

// Below returns the names of the fields of an object.
func (o *Outline) Below(document int, path string) (names []string) {
	for _, f := range o.Fields {
		if f.Document == document && f.Key.To > f.Key.From && parent(f.Path) == path {
			names = append(names, unquoted(o.text[f.Key.From:f.Key.To]))
		}
	}
	return names
}

func unquoted(text string) string {
	if len(text) >= 2 && strings.ContainsRune(`"'`, rune(text[0])) && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// parent returns the path around the last step.
func parent(path string) string {
	steps := fieldpath.Split(path)
	if len(steps) == 0 {
		return ""
	}
	return fieldpath.Prefix(path, len(steps)-1)
}
