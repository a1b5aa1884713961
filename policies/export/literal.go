package export

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// literal returns a JSON value in CEL. Elements of lists and objects have the type dyn, as the parameters of a native
// policy; the compiler rejects literals with several types.
func literal(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "dyn(null)", nil
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		return quoted(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return double(v), nil
	case []any:
		items := make([]string, len(v))
		for i := range v {
			item, err := literal(v[i])
			if err != nil {
				return "", err
			}
			items[i] = untyped(item)
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	case map[string]any:
		entries := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			entry, err := literal(v[key])
			if err != nil {
				return "", err
			}
			entries = append(entries, quoted(key)+": "+untyped(entry))
		}
		return "{" + strings.Join(entries, ", ") + "}", nil
	}
	return "", fmt.Errorf("a value of the Go type %T has no form in CEL", value)
}

func untyped(text string) string {
	if strings.HasPrefix(text, "dyn(") {
		return text
	}
	return "dyn(" + text + ")"
}

// quoted returns a string in CEL. The escapes of Go are valid in CEL.
func quoted(text string) string { return strconv.Quote(text) }

// quotedList returns a list of strings in CEL.
func quotedList(texts []string) string {
	all := make([]string, len(texts))
	for i := range texts {
		all[i] = quoted(texts[i])
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// double returns a number that stays a double, with a decimal point.
func double(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
