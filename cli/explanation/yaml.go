package explanation

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml is the effective object as YAML, in the order of fields that kubectl uses. Behind each value that a layer filled
// stands the layer; what stands alone was in the object before. Above each field that a finding is about stands what it
// says. What holds for the whole cluster stands above the first object only.
func (e *Explanation) yaml(first bool) ([]byte, error) {
	var out bytes.Buffer
	for _, line := range slices.Concat(e.headlines(first), e.findingLines()) {
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
	n, err := scalar(value)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written as YAML: %w", strings.Join(at, "."), err)
	}
	if layer := a.layerOf(value, written, at); layer != "" {
		n.LineComment = "# " + Printable(layer)
	}
	return n, nil
}

// scalar is the node of a value. The library makes one by writing and reading YAML, which is what most of the time would
// go into: what has but one form is made here.
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

// isWord reports whether a text is nothing but letters, and no YAML of any version takes it for something else: y, yes, no,
// on and off once were truth values.
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
