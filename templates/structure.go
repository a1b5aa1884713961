package templates

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of texts whose structure is compared. KubeVirt takes 2 KiB of user data in a VirtualMachine, and Kubernetes 256
// KiB of annotations.
const (
	maxYAML = 16 << 10
	maxJSON = 256 << 10
	// maxCompared bounds the bytes of all texts of a render that are parsed.
	maxCompared = 512 << 10
	// maxNesting bounds how deep lists and objects are nested in a text.
	maxNesting = 100
)

var (
	errNesting = errors.New("it is nested too deeply")
	errSyntax  = errors.New("it has a syntax error")
)

// element is a part of a parsed text.
type element struct {
	kind elementKind
	// text is the decoded text of a scalar, or the name of an alias.
	text string
	// mark has the explicit type and the anchor.
	mark string
	// quoted: the scalar has quotes, or is a block.
	quoted bool
	// inFlow: the scalar is within brackets or braces.
	inFlow bool
	// typed: the scalar is a number, true, false, null, or of another type that is no text.
	typed bool
	// members are those of a list; of an object, keys and values alternately.
	members []*element
}

type elementKind int

const (
	scalarElement elementKind = iota
	listElement
	objectElement
	aliasElement
)

// parseText parses a text. Aliases are not resolved, so the result is as large as the text.
func (s textSyntax) parseText(text string) ([]*element, error) {
	if s == jsonSyntax {
		return parseJSONText(text)
	}
	return parseYAMLText(text)
}

// tooLong reports whether a text is too long to be compared.
func (s textSyntax) tooLong(text string) bool {
	return len(text) > maxYAML && (s == yamlSyntax || len(text) > maxJSON)
}

// parseYAMLText parses all documents of a text.
func parseYAMLText(text string) ([]*element, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var documents []*element
	for {
		var node yaml.Node
		switch err := decoder.Decode(&node); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, errSyntax
		}
		if len(node.Content) != 1 {
			return nil, errSyntax
		}
		document, err := fromYAML(node.Content[0], false, 0)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

func fromYAML(node *yaml.Node, inFlow bool, depth int) (*element, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	e := &element{mark: "&" + node.Anchor, inFlow: inFlow}
	if node.Style&yaml.TaggedStyle != 0 {
		e.mark += " " + node.Tag
	}
	switch node.Kind {
	case yaml.ScalarNode:
		e.text = node.Value
		e.quoted = node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
		e.typed = node.ShortTag() != "!!str"
		return e, nil
	case yaml.AliasNode:
		e.kind, e.text = aliasElement, node.Value
		return e, nil
	case yaml.MappingNode:
		e.kind = objectElement
	default:
		e.kind = listElement
	}
	for _, child := range node.Content {
		member, err := fromYAML(child, inFlow || node.Style&yaml.FlowStyle != 0, depth+1)
		if err != nil {
			return nil, err
		}
		e.members = append(e.members, member)
	}
	return e, nil
}

// parseJSONText parses one value in JSON, with repeated keys.
func parseJSONText(text string) ([]*element, error) {
	if !json.Valid([]byte(text)) {
		return nil, errSyntax
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	value, err := fromJSON(decoder, 0)
	if err != nil {
		return nil, err
	}
	return []*element{value}, nil
}

func fromJSON(decoder *json.Decoder, depth int) (*element, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, errSyntax
	}
	switch t := token.(type) {
	case string:
		return &element{text: t, quoted: true}, nil
	case json.Number:
		return &element{text: t.String(), typed: true}, nil
	case bool:
		if t {
			return &element{text: "true", typed: true}, nil
		}
		return &element{text: "false", typed: true}, nil
	case json.Delim:
		e := &element{kind: listElement}
		if t == '{' {
			e.kind = objectElement
		}
		for decoder.More() {
			member, err := fromJSON(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			e.members = append(e.members, member)
		}
		_, err := decoder.Token()
		return e, err
	}
	return &element{text: "null", typed: true}, nil
}
