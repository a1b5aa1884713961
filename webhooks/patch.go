package webhooks

import (
	"encoding/json"
	"fmt"
	"slices"
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
// come in the order of their paths, list elements in the order of their indices.
func Patch(original []byte, changes []provenance.Change) ([]byte, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	root := &node{}
	for i := range changes {
		if err := root.insert(changes[i].Path, changes[i].Value); err != nil {
			return nil, err
		}
	}
	p := &patcher{ops: make([]operation, 0, len(changes))}
	p.walk(root, gjson.ParseBytes(original), "")
	return json.Marshal(p.ops)
}

// node is a place in the object: a field, a key or an index. It holds a value, or places below it.
type node struct {
	name  string
	index bool
	value any
	below []*node
}

// insert files a value under a path such as spec.disks[0].disk.bus or metadata.labels[app.kubernetes.io/name].
func (n *node) insert(path string, value any) error {
	for rest := path; rest != ""; {
		name, index, after, err := segment(rest)
		if err != nil {
			return fmt.Errorf("making a patch for %s: %w", path, err)
		}
		n, rest = n.child(name, index), after
	}
	n.value, n.below = value, nil
	return nil
}

// segment cuts the first step off a path. What stands in brackets is an index if it is a number, else a key.
func segment(path string) (name string, index bool, rest string, err error) {
	if path[0] == '[' {
		end := strings.IndexByte(path, ']')
		if end < 0 {
			return "", false, "", fmt.Errorf("a bracket is not closed")
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

func (n *node) child(name string, index bool) *node {
	for _, c := range n.below {
		if c.name == name {
			return c
		}
	}
	c := &node{name: name, index: index}
	n.below = append(n.below, c)
	return c
}

type patcher struct{ ops []operation }

// walk descends as far as the original goes and adds everything from there on.
func (p *patcher) walk(n *node, original gjson.Result, path string) {
	if len(n.below) == 0 || !(original.IsObject() || original.IsArray()) {
		p.ops = append(p.ops, operation{Op: "add", Path: path, Value: n.tree()})
		return
	}
	n.sort()
	for _, c := range n.below {
		p.walk(c, member(original, c), path+"/"+escape.Replace(c.name))
	}
}

// member finds a place in the original; what is null counts as missing.
func member(original gjson.Result, c *node) gjson.Result {
	var found gjson.Result
	if original.IsArray() {
		i := 0
		original.ForEach(func(_, value gjson.Result) bool {
			if strconv.Itoa(i) == c.name {
				found = value
				return false
			}
			i++
			return true
		})
		return found
	}
	original.ForEach(func(key, value gjson.Result) bool {
		if key.Str == c.name {
			found = value
			return false
		}
		return true
	})
	return found
}

// tree is the value of a place: its own, or what is made of the places below.
func (n *node) tree() any {
	if len(n.below) == 0 {
		return n.value
	}
	n.sort()
	if n.below[0].index {
		list := make([]any, 0, len(n.below))
		for _, c := range n.below {
			list = append(list, c.tree())
		}
		return list
	}
	object := make(map[string]any, len(n.below))
	for _, c := range n.below {
		object[c.name] = c.tree()
	}
	return object
}

func (n *node) sort() {
	slices.SortFunc(n.below, func(a, b *node) int {
		if a.index && b.index && len(a.name) != len(b.name) {
			return len(a.name) - len(b.name)
		}
		return strings.Compare(a.name, b.name)
	})
}

// escape is that of JSON pointers (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")
