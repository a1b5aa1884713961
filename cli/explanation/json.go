package explanation

import (
	"bytes"
	"encoding/json"
)

// json is an object of its own, or, indented by so much, an element of a list.
func (e *Explanation) json(indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent(indent, "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
