package texts

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteJSON writes a value as indented JSON. Unlike json.Marshal, it does not escape <, > and &.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// JSON encodes a value as JSON in one line. Unlike json.Marshal, it does not escape <, > and &.
func JSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
