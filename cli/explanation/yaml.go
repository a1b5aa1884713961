package explanation

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml returns the effective object as YAML, in the order of fields that kubectl uses. A comment after a value names
// the layer that filled it. A comment above a field is a finding about it. Only the first object has warnings and notes
// about the cluster.
func (e *Explanation) yaml(first bool) ([]byte, error) {
	var out bytes.Buffer
	for _, line := range slices.Concat(e.headlines(first), e.findingLines()) {
		out.WriteString("# " + line + "\n")
	}
	a := e.annotator()
	a.comments = e.comments()
	root, err := a.node(e.Effective, e.written.Object.Object, nil)
	if err != nil {
		return nil, err
	}
	if err := encode(&out, root); err != nil {
		return nil, fmt.Errorf("writing %s as YAML: %w", e.Object, err)
	}
	return out.Bytes(), nil
}

// encode writes a node as kubectl does.
func encode(w io.Writer, root *yaml.Node) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(root); err != nil {
		return err
	}
	return encoder.Close()
}

// annotator creates YAML nodes with comments: layers after values, and findings above fields.
type annotator struct {
	changed  []path
	layers   []string
	comments comments
}

// annotator returns an annotator with the layers, and without comments about findings.
func (e *Explanation) annotator() *annotator {
	a := &annotator{changed: pathsOf(e.Changes)}
	for i := range e.Changes {
		a.layers = append(a.layers, e.Changes[i].Layer)
	}
	return a
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
	n, err := scalar(value)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written as YAML: %w", strings.Join(at, "."), err)
	}
	if layer := a.layerOf(value, written, at); layer != "" {
		n.LineComment = "# " + Printable(layer)
	}
	return n, nil
}

// scalar returns the node of a value. The library writes and parses YAML for each node, which is slow, so values with
// only one form are created here.
func scalar(value any) (*yaml.Node, error) {
	switch v := value.(type) {
	case string:
		if isWord(v) {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}, nil
		}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}, nil
	case int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v, 10)}, nil
	}
	n := &yaml.Node{}
	err := n.Encode(value)
	return n, err
}

// isWord reports whether a text has only letters, and is a string in all versions of YAML: y, yes, no, on and off are
// boolean in some.
func isWord(text string) bool {
	if len(text) < 4 {
		return false
	}
	for i := range len(text) {
		if b := text[i] | 0x20; b < 'a' || b > 'z' {
			return false
		}
	}
	switch strings.ToLower(text) {
	case "true", "false", "null":
		return false
	}
	return true
}

func (a *annotator) mapping(fields map[string]any, written any, at path) (*yaml.Node, error) {
	before, _ := written.(map[string]any)
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		key, err := scalar(name)
		if err != nil {
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

// layerOf returns the layer that wrote a value last; empty if the author wrote it.
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
