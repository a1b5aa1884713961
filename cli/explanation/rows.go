package explanation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/virtward/virtward/provenance"
)

// row is a field that has no fields of its own, and who filled it.
type row struct{ path, value, layer string }

// rowsOf flattens changes. The value of a change shows what later changes filled inside of it (see
// provenance.Change), so of rows that say the same of a field only the last one, that of its author, stays.
func rowsOf(changes []provenance.Change) ([]row, error) {
	var all []row
	last := map[string]int{}
	for _, c := range changes {
		data, err := json.Marshal(c.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
		tokens := json.NewDecoder(bytes.NewReader(data))
		tokens.UseNumber()
		err = leaves(tokens, c.Path, func(path, value string) {
			last[path] = len(all)
			all = append(all, row{path: path, value: value, layer: c.Layer})
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
	}
	kept := all[:0]
	for i, r := range all {
		if final := last[r.path]; final > i && all[final].value == r.value {
			continue
		}
		kept = append(kept, r)
	}
	return kept, nil
}

// leaves visits what has no fields of its own in a JSON value, in the order of the JSON. A text is shown as
// itself, anything else as JSON.
func leaves(tokens *json.Decoder, path string, visit func(path, value string)) error {
	token, err := tokens.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		return inside(tokens, t, path, visit)
	case string:
		if t == "" {
			t = `""`
		}
		visit(path, t)
	case nil:
		visit(path, "null")
	default:
		visit(path, fmt.Sprint(t))
	}
	return nil
}

// inside visits the fields of an object or the elements of a list, of which the opening bracket was read.
func inside(tokens *json.Decoder, open json.Delim, path string, visit func(path, value string)) error {
	if !tokens.More() {
		visit(path, map[json.Delim]string{'{': "{}", '[': "[]"}[open])
	}
	for i := 0; tokens.More(); i++ {
		here := provenance.Indexed(path, i, "")
		if open == '{' {
			name, err := tokens.Token()
			if err != nil {
				return err
			}
			here = member(path, fmt.Sprint(name))
		}
		if err := leaves(tokens, here, visit); err != nil {
			return err
		}
	}
	_, err := tokens.Token() // the closing bracket
	return err
}

// member is the path of a field, or of a key that no field could be named.
func member(path, name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) || name == "" {
		return provenance.Keyed(path, name)
	}
	return path + "." + name
}
