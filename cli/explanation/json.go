package explanation

import (
	"bytes"
	"encoding/json"
)

// asJSON returns a value as an object, or indented as an element of a list.
func asJSON(value any, only bool) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	indent := "  "
	if only {
		indent = ""
	}
	encoder.SetIndent(indent, "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
