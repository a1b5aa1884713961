package explanation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/virtward/virtward/fieldpath"
)

// Line is a line of the effective object as YAML.
type Line struct {
	Text string `json:"text"`
	// Layer is the source of the value of the line; empty if its author wrote it, or if the line has no value.
	Layer string `json:"layer,omitempty"`
	// Findings are the indices of the findings about the field of the line, or about a missing field below it.
	Findings []int `json:"findings,omitempty"`
}

// Listing returns the lines of the effective object as YAML, in the order of fields that the output yaml has. Here, layers and
// findings are beside the text.
func (e *Explanation) Listing() ([]Line, error) {
	a := e.annotator()
	a.comments = nil
	root, err := a.node(e.Effective, e.written.Object.Object, nil)
	if err != nil {
		return nil, err
	}
	layers := map[*yaml.Node]string{}
	moveComments(root, layers)
	var out bytes.Buffer
	if err := encode(&out, root); err != nil {
		return nil, fmt.Errorf("writing %s as YAML: %w", e.Object, err)
	}
	var parsed yaml.Node
	if err := yaml.Unmarshal(out.Bytes(), &parsed); err != nil || len(parsed.Content) == 0 {
		return nil, fmt.Errorf("reading the lines of %s: %w", e.Object, err)
	}
	texts := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	l := &listing{lines: make([]Line, len(texts)), layers: layers, findings: e.findingsByField()}
	for i := range texts {
		l.lines[i].Text = texts[i]
	}
	l.add(root, parsed.Content[0], parsed.Content[0].Line, nil)
	return l.lines, nil
}

// moveComments removes the comments of values, and keeps them as layers.
func moveComments(n *yaml.Node, layers map[*yaml.Node]string) {
	if n.LineComment != "" {
		layers[n], n.LineComment = strings.TrimPrefix(n.LineComment, "# "), ""
	}
	for _, below := range n.Content {
		moveComments(below, layers)
	}
}

// findingsByField returns the indices of the findings, by the key of their field, or of the nearest field around it that the
// effective object has.
func (e *Explanation) findingsByField() map[string][]int {
	all := map[string][]int{}
	for i, f := range e.Findings {
		fields := []string{f.Error.Field}
		if f.Effective != "" {
			fields = append(fields, f.Effective)
		}
		for _, field := range fields {
			steps := path(fieldpath.Split(field))
			key := steps[:steps.presentIn(e.Effective)].key()
			all[key] = append(all[key], i)
		}
	}
	return all
}

// listing has the lines of a text while it visits the nodes that were written, and the nodes that were read of the text.
type listing struct {
	lines    []Line
	layers   map[*yaml.Node]string
	findings map[string][]int
}

// add adds what is known of a node at a line.
func (l *listing) add(written, read *yaml.Node, line int, at path) {
	if line < 1 || line > len(l.lines) {
		return
	}
	here := &l.lines[line-1]
	if layer := l.layers[written]; layer != "" {
		here.Layer = layer
	}
	here.Findings = append(here.Findings, l.findings[at.key()]...)
	if len(written.Content) != len(read.Content) {
		return
	}
	for i := 0; i < len(written.Content); i++ {
		if written.Kind == yaml.SequenceNode {
			l.add(written.Content[i], read.Content[i], read.Content[i].Line, append(slices.Clip(at), index(i)))
			continue
		}
		key := read.Content[i]
		i++
		l.add(written.Content[i], read.Content[i], key.Line, append(slices.Clip(at), key.Value))
	}
}
