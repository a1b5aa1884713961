package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/virtward/virtward/tools/release/files"
)

// Chart is a chart to package.
type Chart struct {
	// Folder has Chart.yaml. Its last element is the name of the chart.
	Folder string
	// Version is that of the chart and of the application, without a leading v.
	Version string
	// Values are set in values.yaml, by their paths, such as templates.server.image.digest.
	Values map[string]string
	// Annotations are added to those of Chart.yaml.
	Annotations map[string]string
}

// Write writes the archive, and returns the metadata of the chart.
func (c Chart) Write(path string, at time.Time) (map[string]any, error) {
	name := filepath.Base(c.Folder)
	entries, err := files.Folder(c.Folder, name+"/")
	if err != nil {
		return nil, fmt.Errorf("reading the chart %s: %w", name, err)
	}
	var described map[string]any
	for i, entry := range entries {
		switch strings.TrimPrefix(entry.Name, name+"/") {
		case "Chart.yaml":
			entries[i].Content, err = c.metadata(entry.Path)
			if err == nil {
				err = yaml.Unmarshal(entries[i].Content, &described)
			}
			entries[i].Path = ""
		case "values.yaml":
			entries[i].Content, err = c.values(entry.Path)
			entries[i].Path = ""
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
	if described == nil {
		return nil, fmt.Errorf("the chart %s has no Chart.yaml", name)
	}
	return described, files.WriteTarGz(path, entries, at)
}

// metadata returns Chart.yaml with the version and the annotations.
func (c Chart) metadata(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	content, err = Set(content, map[string]string{"version": c.Version, "appVersion": c.Version})
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	root := document.Content[0]
	annotations := lookup(root, "annotations")
	if annotations == nil {
		annotations = &yaml.Node{Kind: yaml.MappingNode}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "annotations"}, annotations)
	}
	for _, key := range sorted(c.Annotations) {
		value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: c.Annotations[key]}
		if strings.Contains(value.Value, "\n") {
			value.Style = yaml.LiteralStyle
		}
		annotations.Content = append(annotations.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (c Chart) values(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Set(content, c.Values)
}

// Set replaces scalars of a YAML document, by their paths, where they are. All else of the text does not change.
func Set(content []byte, values map[string]string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	lines := strings.Split(string(content), "\n")
	for _, path := range sorted(values) {
		node := document.Content[0]
		for key := range strings.SplitSeq(path, ".") {
			if node = lookup(node, key); node == nil {
				return nil, fmt.Errorf("there is no %s", path)
			}
		}
		if node.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s is not a scalar", path)
		}
		line := lines[node.Line-1]
		old := line[node.Column-1:]
		switch node.Style {
		case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
			old = old[:len(node.Value)+len(`""`)]
		default:
			old = old[:len(node.Value)]
		}
		lines[node.Line-1] = line[:node.Column-1] + fmt.Sprintf("%q", values[path]) + line[node.Column-1+len(old):]
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// lookup returns the value of a key of a mapping; nil if it has none.
func lookup(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func sorted(values map[string]string) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
