package manifests

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	yamlnodes "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/fieldpath"
)

// Position is a position in a text: a line, and a column in characters. Both count from 1.
type Position struct{ Line, Column int }

// Find returns the position of a field in the file, such as spec.template.spec.domain.devices.disks[0].disk.bus. For a
// missing field, it returns the nearest field around it. For an object of the cluster, it returns false.
func (d Document) Find(path string) (Position, bool) {
	if d.text == nil {
		return Position{}, false
	}
	return d.text.find(append(slices.Clip(d.base), fieldpath.Split(path)...)), true
}

// InText returns the position in the file of a line and a column in the text of a field, such as an expression. It
// returns false if that is not known: use the position of the field then.
func (d Document) InText(path string, line, column int) (Position, bool) {
	if d.text == nil || line < 1 || column < 1 {
		return Position{}, false
	}
	value := d.text.value(append(slices.Clip(d.base), fieldpath.Split(path)...))
	if value == nil || value.Kind != yamlnodes.ScalarNode {
		return Position{}, false
	}
	before, ok := printed(value.Value, line, column)
	all := visible(value.Value)
	if !ok || all == 0 {
		return Position{}, false
	}
	position, ok := d.text.skip(value, min(before, all-1))
	if before >= all { // the end
		position.Column++
	}
	return position, ok
}

// printed counts the characters before a position in a text, without blanks. YAML folds and indents only blanks, so the
// file has the same characters.
func printed(text string, line, column int) (n int, ok bool) {
	lines := strings.Split(text, "\n")
	if line > len(lines) {
		return 0, false
	}
	for _, before := range lines[:line-1] {
		n += visible(before)
	}
	last := []rune(lines[line-1])
	return n + visible(string(last[:min(column-1, len(last))])), true
}

