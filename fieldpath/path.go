package fieldpath

import (
	"strconv"
	"strings"
)

// Cut splits the first step from a path. The step is the name of a field, or the content of a bracket. A path whose
// bracket is not closed has no rest.
func Cut(path string) (step string, bracket bool, rest string) {
	if strings.HasPrefix(path, "[") {
		step, rest, _ = strings.Cut(path[1:], "]")
		return step, true, strings.TrimPrefix(rest, ".")
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, false, ""
	}
	return path[:end], false, strings.TrimPrefix(path[end:], ".")
}

// Split returns the steps of a path: the names of fields, the keys of maps and the indices of lists. For
// spec.disks[0].bus, these are spec, disks, 0 and bus.
func Split(path string) []string {
	steps := make([]string, 0, 8)
	for path != "" {
		var step string
		step, _, path = Cut(path)
		steps = append(steps, step)
	}
	return steps
}

// Prefix returns the first n steps of a path, as they are written in it.
func Prefix(path string, n int) string {
	rest := path
	for range n {
		_, _, rest = Cut(rest)
	}
	return strings.TrimSuffix(strings.TrimSuffix(path, rest), ".")
}

// Within reports whether a path is the path of a field or of something below it.
func Within(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Fields returns a path without the indices and keys: spec.disks.bus for spec.disks[0].bus.
func Fields(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	var fields strings.Builder
	for path != "" {
		before, bracket, found := strings.Cut(path, "[")
		fields.WriteString(before)
		if !found {
			break
		}
		_, path, _ = strings.Cut(bracket, "]")
	}
	return fields.String()
}

// Joined returns the path of a field of the object at path. Both can be empty.
func Joined(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// Indexed returns the path of element i of the list at path, or of the field below it.
func Indexed(list string, i int, below string) string {
	var b strings.Builder
	b.Grow(len(list) + len(below) + 6)
	b.WriteString(list)
	b.WriteByte('[')
	b.WriteString(strconv.Itoa(i))
	b.WriteByte(']')
	if below != "" {
		b.WriteByte('.')
		b.WriteString(below)
	}
	return b.String()
}

// Keyed returns the path of the value with a key of the map at path.
func Keyed(path, key string) string { return path + "[" + key + "]" }

// index returns the number of a step, if it is an index.
func index(step string, length int) (int, bool) {
	if step == "" || step[0] < '0' || step[0] > '9' {
		return 0, false
	}
	i, err := strconv.ParseUint(step, 10, 31)
	return int(i), err == nil && int(i) < length
}
