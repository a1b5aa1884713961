package provenance

import "strings"

// Steps takes a path apart into the names of fields, the keys of maps and the indices of lists:
// spec.disks[0].bus is spec, disks, 0, bus.
func Steps(path string) []string {
	steps := make([]string, 0, 8)
	for path != "" {
		if path[0] == '[' {
			inner, rest, _ := strings.Cut(path[1:], "]")
			steps, path = append(steps, inner), strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return append(steps, path)
		}
		steps, path = append(steps, path[:end]), strings.TrimPrefix(path[end:], ".")
	}
	return steps
}

// Within reports whether a path is that of a field or of something below it.
func Within(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