func visible(text string) (n int) {
	for _, r := range text {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// Inside returns a document for an object that is the value of a field of this one.
func (d Document) Inside(path string, object *unstructured.Unstructured) Document {
	d.base = append(slices.Clip(d.base), fieldpath.Split(path)...)
	d.Object = object
	return d
}

// cursor counts lines and columns while it advances in a text.
type cursor struct {
	text         *text
	offset       int
	line, column int
}

// advance moves to an offset, which must not be before the current one.
func (c *cursor) advance(to int) {
	passed := c.text.content[c.offset:to]
	if n := bytes.Count(passed, []byte("\n")); n > 0 {
		c.line, c.column = c.line+n, 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	c.column += utf8.RuneCount(passed)
	c.offset = to
}

// text is a part of a file in YAML or JSON, beginning at a line and a column.
type text struct {
	content      []byte
	line, column int
	// root is parsed when the first position is requested.
	root func() *yamlnodes.Node
}

func newText(content []byte, line, column int) *text {
	return &text{content: content, line: line, column: column, root: sync.OnceValue(func() *yamlnodes.Node { return nodes(content) })}
}

// nodes parses the text again, as a tree with positions. It returns nil if that fails, as for some JSON that is not
// valid YAML.
func nodes(content []byte) *yamlnodes.Node {
	var document yamlnodes.Node
	if err := yamlnodes.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// find follows a path as far as it exists.
func (t *text) find(steps []string) Position {
	at := t.root()
	if at == nil {
		return Position{t.line, t.column}
	}
	marker := at
	for _, step := range steps {
		found, value := child(at, step, map[*yamlnodes.Node]bool{})
		if found == nil {
			break
		}
		marker, at = found, value
	}
	return t.position(marker)
}

// value returns the node of the value of a field, or nil.
func (t *text) value(steps []string) *yamlnodes.Node {
	at := t.root()
	for _, step := range steps {
		if at == nil {
			return nil
		}
		_, at = child(at, step, map[*yamlnodes.Node]bool{})
	}
	for at != nil && at.Kind == yamlnodes.AliasNode {
		at = at.Alias
	}
	return at
}

// skip advances a number of characters in a value, without counting blanks.
func (t *text) skip(value *yamlnodes.Node, n int) (Position, bool) {
	lines := strings.Split(string(t.content), "\n")
	line, column := value.Line, value.Column
	escaped, quoted := value.Style&yamlnodes.DoubleQuotedStyle != 0, value.Style&yamlnodes.SingleQuotedStyle != 0
	if value.Style&(yamlnodes.LiteralStyle|yamlnodes.FoldedStyle) != 0 {
		line, column = line+1, 1 // behind the indicator
	} else if line <= len(lines) {
		column = behindProperties([]rune(lines[line-1]), column)
	}
	if escaped || quoted {
		column++
	}
	for ; line <= len(lines); line, column = line+1, 1 {
		runes := []rune(lines[line-1])
		for i := column - 1; i < len(runes); i++ {
			width, blank := written(runes[i:], escaped, quoted)
			switch {
			case blank:
			case n == 0:
				return t.position(&yamlnodes.Node{Line: line, Column: i + 1}), true
			default:
				n--
			}
			i += width - 1
		}
	}
	return Position{}, false
}

// behindProperties skips an anchor and a tag, which precede a value.
func behindProperties(line []rune, column int) int {
	i := column - 1
	for i < len(line) && (line[i] == '&' || line[i] == '!') {
		for i < len(line) && !unicode.IsSpace(line[i]) {
			i++
		}
		for i < len(line) && unicode.IsSpace(line[i]) {
			i++
		}
	}
	return i + 1
}

// codes are the lengths of escape sequences with a number, such as \x41.
var codes = map[rune]int{'x': 4, 'u': 6, 'U': 10}

// written returns how many characters encode the next character of a text, and whether that is a blank.
func written(next []rune, escaped, quoted bool) (width int, blank bool) {
	if len(next) > 1 && (escaped && next[0] == '\\' || quoted && next[0] == '\'' && next[1] == '\'') {
		return min(max(2, codes[next[1]]), len(next)), escaped && strings.ContainsRune("nt r", next[1])
	}
	return 1, unicode.IsSpace(next[0])
}

// position returns the position of a node in the file.
func (t *text) position(n *yamlnodes.Node) Position {
	p := Position{Line: t.line + n.Line - 1, Column: n.Column}
	if n.Line == 1 {
		p.Column += t.column - 1
	}
	return p
}

// child returns the node with the position of a field or an element, and the node of its value; nil if it is missing.
// It searches each mapping once, also if it is merged several times.
func child(parent *yamlnodes.Node, step string, searched map[*yamlnodes.Node]bool) (marker, value *yamlnodes.Node) {
	switch parent.Kind {
	case yamlnodes.AliasNode:
		return child(parent.Alias, step, searched)
	case yamlnodes.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(parent.Content) {
			return parent.Content[i], parent.Content[i]
		}
	case yamlnodes.MappingNode:
		if searched[parent] {
			return nil, nil
		}
		searched[parent] = true
		for i := 0; i+1 < len(parent.Content); i += 2 {
			if parent.Content[i].Value == step {
				return parent.Content[i], parent.Content[i+1]
			}
		}
		return merged(parent, step, searched)
	}
	return nil, nil
}

// mergeTag is the tag of the key <<.
const mergeTag = "!!merge"

// merged looks for a field in what is merged into a mapping with <<.
func merged(parent *yamlnodes.Node, step string, searched map[*yamlnodes.Node]bool) (marker, value *yamlnodes.Node) {
	for i := 0; i+1 < len(parent.Content); i += 2 {
		if parent.Content[i].Tag != mergeTag {
			continue
		}
		sources := []*yamlnodes.Node{parent.Content[i+1]}
		if sources[0].Kind == yamlnodes.SequenceNode {
			sources = sources[0].Content
		}
		for _, source := range sources {
			if marker, value = child(source, step, searched); marker != nil {
				return marker, value
			}
		}
	}
	return nil, nil
}
