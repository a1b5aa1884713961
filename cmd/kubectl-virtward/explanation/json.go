package explanation

import (
	"encoding/json"
	"io"
)

// WriteJSON writes one explanation as an object, and several as a list.
func WriteJSON(w io.Writer, explanations []*Explanation) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if len(explanations) == 1 {
		return encoder.Encode(explanations[0])
	}
	return encoder.Encode(explanations)
}
