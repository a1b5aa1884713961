package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// maxDepth bounds how deep an object is nested. Those of the API have a depth of about twenty.
const maxDepth = 200

// node is a JSON value that keeps the order of members.
type node struct {
	// scalar is a string, a number, a boolean or nil. The others are nil then.
	scalar any
	object *[]member
	list   *[]*node
}

// member is a field of an object.
type member struct {
	name  string
	value *node
}

// parseTree reads one JSON value.
func parseTree(data []byte) (*node, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	tree, err := readNode(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return tree, nil
}

func readNode(decoder *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deep")
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, err //nolint:wrapcheck // of the decoder
	}
	switch token {
	case json.Delim('{'):
		return readObject(decoder, depth)
	case json.Delim('['):
		n := &node{list: &[]*node{}}
		for decoder.More() {
			value, err := readNode(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			*n.list = append(*n.list, value)
		}
		_, err = decoder.Token()
		return n, err //nolint:wrapcheck // of the decoder
	}
	return &node{scalar: token}, nil
}

func readObject(decoder *json.Decoder, depth int) (*node, error) {
	n := &node{object: &[]member{}}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err //nolint:wrapcheck // of the decoder
		}
		name, _ := token.(string)
		if seen[name] {
			return nil, errors.New("a field is set twice: " + name)
		}
		seen[name] = true
		value, err := readNode(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		*n.object = append(*n.object, member{name, value})
	}
	_, err := decoder.Token()
	return n, err //nolint:wrapcheck // of the decoder
}

// append writes the value without spaces, and escapes as encoding/json does.
func (n *node) append(to []byte) []byte {
	switch {
	case n.object != nil:
		to = append(to, '{')
		for i, m := range *n.object {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendScalar(to, m.name), ':')
			to = m.value.append(to)
		}
		return append(to, '}')
	case n.list != nil:
		to = append(to, '[')
		for i, value := range *n.list {
			if i > 0 {
				to = append(to, ',')
			}
			to = value.append(to)
		}
		return append(to, ']')
	}
	return appendScalar(to, n.scalar)
}

// appendScalar writes a value that was read from JSON, which has no error.
func appendScalar(to []byte, value any) []byte {
	text, _ := json.Marshal(value) //nolint:errchkjson // see above
	return append(to, text...)
}

// at is the value below fields; nil if there is none.
func (n *node) at(fields ...string) *node {
	for _, name := range fields {
		if n == nil || n.object == nil {
			return nil
		}
		i := slices.IndexFunc(*n.object, func(m member) bool { return m.name == name })
		if i < 0 {
			return nil
		}
		n = (*n.object)[i].value
	}
	return n
}

// remove removes fields of an object.
func (n *node) remove(names ...string) {
	if n != nil && n.object != nil {
		*n.object = slices.DeleteFunc(*n.object, func(m member) bool { return slices.Contains(names, m.name) })
	}
}

// elements are those of a list; none of another value.
func (n *node) elements() []*node {
	if n == nil || n.list == nil {
		return nil
	}
	return *n.list
}

// text is a string; empty for another value.
func (n *node) text() string {
	if n == nil {
		return ""
	}
	text, _ := n.scalar.(string)
	return text
}
