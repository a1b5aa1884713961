package convert

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/texts"
)

// order is the order of fields that documentation uses. Other fields follow, in the order of their names.
var order = []string{
	"apiVersion", "kind", "metadata", "name", "title", "description", "category", "severity", "remedy", "enforcement", "failurePolicy", "match",
	"kinds", "operations", "namespaceSelector", "objectSelector", "matchConditions", "params", "variables", "validations",
	"expression", "message", "messageExpression", "fieldPath", "reason",
}

// width is the number of characters in a line of a comment.
const width = 100

// YAML returns the policy, with the notes as comments above their fields.
func (r *Result) YAML() ([]byte, error) {
	var out bytes.Buffer
	comment(&out, "Converted from "+r.Source+".")
	object, name := r.made()
	if object == nil {
		for _, n := range r.Notes {
			comment(&out, n.text())
		}
		return out.Bytes(), nil
	}
	content, err := sigsyaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	root := document.Content[0]
	prune(root)
	arrange(root, "")
	for _, n := range r.Notes {
		if !annotate(root, fieldpath.Split(n.Field), n.text()) {
			comment(&out, n.text())
		}
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return out.Bytes(), encoder.Close()
}

// text returns the note for a comment.
func (n Note) text() string {
	if strings.HasPrefix(n.Reason, checkPrefix) {
		return "CHECK: " + n.Message + " [" + n.Reason + "]"
	}
	if n.Lost {
		return "NOT CONVERTED: " + n.Message
	}
	return "Note: " + n.Message
}

// comment writes a text as comments of several lines.
func comment(out *bytes.Buffer, text string) {
	for _, line := range wrapped(text) {
		out.WriteString("# " + line + "\n")
	}
}

// wrapped splits a text at spaces into lines.
func wrapped(text string) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(texts.OneLine(text)) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// prune removes what the type writes and no author does: the status, and the time of creation.
func prune(root *yaml.Node) {
	for i := len(root.Content) - 2; i >= 0; i -= 2 {
		switch root.Content[i].Value {
		case "status":
			root.Content = slices.Delete(root.Content, i, i+2)
		case "metadata":
			metadata := root.Content[i+1]
			for k := len(metadata.Content) - 2; k >= 0; k -= 2 {
				if metadata.Content[k].Value == "creationTimestamp" {
					metadata.Content = slices.Delete(metadata.Content, k, k+2)
				}
			}
		}
	}
}

// arrange sorts the fields of the policy. Parameters and selectors keep the order of their names.
func arrange(node *yaml.Node, name string) {
	if name == "params" || strings.HasSuffix(name, "Selector") {
		return
	}
	if node.Kind == yaml.SequenceNode {
		for _, item := range node.Content {
			arrange(item, "")
		}
		return
	}
	if node.Kind != yaml.MappingNode {
		return
	}
	type field struct{ key, value *yaml.Node }
	var fields []field
	for i := 0; i < len(node.Content); i += 2 {
		arrange(node.Content[i+1], node.Content[i].Value)
		fields = append(fields, field{node.Content[i], node.Content[i+1]})
	}
	rank := func(f field) int {
		if i := slices.Index(order, f.key.Value); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(fields, func(a, b field) int { return rank(a) - rank(b) })
	node.Content = node.Content[:0]
	for _, f := range fields {
		node.Content = append(node.Content, f.key, f.value)
	}
}

// annotate adds a comment above a field, or above the nearest field around it that exists. It reports whether there is
// one.
func annotate(root *yaml.Node, steps []string, text string) bool {
	node, place := root, (*yaml.Node)(nil)
	for _, step := range steps {
		marker, value := child(node, step)
		if value == nil {
			break
		}
		node, place = value, marker
	}
	if place == nil {
		return false
	}
	lines := "# " + strings.Join(wrapped(text), "\n# ")
	if place.HeadComment != "" {
		lines = place.HeadComment + "\n" + lines
	}
	place.HeadComment = lines
	return true
}

// child returns the value at a step, and the node that a comment belongs to.
func child(node *yaml.Node, step string) (marker, value *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if n, err := strconv.Atoi(step); err == nil && n >= 0 && n < len(node.Content) {
			return node.Content[n], node.Content[n]
		}
	}
	return nil, nil
}
