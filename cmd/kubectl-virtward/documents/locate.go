package documents

import (
	"bufio"
	"bytes"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	yamlnodes "go.yaml.in/yaml/v3"
	yamldocuments "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/virtward/virtward/provenance"
)

// Position is a place in a text: a line and a column, in characters, both counted from 1.
type Position struct{ Line, Column int }

// Find is where a field stands in the file: spec.template.spec.domain.devices.disks[0].disk.bus. Of one that is
// not there, it is the nearest field around it; of an object of the cluster, nothing.
func (d Document) Find(path string) (Position, bool) {
	if d.text == nil {
		return Position{}, false
	}
	return d.text.find(append(slices.Clip(d.base), provenance.Steps(path)...)), true
}

// chunks splits a file at lines of ---, and knows on which line each part begins.
type chunks struct {
	data   []byte
	source *bytes.Reader
	buffer *bufio.Reader
	reader *yamldocuments.YAMLReader
	start  cursor
}

func newChunks(data []byte) *chunks {
	c := &chunks{data: data, source: bytes.NewReader(data)}
	c.buffer = bufio.NewReader(c.source)
	c.reader = yamldocuments.NewYAMLReader(c.buffer)
	c.start = cursor{text: newText(data, 1, 1), line: 1, column: 1}
	return c
}

// next reads on from where it stopped, which is behind a separator.
func (c *chunks) next() (*text, error) {
	c.start.advance(len(c.data) - c.source.Len() - c.buffer.Buffered())
	content, err := c.reader.Read()
	if err != nil {
		return nil, err
	}
	return newText(content, c.start.line, c.start.column), nil
}

// cursor counts lines and columns on its way through a text.
type cursor struct {
	text         *text
	offset       int
	line, column int
}

// advance moves to an offset that is not before the present one.
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
	// root is parsed when somebody asks where something is.
	root func() *yamlnodes.Node
}

func newText(content []byte, line, column int) *text {
	return &text{content: content, line: line, column: column, root: sync.OnceValue(func() *yamlnodes.Node { return nodes(content) })}
}

// nodes parses the text once more, as a tree that knows where things stand; nil if that cannot be done, as of
// some JSON that is no YAML.
func nodes(content []byte) *yamlnodes.Node {
	var document yamlnodes.Node
	if err := yamlnodes.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// find goes as far as there is a way.
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

// position is that of a node in the file.
func (t *text) position(n *yamlnodes.Node) Position {
	p := Position{Line: t.line + n.Line - 1, Column: n.Column}
	if n.Line == 1 {
		p.Column += t.column - 1
	}
	return p
}

// child is the node that shows where a field or an element is, and the node of its value; nil if it is not
// there. Mappings that were searched are not searched again, however often they are merged.
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

// merged looks for a field in what is merged into a mapping with <<.
func merged(parent *yamlnodes.Node, step string, searched map[*yamlnodes.Node]bool) (marker, value *yamlnodes.Node) {
	for i := 0; i+1 < len(parent.Content); i += 2 {
		if parent.Content[i].Tag != "!!merge" {
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
