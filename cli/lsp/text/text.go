package text

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoding says what the characters of a position count.
type Encoding string

// The encodings of the Language Server Protocol: bytes, units of UTF-16, and code points.
const (
	UTF8  Encoding = "utf-8"
	UTF16 Encoding = "utf-16"
	UTF32 Encoding = "utf-32"
)

// Position is a position in a text. Both numbers count from 0.
type Position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// Range is a part of a text, without the character at its end.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// Change replaces a range, or the whole text if it has no range.
type Change struct {
	Range *Range `json:"range,omitempty"`
	Text  string `json:"text"`
}

// ErrTooLarge is the error of a change that makes a text larger than its bound.
var ErrTooLarge = errors.New("the text is too large")

// Text is a text with the offsets of its lines. It never changes.
type Text struct {
	content string
	// lines are the offsets at which lines begin.
	lines []int
}

// New returns a text. Lines end with a line feed, a carriage return, or both.
func New(content string) *Text {
	t := &Text{content: content, lines: []int{0}}
	for i := 0; i < len(content); i++ {
		switch content[i] {
		case '\r':
			if i+1 < len(content) && content[i+1] == '\n' {
				i++
			}
			t.lines = append(t.lines, i+1)
		case '\n':
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// String returns the content.
func (t *Text) String() string { return t.content }

// Lines returns the number of lines. A text that ends with a line break has an empty last line.
func (t *Text) Lines() int { return len(t.lines) }

// Line returns a line, from 0, without its end; empty if the text does not have it.
func (t *Text) Line(i int) string {
	if i < 0 || i >= len(t.lines) {
		return ""
	}
	end := len(t.content)
	if i+1 < len(t.lines) {
		end = t.lines[i+1]
	}
	return strings.TrimRight(t.content[t.lines[i]:end], "\r\n")
}

// Offset returns the offset of a position in bytes. A position behind a line or the text is at its end, and one inside of
// a code point is at its begin.
func (t *Text) Offset(p Position, e Encoding) int {
	switch {
	case p.Line < 0:
		return 0
	case p.Line >= len(t.lines):
		return len(t.content)
	}
	offset, left := t.lines[p.Line], p.Character
	for _, r := range t.Line(p.Line) {
		if left -= width(r, e); left < 0 {
			break
		}
		offset += utf8.RuneLen(r)
	}
	return offset
}

// Position returns the position of an offset in bytes. An offset behind a line is at its end.
func (t *Text) Position(offset int, e Encoding) Position {
	offset = min(max(offset, 0), len(t.content))
	line := sort.SearchInts(t.lines, offset+1) - 1
	p, at := Position{Line: line}, t.lines[line]
	for _, r := range t.Line(line) {
		if at += utf8.RuneLen(r); at > offset {
			break
		}
		p.Character += width(r, e)
	}
	return p
}

// width is the length of a code point in an encoding.
func width(r rune, e Encoding) int {
	switch e {
	case UTF8:
		return utf8.RuneLen(r)
	case UTF32:
		return 1
	}
	return utf16.RuneLen(r)
}

// Apply returns the text after changes, in their order. A text larger than a number of bytes is an error.
func (t *Text) Apply(changes []Change, e Encoding, maxBytes int) (*Text, error) {
	for i, c := range changes {
		content := c.Text
		if c.Range != nil {
			from, to := t.Offset(c.Range.Start, e), t.Offset(c.Range.End, e)
			if from > to {
				return nil, fmt.Errorf("contentChanges[%d].range: its end is before its start", i)
			}
			if len(t.content)-(to-from)+len(c.Text) > maxBytes {
				return nil, ErrTooLarge
			}
			content = t.content[:from] + c.Text + t.content[to:]
		}
		if len(content) > maxBytes {
			return nil, ErrTooLarge
		}
		t = New(strings.ToValidUTF8(content, "\uFFFD"))
	}
	return t, nil
}
