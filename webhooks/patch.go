package webhooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/virtward/virtward/provenance"
)

// operation is one operation of a JSON patch (RFC 6902). Only "add" is ever needed, because completing
// fills what is absent or zero; on a member that exists, add replaces it.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch turns changes into a JSON patch for the object they were made to, given as its original JSON. Where
// parents of a changed field are missing from the original, the patch adds them with it. The operations
// come in the order of the changes, list elements in the order of their indices.
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
	t.walk(root, gjson.ParseBytes(original))
	return json.Marshal(t.ops)
}

// tree files the changes by their places in the object. Places refer to each other by their positions in
// one slice, so that a patch costs few allocations.
type tree struct {
	places []place
	path   []byte
	ops    []operation
}

// place is a field, a key or an index. It holds a value, or has places below it.
type place struct {
	name  string
	index bool
	value any
	// first, last are the places below; next is the one after it below the same parent. Zero means none.
	first, last, next int
	// below finds a place by its name, once there are many.
	below map[string]int
	count int
}

// manyPlaces is from where on looking through the places below one after the other takes longer than a map.
const manyPlaces = 16

// root is the object itself; no place is below itself, so zero can mean none elsewhere.
const root = 0

// insert files a value under a path such as spec.disks[0].disk.bus or metadata.labels[app.kubernetes.io/name].
func (t *tree) insert(path string, value any) error {
	at := root
	for rest := path; rest != ""; {
		name, index, after, err := segment(rest)
		if err != nil {
			return fmt.Errorf("making a patch for %s: %w", path, err)
		}
		at, rest = t.child(at, name, index), after
		if t.places[at].value != nil {
			return nil // part of a value that was added as a whole, and is shared with the object
		}
	}
	t.places[at].value = value
	return nil
}

// segment cuts the first step off a path. What stands in brackets is an index if it is a number, else a key.
func segment(path string) (name string, index bool, rest string, err error) {
	if path[0] == '[' {
		end := strings.IndexByte(path, ']')
		if end < 0 {
			return "", false, "", errors.New("a bracket is not closed")
		}
		name = path[1:end]
		_, notNumber := strconv.Atoi(name)
		return name, notNumber == nil, strings.TrimPrefix(path[end+1:], "."), nil
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, false, "", nil
	}
	return path[:end], false, strings.TrimPrefix(path[end:], "."), nil
}

// child finds or makes a place below another one.
func (t *tree) child(parent int, name string, index bool) int {
	if known := t.places[parent].below; known != nil {
		if c, ok := known[name]; ok {
			return c
		}
	} else {
		for c := t.places[parent].first; c != 0; c = t.places[c].next {
			if t.places[c].name == name {
				return c
			}
		}
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

// walk descends as far as the original goes, and adds everything from there on.
func (t *tree) walk(at int, original gjson.Result) {
	if t.places[at].first == 0 || (!original.IsObject() && !original.IsArray()) {
		t.ops = append(t.ops, operation{Op: "add", Path: string(t.path), Value: t.content(at)})
		return
	}
	var elements []gjson.Result
	if original.IsArray() {
		elements = original.Array()
	}
	for c := t.places[at].first; c != 0; c = t.places[c].next {
		length := len(t.path)
		t.path = append(append(t.path, '/'), escape.Replace(t.places[c].name)...)
		t.walk(c, member(original, elements, t.places[c].name))
		t.path = t.path[:length]
	}
}

// member finds a member of an object, or one of the elements of an array; what is null counts as missing.
func member(original gjson.Result, elements []gjson.Result, name string) (found gjson.Result) {
	if original.IsArray() {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(elements) {
			found = elements[i]
		}
		return found
	}
	original.ForEach(func(key, value gjson.Result) bool {
		if key.Str == name {
			found = value
			return false
		}
		return true
	})
	return found
}

// content is the value of a place: its own, or what is made of the places below.
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

// escape is that of JSON pointers (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")
