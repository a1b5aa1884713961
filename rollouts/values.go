package rollouts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/texts"
)

// maxValue bounds the text of a value, in bytes.
const maxValue = 160

// hidden are fields whose values may be passwords or are long. Their length is shown.
var hidden = []string{
	"userData", "userDataBase64", "networkData", "networkDataBase64", "password",
}

func itoa(i int) string { return strconv.Itoa(i) }

// sortedKeys are the keys of maps, each once.
func sortedKeys(maps ...reflect.Value) []reflect.Value {
	var keys []reflect.Value
	for _, m := range maps {
		keys = append(keys, m.MapKeys()...)
	}
	byText := func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }
	slices.SortFunc(keys, byText)
	return slices.CompactFunc(keys, func(a, b reflect.Value) bool { return byText(a, b) == 0 })
}

// show is a value in short: plain for a text, a number or a quantity, and JSON otherwise. An absent value is empty.
func show(name string, value reflect.Value) string {
	if !value.IsValid() || value.IsZero() && value.Kind() != reflect.Bool {
		return ""
	}
	if plain := fieldpath.Indirect(value); plain.Kind() == reflect.String && !fieldpath.Opaque(plain.Type()) {
		text, _ := redact(name, plain.String()).(string)
		return texts.Shorten(texts.OneLine(text), maxValue)
	}
	data, err := json.Marshal(value.Interface())
	if err != nil {
		return ""
	}
	var decoded any
	if json.Unmarshal(data, &decoded) != nil {
		return ""
	}
	decoded = redact(name, decoded)
	if text, ok := decoded.(string); ok {
		return texts.Shorten(texts.OneLine(text), maxValue)
	}
	if data, err = json.Marshal(decoded); err != nil {
		return ""
	}
	return texts.Shorten(texts.OneLine(string(data)), maxValue)
}

// redact replaces hidden and long texts by their length.
func redact(name string, value any) any {
	switch v := value.(type) {
	case string:
		if slices.Contains(hidden, name) || strings.ContainsAny(v, "\n\r") {
			return fmt.Sprintf("text of %d bytes", len(v))
		}
	case map[string]any:
		for key := range v {
			v[key] = redact(key, v[key])
		}
	case []any:
		for i := range v {
			v[i] = redact(name, v[i])
		}
	}
	return value
}
