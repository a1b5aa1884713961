package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/virtward/virtward/texts/blocks"
)

// value is a value of the chart, or a section of values, with the comment that describes it.
type value struct {
	// Path has the names of the sections and of the value.
	Path []string
	// Description is the comment above it, up to an empty line; empty without a comment.
	Description string
	// Default is empty for a section.
	Default string
}

// readValues returns the values and the sections of values.yaml, in the order of the file.
func readValues(content []byte) ([]value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the values are no map")
	}
	return collect(nil, nil, document.Content[0])
}

// collect appends what is below a section.
func collect(all []value, path []string, section *yaml.Node) ([]value, error) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, node := section.Content[i], section.Content[i+1]
		at := value{Path: append(slices.Clone(path), key.Value), Description: description(key.HeadComment)}
		if key.LineComment != "" || node.LineComment != "" {
			return nil, fmt.Errorf("%s: the comment is behind the value, and belongs above it", strings.Join(at.Path, "."))
		}
		if node.Kind == yaml.MappingNode && len(node.Content) > 0 {
			var err error
			if all, err = collect(append(all, at), at.Path, node); err != nil {
				return nil, err
			}
			continue
		}
		var decoded any
		if err := node.Decode(&decoded); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(at.Path, "."), err)
		}
		if at.Default = fmt.Sprint(decoded); decoded == "" {
			at.Default = `""`
		}
		if node.Kind == yaml.MappingNode {
			at.Default = "{}"
		}
		all = append(all, at)
	}
	return all, nil
}

// description returns the first paragraph of a comment in one line. A paragraph above an empty line of the file is no part of it.
func description(comment string) string {
	if at := strings.LastIndex(comment, "\n\n"); at >= 0 {
		comment = comment[at+2:]
	}
	var lines []string
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if line == "" {
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " ")
}

// page matches the path of a page, which is a link in the README of the chart.
var page = regexp.MustCompile(`\bdocs/[a-z0-9-]+\.md(#[a-z0-9-]+)?`)

// withTable returns the README with the table of all values.
func withTable(readme string, values []value) (string, error) {
	var table strings.Builder
	table.WriteString("| Value | Default | Meaning |\n|---|---|---|\n")
	for i := range values {
		if values[i].Default == "" {
			continue
		}
		meaning := page.ReplaceAllString(strings.ReplaceAll(values[i].Description, "|", `\|`), "[$0](../../$0)")
		fmt.Fprintf(&table, "| `%s` | `%s` | %s\n", strings.Join(values[i].Path, "."), values[i].Default, strings.TrimSpace(meaning+" |"))
	}
	return blocks.Markdown(readme, "values", table.String())
}

// withDescriptions returns the schema with the descriptions of all values that have one. Every value must have a schema.
func withDescriptions(schema []byte, values []value) ([]byte, error) {
	for i := range values {
		at, err := propertyOf(schema, values[i].Path)
		if err != nil {
			return nil, err
		}
		if at < 0 || values[i].Description == "" {
			continue
		}
		text, err := plain(values[i].Description)
		if err != nil {
			return nil, err
		}
		schema = describe(schema, at, text)
	}
	return schema, nil
}

// plain returns a description as JSON.
func plain(description string) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(description)
	return strings.TrimSpace(text.String()), err
}

// propertyOf returns the offset behind the brace that opens the schema of a value, or -1 if a section of it has names that users
// choose, and so no properties.
func propertyOf(schema []byte, path []string) (int, error) {
	decoder := json.NewDecoder(bytes.NewReader(schema))
	if _, err := decoder.Token(); err != nil {
		return 0, err
	}
	for _, name := range path {
		if found, err := enter(decoder, "properties"); err != nil || !found {
			return -1, err
		}
		found, err := enter(decoder, name)
		if err == nil && !found {
			err = errors.New("there is none")
		}
		if err != nil {
			return 0, fmt.Errorf("the schema of %s: %w", strings.Join(path, "."), err)
		}
	}
	return int(decoder.InputOffset()), nil
}

// enter moves a decoder from behind the brace of an object to behind that of one of its members, and reports whether it has this one.
func enter(decoder *json.Decoder, name string) (bool, error) {
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return false, err
		}
		if key != name {
			var other json.RawMessage
			if err := decoder.Decode(&other); err != nil {
				return false, err
			}
			continue
		}
		opened, err := decoder.Token()
		if err == nil && opened != json.Delim('{') {
			err = fmt.Errorf("%s is no object", name)
		}
		return err == nil, err
	}
	return false, nil
}

// described matches the description at the beginning of a schema.
var described = regexp.MustCompile(`^(\s*)"description": "(?:[^"\\]|\\.)*",?\s*`)

// describe puts a description at the beginning of a schema, whose brace opens before an offset, and removes the one that is there.
func describe(schema []byte, at int, text string) []byte {
	rest := schema[at:]
	indent := rest[:len(rest)-len(bytes.TrimLeft(rest, " \n"))]
	if old := described.Find(rest); old != nil {
		rest = slices.Concat(indent, rest[len(old):])
	}
	separator := ", "
	if len(indent) > 0 {
		separator = ","
	}
	if bytes.HasPrefix(rest, []byte("}")) {
		separator = ""
	}
	return slices.Concat(schema[:at], indent, []byte(`"description": `+text+separator), rest)
}
