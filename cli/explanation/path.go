package explanation

import (
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// path is a path in an object: the names of fields, the keys of maps and the indices of lists.
type path []string

func index(i int) string { return strconv.Itoa(i) }

func pathsOf(changes []provenance.Change) []path {
	paths := make([]path, len(changes))
	for i := range changes {
		paths[i] = fieldpath.Split(changes[i].Path)
	}
	return paths
}

// below reports whether p is the other path, or below it.
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

// within reports whether p is below one of the paths, or is one of them.
func (p path) within(places []path) bool {
	return slices.ContainsFunc(places, p.below)
}

// key returns the path as a key of a map.
func (p path) key() string { return strings.Join(p, "\x00") }

// presentIn returns how many steps of the path exist in an object.
func (p path) presentIn(object map[string]any) int {
	_, present := fieldpath.Get(object, p)
	return present
}
