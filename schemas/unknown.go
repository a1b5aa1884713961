package schemas

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/texts"
)

// Bounds of the search for unknown fields.
const (
	// MaxUnknown is the number of unknown fields that are found in one object.
	MaxUnknown = 100
	// maxStep bounds the bytes of a field's name in a path.
	maxStep = 100
	// maxBelow is how deep a field of the same name is searched below an unknown one.
	maxBelow = 4
)

// Unknown is a field that the schema does not have. The API server drops it, or rejects the object in kubectl's strict
// mode.
type Unknown struct {
	// Path of the field in the object.
	Path string
	// Meant is the name of a similar field beside it, or the path of the field with the same name above or below; empty if
	// there is none.
	Meant string

	steps []string
}

// Unknown returns the fields of an object that the schema does not have, sorted by path, at most MaxUnknown.
func (s *Schema) Unknown(object map[string]any) []Unknown {
	w := &search{}
	root := *s.structural
	root.XEmbeddedResource = true
	w.fields(object, level{node: &root})
	w.metadata(object["metadata"])
	slices.SortFunc(w.found, func(a, b Unknown) int { return strings.Compare(a.Path, b.Path) })
	return w.found
}

// Has reports whether the schema has an unknown field of another schema.
func (s *Schema) Has(u Unknown) bool { return s.Declares(u.steps) }

// Declares reports whether the schema has a field, by its steps: the names of fields, and any steps for elements and keys.
func (s *Schema) Declares(steps []string) bool {
	node := s.structural
	for _, step := range steps {
		if node = below(node, step); node == nil {
			return false
		}
	}
	return true
}

// below returns the schema of a field or an element, or nil.
func below(node *structuralschema.Structural, step string) *structuralschema.Structural {
	if property, ok := node.Properties[step]; ok {
		return &property
	}
	if node.AdditionalProperties != nil {
		return node.AdditionalProperties.Structural
	}
	return node.Items
}

// level is an object of the tree, with those around it.
type level struct {
	above *level
	node  *structuralschema.Structural
	path  string
	steps []string
}

// search collects unknown fields. It follows the API server's pruning.
type search struct {
	found []Unknown
}

// full reports whether no more fields are searched. Suggestions for them would cost time.
func (w *search) full() bool { return len(w.found) >= MaxUnknown }

func (w *search) value(value any, at level) {
	if w.full() {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		w.fields(v, at)
	case []any:
		elements := level{above: at.above}
		if at.node != nil {
			elements.node = at.node.Items
			if at.node.XPreserveUnknownFields && elements.node == nil {
				return
			}
		}
		for i := range v {
			if w.full() {
				return
			}
			elements.path, elements.steps = fieldpath.Indexed(at.path, i, ""), append(slices.Clip(at.steps), "")
			w.value(v[i], elements)
		}
	}
}

// fields searches an object.
func (w *search) fields(object map[string]any, at level) {
	preserves := at.node != nil && at.node.XPreserveUnknownFields
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if w.full() {
			return
		}
		if at.node != nil && at.node.XEmbeddedResource && ofType(name) {
			continue
		}
		child := level{above: &at, steps: append(slices.Clip(at.steps), name), path: joined(at.path, name)}
		property, known := properties(at.node)[name]
		switch {
		case known:
			child.node = &property
			w.value(object[name], child)
		case at.node != nil && at.node.AdditionalProperties != nil:
			child.node, child.path = at.node.AdditionalProperties.Structural, fieldpath.Keyed(at.path, texts.Shorten(name, maxStep))
			w.value(object[name], child)
		case !preserves && (!ofType(name) || at.path != ""):
			w.found = append(w.found, Unknown{Path: child.path, steps: child.steps, Meant: meant(name, &at, object)})
		}
	}
}

// metadata searches the metadata of the object, which no schema describes.
func (w *search) metadata(value any) {
	fields, _ := value.(map[string]any)
	of := reflect.TypeFor[metav1.ObjectMeta]()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if w.full() {
			return
		}
		if _, known := fieldpath.FieldOf(of, name); !known {
			w.found = append(w.found, Unknown{Path: joined("metadata", name), steps: []string{"metadata", name}, Meant: texts.Closest(name, fieldpath.NamesOf(of))})
		}
	}
}

// ofType reports whether every object has a field.
func ofType(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

func properties(node *structuralschema.Structural) map[string]structuralschema.Structural {
	if node == nil {
		return nil
	}
	return node.Properties
}

// joined returns the path of a field, whose name can have any characters.
func joined(path, name string) string {
	name = texts.Shorten(name, maxStep)
	if path != "" && strings.ContainsAny(name, ".[]") {
		return fieldpath.Keyed(path, name)
	}
	return fieldpath.Joined(path, name)
}

// meant suggests a field for an unknown one: beside it in other case, of the same name above or below it, or similar
// beside it.
func meant(name string, at *level, object map[string]any) string {
	beside := slices.Sorted(maps.Keys(properties(at.node)))
	for _, candidate := range beside {
		if strings.EqualFold(candidate, name) {
			return candidate
		}
	}
	if path := inside(name, at, object); path != "" {
		return path
	}
	for above := at.above; above != nil; above = above.above {
		if _, found := properties(above.node)[name]; found && !ofType(name) {
			return joined(above.path, name)
		}
	}
	return texts.Closest(name, beside)
}

// inside returns the path of the nearest field of this name below an object. Fields that the object has come first.
func inside(name string, at *level, object map[string]any) string {
	type candidate struct {
		node   *structuralschema.Structural
		path   string
		object map[string]any
	}
	if at.node == nil {
		return ""
	}
	current := []candidate{{at.node, at.path, object}}
	for range maxBelow {
		var next []candidate
		for _, c := range current {
			for _, field := range slices.Sorted(maps.Keys(c.node.Properties)) {
				property := c.node.Properties[field]
				if field == "status" || len(property.Properties) == 0 {
					continue
				}
				value, _ := c.object[field].(map[string]any)
				next = append(next, candidate{&property, joined(c.path, field), value})
			}
		}
		slices.SortStableFunc(next, func(a, b candidate) int { return weight(a.object) - weight(b.object) })
		for _, c := range next {
			if _, found := c.node.Properties[name]; found {
				return joined(c.path, name)
			}
		}
		current = next
	}
	return ""
}

// weight sorts objects that exist before others.
func weight(object map[string]any) int {
	if object != nil {
		return 0
	}
	return 1
}
