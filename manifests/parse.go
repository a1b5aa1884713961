package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// value is a JSON value and the text that it was read from, or the error of a text that cannot be parsed.
type value struct {
	value any
	text  *text
	err   error
	// repeated are the fields that the text sets more than once.
	repeated []Repeated
}

// parse parses a chunk of text: one YAML document, or any number of JSON objects. If the chunk is neither, it parses the
// parts that look like JSON objects, so that one error leaves the others.
func parse(chunk *text) []value {
	if values, ok := parseJSON(chunk); ok {
		return values
	}
	v, err := parseYAML(chunk)
	switch {
	case err == nil && v == nil:
		return nil
	case err == nil:
		return []value{{value: v, text: chunk}}
	case !bytes.HasPrefix(bytes.TrimSpace(chunk.content), []byte("{{")):
		if parts := objects(chunk); len(parts) > 1 {
			var values []value
			for _, part := range parts {
				values = append(values, parse(part)...)
			}
			return values
		}
	}
	if last, repeated, merges := parseLast(chunk); len(repeated) > 0 || merges {
		return []value{{value: last, text: chunk, repeated: repeated}}
	}
	if bytes.Contains(chunk.content, []byte("{{")) {
		err = errTemplate
	}
	return []value{{text: chunk, err: err}}
}

// parseLast parses a YAML document in which a key is there twice: the last one counts, as in kubectl. merges reports whether a mapping has
// the merge key <<, whose fields others can replace.
func parseLast(chunk *text) (v any, repeated []Repeated, merges bool) {
	data, err := yaml.YAMLToJSON(chunk.content)
	if err != nil || sigsjson.UnmarshalCaseSensitivePreserveInts(data, &v) != nil || checkEnd(chunk.content) != nil {
		return nil, nil, false
	}
	repeated, merges = chunk.repeated()
	return v, repeated, merges
}

// errTemplate replaces the errors of a parser, which are about braces.
var errTemplate = errors.New("is a template with {{: render it first, such as with helm template")

// parseYAML parses one YAML document. A key that is there twice is an error.
func parseYAML(chunk *text) (v any, err error) {
	data, err := yaml.YAMLToJSONStrict(chunk.content)
	if err != nil {
		return nil, err
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &v); err != nil {
		return nil, err
	}
	return v, checkEnd(chunk.content)
}

// checkEnd rejects text behind the end of the first document, which the parser of YAML ignores. A document that begins
// with a word at the begin of its line has no such end.
func checkEnd(content []byte) error {
	at := 0
	for isEmpty(content[at:nextLine(content, at)]) {
		if at = nextLine(content, at); at == len(content) {
			return nil
		}
	}
	if !strings.ContainsRune(" \t{[\"'|>&*!", rune(content[at])) {
		return nil
	}
	decoder := yamlnodes.NewDecoder(bytes.NewReader(content))
	var first, second yamlnodes.Node
	if err := decoder.Decode(&first); err != nil {
		return nil //nolint:nilerr // the parser that reads the document accepts it
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil && len(second.Content) > 0:
		return fmt.Errorf("line %d: has text behind its end: separate documents by ---", second.Content[0].Line)
	}
	return errors.New("has text behind its end: separate documents by ---")
}

// parseJSON reads a sequence of JSON objects. It returns false if the chunk is none: it may be YAML that begins with a
// brace.
func parseJSON(chunk *text) ([]value, bool) {
	if !looksLikeJSON(chunk) {
		return nil, false
	}
	var values []value
	at := cursor{text: chunk, line: chunk.line, column: chunk.column}
	for decoder := json.NewDecoder(bytes.NewReader(chunk.content)); ; {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return values, true
		case err != nil:
			return nil, false
		}
		var v any
		strict, err := sigsjson.UnmarshalStrict(raw, &v, sigsjson.DisallowDuplicateFields)
		if err != nil || len(strict) > 0 {
			return nil, false
		}
		at.advance(int(decoder.InputOffset()) - len(raw))
		values = append(values, value{value: v, text: newText(raw, at.line, at.column)})
	}
}

func looksLikeJSON(chunk *text) bool {
	return bytes.HasPrefix(bytes.TrimSpace(chunk.content), []byte("{"))
}

// object is one object of a document, and its path in the document.
type object struct {
	*unstructured.Unstructured
	base []string
}

// objectsOf returns an object, or the items of a list. The errors are about other items.
func objectsOf(value any) (objects []object, errs []error) {
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, []error{fmt.Errorf("is %s where an object is expected", describe(value))}
	}
	items, listed := fields["items"].([]any)
	kind, _ := fields["kind"].(string)
	if !listed || !strings.HasSuffix(kind, "List") {
		return []object{{Unstructured: &unstructured.Unstructured{Object: fields}}}, nil
	}
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			errs = append(errs, &FieldError{fmt.Sprintf("items[%d]", i), fmt.Errorf("is %s where an object is expected", describe(item))})
			continue
		}
		objects = append(objects, object{&unstructured.Unstructured{Object: fields}, []string{"items", strconv.Itoa(i)}})
	}
	return objects, errs
}
