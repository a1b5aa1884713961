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
	// there is none, or if several are equally near.
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
	// object is the value.
	object map[string]any
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
	at.object = object
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

// meant suggests a field for an unknown one: beside it with nearly the same name, of the same name below or above it, or
// similar beside it. A field elsewhere was not meant if it is set already, or cannot have the value.
func meant(name string, at *level, object map[string]any) string {
	beside := slices.Sorted(maps.Keys(properties(at.node)))
	if near := texts.Near(name, beside); near != "" {
		return near
	}
	if path := inside(name, at, object); path != "" {
		return path
	}
	for above := at.above; above != nil; above = above.above {
		property, found := properties(above.node)[name]
		if _, taken := above.object[name]; found && !taken && !ofType(name) && takes(&property, object[name]) {
			return joined(above.path, name)
		}
	}
	return texts.Closest(name, slices.DeleteFunc(beside, ofType))
}

// candidate is an object below an unknown field, in which a field of the same name may be meant.
type candidate struct {
	node   *structuralschema.Structural
	path   string
	object map[string]any
	// distance is 0 for an object that exists, 1 for one that is null, and 2 for one that is absent.
	distance int
}

// inside returns the path of the nearest field of this name below an object. It returns none if several are equally near. A
// single value moves only one level down, unless the objects around its new place exist.
func inside(name string, at *level, object map[string]any) string {
	if at.node == nil {
		return ""
	}
	_, isObject := object[name].(map[string]any)
	_, isList := object[name].([]any)
	current := []candidate{{node: at.node, path: at.path, object: object}}
	for depth := range maxBelow {
		var next []candidate
		for i := range current {
			next = append(next, current[i].below()...)
		}
		if depth > 0 && !isObject && !isList {
			next = slices.DeleteFunc(next, func(c candidate) bool { return c.distance > 0 })
		}
		if path, found := nearest(name, object[name], next); found {
			return path
		}
		current = next
	}
	return ""
}

// below returns the objects of an object.
func (c *candidate) below() (found []candidate) {
	for _, name := range slices.Sorted(maps.Keys(c.node.Properties)) {
		property := c.node.Properties[name]
		if name == "status" || len(property.Properties) == 0 {
			continue
		}
		value, present := c.object[name]
		of, _ := value.(map[string]any)
		distance := 0
		switch {
		case !present:
			distance = 2
		case of == nil:
			distance = 1
		}
		found = append(found, candidate{&property, joined(c.path, name), of, max(c.distance, distance)})
	}
	return found
}

// nearest returns the path of the field with this name in the nearest object that has it; none if several are equally near.
func nearest(name string, value any, of []candidate) (path string, found bool) {
	distance := 0
	for i := range of {
		property, has := of[i].node.Properties[name]
		if !has || !takes(&property, value) {
			continue
		}
		switch at := joined(of[i].path, name); {
		case !found || of[i].distance < distance:
			path, distance, found = at, of[i].distance, true
		case of[i].distance == distance:
			path = ""
		}
	}
	return path, found
}

// takes reports whether a field can have a value: an object, a list, or a single value.
func takes(node *structuralschema.Structural, value any) bool {
	const object, list = "object", "array"
	switch value.(type) {
	case nil:
		return true
	case map[string]any:
		return node.Type == object
	case []any:
		return node.Type == list
	}
	return node.Type != object && node.Type != list
}
