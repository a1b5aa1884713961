package outline

import (
	"strings"

	"github.com/virtward/virtward/fieldpath"
)

// Bounds of a path.
const (
	maxDepth = 64
	maxKey   = 200
	// maxPath bounds the path around a field whose name is added to it.
	maxPath = 512
)

// frame is a field or an element around the next line.
type frame struct {
	indent  int
	path    string
	element bool
	index   int
}

// scanner reads lines.
type scanner struct {
	outline *Outline
	at      int
	stack   []frame
	// inFlow is where a flow collection is open at the end of the text, and inBlock the block scalar that reaches the end.
	inFlow  *Cursor
	inBlock *Field
}

func (s *scanner) top() frame {
	if len(s.stack) == 0 {
		return frame{indent: -1}
	}
	return s.stack[len(s.stack)-1]
}

// leave removes frames until the top is the object around a key of a column.
func (s *scanner) leave(column int) {
	for len(s.stack) > 0 && s.top().indent >= column {
		s.stack = s.stack[:len(s.stack)-1]
	}
}

func (s *scanner) push(f frame) {
	if len(s.stack) < maxDepth {
		s.stack = append(s.stack, f)
	}
}

func (s *scanner) add(f Field) {
	if len(s.outline.Fields) >= maxFields {
		return
	}
	f.Document = len(s.outline.documents) - 1
	if at := (place{f.Document, f.Path}); !s.outline.has(at) {
		s.outline.byPath[at] = len(s.outline.Fields)
	}
	s.outline.Fields = append(s.outline.Fields, f)
}

// line reads a line, and those of its value.
func (s *scanner) line() {
	s.inBlock = nil
	text, start := s.outline.text, s.at
	end := lineEnd(text, start)
	s.at = min(end+1, len(text))
	line := strings.TrimRight(text[start:end], "\r")
	if line == "---" || strings.HasPrefix(line, "--- ") {
		if start > 0 {
			s.outline.documents = append(s.outline.documents, start)
		}
		s.stack = nil
		return
	}
	column := len(line) - len(strings.TrimLeft(line, " "))
	if column == len(line) || line[column] == '#' {
		return
	}
	column, isElement := s.dashes(line, column)
	if column == len(line) {
		return
	}
	from := start + column
	if isElement && strings.ContainsRune("{[", rune(line[column])) {
		s.flow(from, s.top().path, s.top().indent)
		return
	}
	key := keyLength(line[column:])
	if key == 0 {
		if isElement {
			s.add(Field{Path: s.top().path, Value: scalar(text, from, start+len(line))})
		}
		return
	}
	s.leave(column)
	path := joined(s.top().path, unquoted(line[column:column+key]))
	s.push(frame{indent: column, path: path})
	field := Field{Path: path, Key: Span{from, from + key}}
	value := column + key + 1
	value += len(line[value:]) - len(strings.TrimLeft(line[value:], " \t"))
	switch {
	case value == len(line) || line[value] == '#':
		s.add(field)
	case line[value] == '|' || line[value] == '>':
		s.block(field, column)
	case line[value] == '{' || line[value] == '[':
		s.add(field)
		s.flow(start+value, path, column)
	default:
		field.Value = scalar(text, start+value, start+len(line))
		s.add(field)
	}
}

// dashes reads the marks of elements at the begin of a line. It returns the column behind them.
func (s *scanner) dashes(line string, column int) (behind int, found bool) {
	for column < len(line) && line[column] == '-' && (column+1 == len(line) || line[column+1] == ' ') {
		index := 0
		for len(s.stack) > 0 && (s.top().indent > column || s.top().indent == column && s.top().element) {
			if s.top().indent == column {
				index = s.top().index + 1
			}
			s.stack = s.stack[:len(s.stack)-1]
		}
		s.push(frame{indent: column, path: fieldpath.Indexed(s.top().path, index, ""), element: true, index: index})
		found = true
		column++
		column += len(line[column:]) - len(strings.TrimLeft(line[column:], " "))
	}
	return column, found
}

// block reads the lines of a block scalar, which are indented more than its key.
func (s *scanner) block(field Field, column int) {
	text := s.outline.text
	field.Block, field.Value = true, Span{s.at, s.at}
	for s.at < len(text) {
		end := lineEnd(text, s.at)
		line := strings.TrimRight(text[s.at:end], " \r")
		if line != "" && len(line)-len(strings.TrimLeft(line, " ")) <= column {
			s.add(field)
			return
		}
		s.at = min(end+1, len(text))
		field.Value.To = s.at
	}
	s.add(field)
	s.inBlock = &field
}

// level is an open bracket.
type level struct {
	path  string
	list  bool
	index int
}

// flow reads a flow collection.
type flow struct {
	*scanner

	levels []level
	// value is the path of the next value, and named reports whether it has one.
	value string
	named bool
	token Span
}

