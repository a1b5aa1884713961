package manifests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"

	"github.com/virtward/virtward/fieldpath"
)

// maxRepeated bounds the fields of a document that are listed as set more than once.
const maxRepeated = 100

// Repeated is a field that a text sets more than once. The last value is that of the object, as in kubectl. Kustomize rejects
// such a file.
type Repeated struct {
	Path string
	// First and Last are lines of the file.
	First, Last int
}

// Error implements error.
func (r Repeated) Error() string {
	return fmt.Sprintf("line %d: %s is already set in line %d", r.Last, r.Path, r.First)
}

// rejectRepeated moves the documents that set a field more than once to those that cannot be read.
func (c *Content) rejectRepeated() {
	kept := c.Documents[:0:0]
	for _, d := range c.Documents {
		if len(d.Repeated) == 0 {
			kept = append(kept, d)
			continue
		}
		c.reject(d.RejectRepeated())
	}
	c.Documents = kept
}

// Strictly returns the content without documents that set a field more than once: these cannot be read.
func (c *Content) Strictly() *Content {
	strict := &Content{Documents: c.Documents, Unreadable: c.Unreadable}
	strict.rejectRepeated()
	return strict
}

// RejectRepeated returns a document that sets a field more than once as one that cannot be read.
func (d Document) RejectRepeated() Unreadable {
	return d.rejectFor(d.Repeated[0])
}

// rejectFor returns a document as one that cannot be read because of a field.
func (d Document) rejectFor(r Repeated) Unreadable {
	u := d.Unreadable(errors.New(r.Error()))
	u.Position = Position{Line: r.Last, Column: 1}
	return u
}

// repeated returns the fields of a text that are set more than once, in their order, and whether it merges mappings.
func (t *text) repeated() (found []Repeated, merges bool) {
	w := &repeatedSearch{text: t}
	if root := t.root(); root != nil {
		w.search(root)
	}
	return w.found, w.merges
}

// maxRepeatedPath bounds the path of a field that is set more than once, in bytes: the author of a file chooses the names and
// the depth.
const maxRepeatedPath = 1024

type repeatedSearch struct {
	text  *text
	found []Repeated
	// merges reports whether a mapping has the merge key.
	merges bool
	// steps lead to the mapping or the list that is searched: .name, [key] or [index].
	steps []string
}

// path returns the path of a step below the steps. It is made for what is found only: each one can be as long as the file.
func (w *repeatedSearch) path(last string) string {
	var path strings.Builder
	for _, step := range append(slices.Clip(w.steps), last) {
		if path.WriteString(step); path.Len() > maxRepeatedPath {
			break
		}
	}
	text := strings.TrimPrefix(path.String(), ".")
	return strings.ToValidUTF8(text[:min(len(text), maxRepeatedPath)], "")
}

// below searches the node of a step.
func (w *repeatedSearch) below(step string, at *yamlnodes.Node) {
	w.steps = append(w.steps, step)
	w.search(at)
	w.steps = w.steps[:len(w.steps)-1]
}

// search follows no aliases: their fields are where the anchor is.
func (w *repeatedSearch) search(at *yamlnodes.Node) {
	switch at.Kind {
	case yamlnodes.SequenceNode:
		for i, element := range at.Content {
			w.below(fieldpath.Indexed("", i, ""), element)
		}
	case yamlnodes.MappingNode:
		seen := map[string]int{}
		for i := 0; i+1 < len(at.Content) && len(w.found) < maxRepeated; i += 2 {
			key := at.Content[i]
			w.merges = w.merges || key.Tag == mergeTag
			step := "." + key.Value
			if len(w.steps) > 0 && strings.ContainsAny(key.Value, ".[]") {
				step = fieldpath.Keyed("", key.Value)
			}
			line := w.text.position(key).Line
			if first, taken := seen[key.Value]; taken {
				w.found = append(w.found, Repeated{Path: w.path(step), First: first, Last: line})
			} else {
				seen[key.Value] = line
			}
			w.below(step, at.Content[i+1])
		}
	}
}

// besideItems returns the first repeated field of a list that is in none of its objects.
func besideItems(all []Repeated, objects []object) (found Repeated, ok bool) {
	for _, r := range all {
		if !slices.ContainsFunc(objects, func(o object) bool { return len(o.base) == 0 || len(within([]Repeated{r}, o.base)) > 0 }) {
			return r, true
		}
	}
	return Repeated{}, false
}

// within returns the repeated fields of the object at a path of the document.
func within(all []Repeated, base []string) (found []Repeated) {
	if len(base) == 0 {
		return all
	}
	prefix := fmt.Sprintf("%s[%s].", base[0], base[1])
	for _, r := range all {
		if path, below := strings.CutPrefix(r.Path, prefix); below {
			r.Path = path
			found = append(found, r)
		}
	}
	return found
}
