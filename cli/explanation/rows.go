package explanation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// row is a field without fields of its own, and the layer that filled it.
type row struct{ path, value, layer string }

// rowsOf flattens changes. The value of a change includes what later changes filled in it (see provenance.Change), so
// only the last of equal rows about a field remains.
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

// leaves visits the values without fields in a JSON value, in their order. Strings are shown without quotes, other
// values as JSON.
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

// inside visits the fields of an object or the elements of a list, after the opening bracket.
func inside(tokens *json.Decoder, open json.Delim, path string, visit func(path, value string)) error {
	if !tokens.More() {
		visit(path, map[json.Delim]string{'{': "{}", '[': "[]"}[open])
	}
	for i := 0; tokens.More(); i++ {
		here := fieldpath.Indexed(path, i, "")
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

// member returns the path of a field, or of a key that cannot be the name of a field.
func member(path, name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) || name == "" {
		return fieldpath.Keyed(path, name)
	}
	return path + "." + name
}

// Filled is a field that a layer filled, without fields of its own.
type Filled struct{ Path, Value, Layer string }

// Filled returns the fields that layers filled, in their order. It needs the changes, which Forget frees.
func (e *Explanation) Filled() ([]Filled, error) {
	rows, err := rowsOf(e.Changes)
	if err != nil {
		return nil, err
	}
	filled := make([]Filled, len(rows))
	for i, r := range rows {
		filled[i] = Filled{Path: r.path, Value: r.value, Layer: r.layer}
	}
	return filled, nil
}