// flow reads a flow collection. A line that is not indented more than the field ends it also without its bracket.
func (s *scanner) flow(at int, path string, indent int) {
	text := s.outline.text
	f := &flow{scanner: s, value: path, named: true}
	for at < len(text) {
		c := text[at]
		f.token = Span{at + 1, at + 1}
		switch c {
		case '{', '[':
			if len(f.levels) >= maxDepth {
				s.at = len(text)
				return
			}
			f.open(c == '[')
			at++
		case '}', ']':
			f.levels, f.named = f.levels[:len(f.levels)-1], false
			if len(f.levels) == 0 {
				s.at = min(lineEnd(text, at)+1, len(text))
				return
			}
			at++
		case ',':
			f.next()
			at++
		case '\n':
			at++
			if ends(text, at, indent) {
				s.at = at
				return
			}
		case ' ', '\t', '\r', ':':
			at++
		case '#':
			at = lineEnd(text, at)
		default:
			at = f.scalar(at)
		}
	}
	s.at = len(text)
	if n := len(f.levels); n > 0 {
		s.inFlow = &Cursor{Path: f.value, Value: f.named, From: f.token.From}
		if !f.named {
			s.inFlow.Path = f.levels[n-1].path
		}
	}
}

// open begins a list or a mapping.
func (f *flow) open(list bool) {
	f.levels, f.named = append(f.levels, level{path: f.value, list: list}), list
	if list {
		f.value = fieldpath.Indexed(f.value, 0, "")
	}
}

// next begins the next element of a list, or the next field of a mapping.
func (f *flow) next() {
	last := &f.levels[len(f.levels)-1]
	if f.named = last.list; f.named {
		last.index++
		f.value = fieldpath.Indexed(last.path, last.index, "")
	}
}

// scalar reads a key with its colon, or a value. It returns the offset behind it.
func (f *flow) scalar(at int) int {
	text, around := f.outline.text, f.levels[len(f.levels)-1]
	f.token = Span{at, flowToken(text, at)}
	at = f.token.To
	behind := at + len(text[at:]) - len(strings.TrimLeft(text[at:], " "))
	switch {
	case !around.list && behind < len(text) && text[behind] == ':':
		f.value, f.named = joined(around.path, unquoted(text[f.token.From:f.token.To])), true
		f.add(Field{Path: f.value, Key: f.token})
		at = behind + 1
		f.token = Span{at, at}
	case f.named:
		if n := len(f.outline.Fields); n > 0 && f.outline.Fields[n-1].Path == f.value {
			f.outline.Fields[n-1].Value = f.token
		} else {
			f.add(Field{Path: f.value, Value: f.token})
		}
	}
	return at
}

// ends reports whether a line is of the block around a flow collection.
func ends(text string, at, indent int) bool {
	line := text[at:lineEnd(text, at)]
	column := len(line) - len(strings.TrimLeft(line, " "))
	return column < len(line) && column <= indent && (keyLength(line[column:]) > 0 || line[column] == '-')
}

// flowToken returns the end of a scalar in a flow collection.
func flowToken(text string, at int) int {
	if c := text[at]; c == '"' || c == '\'' {
		line := text[at+1 : lineEnd(text, at)]
		if i := strings.IndexByte(line, c); i >= 0 {
			return at + i + 2
		}
		return at + 1 + len(line)
	}
	end := at + 1
	for end < len(text) && !strings.ContainsRune(",{}[]\r\n", rune(text[end])) {
		if text[end] == ':' && (end+1 == len(text) || strings.ContainsRune(" ,{}[]\r\n", rune(text[end+1]))) {
			break
		}
		end++
	}
	return at + len(strings.TrimRight(text[at:end], " \t"))
}

// keyLength returns the length of the key at the begin of a line, or 0.
func keyLength(line string) int {
	if c := line[0]; c == '"' || c == '\'' {
		if i := strings.IndexByte(line[1:], c); i >= 0 && strings.HasPrefix(line[i+2:], ":") {
			return i + 2
		}
		return 0
	}
	for i := range len(line) {
		switch {
		case line[i] == ':' && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t'):
			return i
		case line[i] == '#' && i > 0 && line[i-1] == ' ':
			return 0
		}
	}
	return 0
}

// scalar returns the span of a scalar of one line, without the comment behind it.
func scalar(text string, from, to int) Span {
	value := text[from:to]
	if c := value[0]; c == '"' || c == '\'' {
		if i := strings.IndexByte(value[1:], c); i >= 0 {
			return Span{from, from + i + 2}
		}
	}
	if i := strings.Index(value, " #"); i >= 0 {
		value = value[:i]
	}
	return Span{from, from + len(strings.TrimRight(value, " \t"))}
}

// joined returns the path of a field, whose name can have any characters.
func joined(path, name string) string {
	if len(name) > maxKey {
		name = name[:maxKey]
	}
	if len(path) > maxPath {
		return path
	}
	if path != "" && strings.ContainsAny(name, ".[]") {
		return fieldpath.Keyed(path, name)
	}
	return fieldpath.Joined(path, name)
}

// lineEnd returns the offset of the end of the line at an offset.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}
