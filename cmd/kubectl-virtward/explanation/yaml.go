package explanation

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes the effective objects as YAML, in the order of fields that kubectl uses. Behind each
// value that a layer filled stands the layer; what stands alone was in the object before. Above each field
// that a finding is about stands what it says.
func WriteYAML(w io.Writer, explanations []*Explanation) error {
	for i, e := range explanations {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		text, err := e.yaml(headlines(explanations, i))
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

func (e *Explanation) yaml(head []string) ([]byte, error) {
	var out bytes.Buffer
	for _, line := range slices.Concat(head, e.findingLines()) {
		out.WriteString("# " + line + "\n")
	}
	written := e.written.Object.Object
	a := &annotator{changed: pathsOf(e.Changes), comments: e.comments()}
	for i := range e.Changes {
		a.layers = append(a.layers, e.Changes[i].Layer)
	}
	root, err := a.node(e.Effective, written, nil)
	if err != nil {
		return nil, err
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("writing %s as YAML: %w", e.Object, err)
	}
	return out.Bytes(), encoder.Close()
}

// annotator makes YAML nodes that carry the layer of each value as a comment, and above them what findings say.
type annotator struct {
	changed  []path
	layers   []string
	comments comments
}

func (a *annotator) node(value, written any, at path) (*yaml.Node, error) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) > 0 {
			return a.mapping(v, written, at)
		}
	case []any:
		if len(v) > 0 {
			return a.sequence(v, written, at)
		}
	}
	n := &yaml.Node{}
	if err := n.Encode(value); err != nil {
		return nil, fmt.Errorf("%s cannot be written as YAML: %w", strings.Join(at, "."), err)
	}
	if layer := a.layerOf(value, written, at); layer != "" {
		n.LineComment = "# " + Printable(layer)
	}
	return n, nil
}

func (a *annotator) mapping(fields map[string]any, written any, at path) (*yaml.Node, error) {
	before, _ := written.(map[string]any)
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		key := &yaml.Node{}
		if err := key.Encode(name); err != nil {
			return nil, fmt.Errorf("%s cannot be written as YAML: %w", strings.Join(at, "."), err)
		}
		here := append(slices.Clip(at), name)
		value, err := a.node(fields[name], before[name], here)
		if err != nil {
			return nil, err
		}
		key.HeadComment = a.comments.at(here)
		n.Content = append(n.Content, key, value)
	}
	return n, nil
}

func (a *annotator) sequence(items []any, written any, at path) (*yaml.Node, error) {
	before, _ := written.([]any)
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i, item := range items {
		var was any
		if i < len(before) {
			was = before[i]
		}
		here := append(slices.Clip(at), index(i))
		value, err := a.node(item, was, here)
		if err != nil {
			return nil, err
		}
		value.HeadComment = a.comments.at(here)
		n.Content = append(n.Content, value)
	}
	return n, nil
}

// layerOf is the layer that wrote a value last; none for what the author wrote and nobody replaced.
func (a *annotator) layerOf(value, written any, at path) string {
	if written != nil && reflect.DeepEqual(value, written) {
		return ""
	}
	for i := len(a.changed) - 1; i >= 0; i-- {
		if at.below(a.changed[i]) {
			return a.layers[i]
		}
	}
	return ""
}
