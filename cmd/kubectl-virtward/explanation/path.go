package explanation

import (
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/provenance"
)

// path is a place in an object: the names of fields, the keys of maps and the indices of lists.
type path []string

func index(i int) string { return strconv.Itoa(i) }

// parsePath reads the path of a change: spec.disks[0].disk.bus, metadata.labels[app.kubernetes.io/name].
func parsePath(text string) path {
	var p path
	for text != "" {
		if text[0] == '[' {
			inner, rest, _ := strings.Cut(text[1:], "]")
			p, text = append(p, inner), strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(text, ".[")
		if end < 0 {
			return append(p, text)
		}
		p, text = append(p, text[:end]), strings.TrimPrefix(text[end:], ".")
	}
	return p
}

func pathsOf(changes []provenance.Change) []path {
	paths := make([]path, len(changes))
	for i := range changes {
		paths[i] = parsePath(changes[i].Path)
	}
	return paths
}

// below tells whether p is the other place, or inside of it.
func (p path) below(other path) bool {
	if len(p) < len(other) {
		return false
	}
	for i := range other {
		if p[i] != other[i] {
			return false
		}
	}
	return true
}

// within tells whether p is inside one of the places.
func (p path) within(places []path) bool {
	return slices.ContainsFunc(places, p.below)
}
