// Package leaves lists the values of objects by their paths, for tests of properties.
//
// Input: any value that can be encoded as JSON. Output: its values by paths in the form of a field.Path, and comparisons of
// two such sets. Objects without members are not included, because they have no meaning.
package leaves

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Of returns the leaves of a value under a path.
func Of(root string, value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	var generic any
	if err := json.Unmarshal(data, &generic); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	leaves := map[string]any{}
	collect(leaves, root, generic)
	return leaves, nil
}

func collect(into map[string]any, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			collect(into, child(path, key), member)
		}
	case []any:
		for i, element := range v {
			collect(into, path+"["+strconv.Itoa(i)+"]", element)
		}
	case nil:
	default:
		into[path] = v
	}
}

func child(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"), slices.ContainsFunc(maps, func(name string) bool { return strings.HasSuffix(path, name) }):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// maps are the fields whose members are keys, not fields.
var maps = []string{"labels", "annotations", "requests", "limits", "nodeSelector"}

// Changed returns the paths of the leaves of after that before has not, or has with another value, sorted.
func Changed(before, after map[string]any) []string {
	var changed []string
	for path, value := range after {
		if old, ok := before[path]; !ok || old != value {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	return changed
}

// Lost returns the paths of the leaves of before that after has not, or has with another value, sorted.
func Lost(before, after map[string]any) []string { return Changed(after, before) }

// Covers reports whether a path is another one or lies below it.
func Covers(above, path string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
