package webhooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/provenance"
)

// operation is one operation of a JSON patch (RFC 6902). All operations are "add", because completion fills fields that
// are absent or zero. On a member that exists, add replaces the value.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch returns changes as a JSON patch of the original object, or nil without changes. The patch also adds parents of a
// field that are missing from the original. Operations are in the order of the changes, and list elements in the order of
// their indices.
func Patch(original []byte, changes []provenance.Change) ([]byte, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	t := &tree{places: make([]place, 1, 4*len(changes)+1), ops: make([]operation, 0, len(changes))}
	for i := range changes {
		if err := t.insert(changes[i].Path, changes[i].Value); err != nil {
			return nil, err
		}
	}
	t.find(root, original, 0)
	t.walk(root)
	return json.Marshal(t.ops)
}

// tree has the changes by their places in the object. Places refer to each other by their index in one slice, so that a
// patch needs few allocations.
type tree struct {
	places []place
	path   []byte
	ops    []operation
}

// place is a field, a key or an index. It has a value, or places below it.
type place struct {
	name  string
	index bool
	value any
	// first and last are places below this one; next is the next one of the same parent. Zero means none.
	first, last, next int
	// below has the places below by name. It is nil for fewer than manyPlaces.
	below map[string]int
	count int
	// found reports whether the original has it, and open whether it is an object or a list there.
	found, open bool
}

// manyPlaces is the number of places from which a map is faster than a linear search.
const manyPlaces = 16

// root is the object itself. It is below no place, so zero means none in the fields of place.
const root = 0

// insert adds a value at a path such as spec.disks[0].disk.bus or metadata.labels[app.kubernetes.io/name].
func (t *tree) insert(path string, value any) error {
	at := root
	for rest := path; rest != ""; {
		name, index, after, err := segment(rest)
		if err != nil {
			return fmt.Errorf("computing the patch of %s: %w", path, err)
		}
		at, rest = t.child(at, name, index), after
		if t.places[at].value != nil {
			return nil // part of a value that was added as a whole, and is shared with the object
		}
	}
	t.places[at].value = value
	return nil
}

// segment splits the first segment from a path. A segment in brackets is an index if it is a number, else a key.
func segment(path string) (name string, index bool, rest string, err error) {
	name, bracket, rest := fieldpath.Cut(path)
	if bracket && !strings.Contains(path, "]") {
		return "", false, "", errors.New("a bracket is not closed")
	}
	if !bracket { // the error of a name that is no number is an allocation
		return name, false, rest, nil
	}
	_, notNumber := strconv.Atoi(name)
	return name, notNumber == nil, rest, nil
}

// child returns a place below another one, and adds it if it does not exist.
func (t *tree) child(parent int, name string, index bool) int {
	if c := t.below(parent, []byte(name)); c != 0 {
		return c
	}
	t.places = append(t.places, place{name: name, index: index})
	added, p := len(t.places)-1, &t.places[parent]
	if p.last != 0 {
		t.places[p.last].next = added
	} else {
		p.first = added
	}
	p.last = added
	p.count++
	switch {
	case p.below != nil:
		p.below[name] = added
	case p.count == manyPlaces:
		p.below = make(map[string]int, 2*manyPlaces)
		for c := p.first; c != 0; c = t.places[c].next {
			p.below[t.places[c].name] = c
		}
	}
	return added
}

// below returns the place of a name below another one; zero if there is none.
func (t *tree) below(parent int, name []byte) int {
	if known := t.places[parent].below; known != nil {
		return known[string(name)]
	}
	for c := t.places[parent].first; c != 0; c = t.places[c].next {
		if t.places[c].name == string(name) {
			return c
		}
	}
	return 0
}

// find looks for the places below one whose value begins at a position of the original, and returns where it ends. It looks at each
// byte once.
func (t *tree) find(at int, original []byte, from int) (to int) {
	p := &t.places[at]
	p.found = true
	if p.first == 0 || from >= len(original) {
		return decode.Skip(original, from)
	}
	below := func(name []byte, from int) int {
		if c := t.below(at, name); c != 0 && !t.places[c].found {
			return t.find(c, original, from)
		}
		return decode.Skip(original, from)
	}
	switch original[from] {
	case '{':
		p.open = true
		return decode.Members(original, from, below)
	case '[':
		p.open = true
		var index [20]byte
		return decode.Elements(original, from, func(i, from int) int { return below(strconv.AppendInt(index[:0], int64(i), 10), from) })
	}
	return decode.Skip(original, from)
}

// walk descends while the original has the place, and adds an operation for the first place that it does not have.
func (t *tree) walk(at int) {
	if t.places[at].first == 0 || !t.places[at].open {
		t.ops = append(t.ops, operation{Op: "add", Path: string(t.path), Value: t.content(at)})
		return
	}
	for c := t.places[at].first; c != 0; c = t.places[c].next {
		length := len(t.path)
		t.path = append(append(t.path, '/'), escape.Replace(t.places[c].name)...)
		t.walk(c)
		t.path = t.path[:length]
	}
}

// content returns the value of a place, built from the places below if it has any.
func (t *tree) content(at int) any {
	first := t.places[at].first
	if first == 0 {
		return t.places[at].value
	}
	if t.places[first].index {
		var list []any
		for c := first; c != 0; c = t.places[c].next {
			list = append(list, t.content(c))
		}
		return list
	}
	object := map[string]any{}
	for c := first; c != 0; c = t.places[c].next {
		object[t.places[c].name] = t.content(c)
	}
	return object
}

// escape replaces the special characters of JSON pointers (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")
