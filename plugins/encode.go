package plugins

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/virtward/virtward/domain"
)

// encodeDomain returns the document of a domain. It has the root's attributes with the namespaces of the prefixes in it.
func encodeDomain(o *object) *domain.Element {
	root := encodeObject("domain", o)
	var prefixes []string
	root.Walk(func(path, _ string, _ domain.Source) {
		for part := range strings.SplitSeq(path, "/") {
			if prefix, _, has := strings.Cut(part, ":"); has && !slices.Contains(prefixes, prefix) {
				prefixes = append(prefixes, prefix)
			}
		}
	})
	if !slices.Contains(prefixes, qemuPrefix) {
		prefixes = append(prefixes, qemuPrefix) // as in the documents of package domain
	}
	slices.Sort(prefixes)
	for _, prefix := range prefixes {
		root.Attributes = append(root.Attributes, domain.Attribute{Name: "xmlns:" + prefix, Value: "http://libvirt.org/schemas/domain/" + prefix + "/1.0"})
	}
	return root
}

const qemuPrefix = "qemu"

// encodeObject returns the element of an object; nil if it has none.
func encodeObject(name string, o *object) *domain.Element {
	if o.raw != nil {
		return clone(o.raw)
	}
	e := &domain.Element{Name: name}
	if o.typ.variants != nil && !encodeVariant(e, o) {
		return nil
	}
	encodeFields(e, o)
	return e
}

func clone(e *domain.Element) *domain.Element {
	c := *e
	c.Attributes = slices.Clone(e.Attributes)
	c.Children = make([]*domain.Element, len(e.Children))
	for i := range e.Children {
		c.Children[i] = clone(e.Children[i])
	}
	return &c
}

// encodeVariant writes the content that is set, and the attributes that select it. It reports whether there is an element.
func encodeVariant(e *domain.Element, o *object) bool {
	v := o.typ.variants
	chosen, content := contentOf(o)
	if chosen == nil {
		if v.none != "" {
			e.Attributes = append(e.Attributes, domain.Attribute{Name: v.attributes[0], Value: v.none})
		}
		return !v.hidden
	}
	if !chosen.written(o, content) {
		return false
	}
	if v.asField == "" {
		for i, value := range strings.Split(chosen.value, "/") {
			if i < len(v.attributes) {
				e.Attributes = append(e.Attributes, domain.Attribute{Name: v.attributes[i], Value: value})
			}
		}
	}
	encodeFields(e, content)
	return true
}

// contentOf returns the variant that is written, and its content.
func contentOf(o *object) (*variant, *object) {
	v := o.typ.variants
	for i := range v.of {
		each := &v.of[i]
		content, set := o.fields[each.field].(*object)
		if v.asField != "" {
			set = o.get(o.typ.byName[v.asField]) == types.String(each.value)
			if set && content == nil {
				content = newObject(structOf(o.typ.byName[each.field]))
			}
		}
		if set {
			return each, content
		}
	}
	return nil, nil
}

// written reports whether an element is written for a content.
func (v *variant) written(o, content *object) bool {
	if v.absent {
		return false
	}
	set := func(of *object) func(string) bool {
		return func(name string) bool {
			value, has := of.fields[name]
			return has && (!isList(value) || len(items(value)) > 0)
		}
	}
	if v.every {
		return !slices.ContainsFunc(v.needs, func(name string) bool { return !set(content)(name) })
	}
	return len(v.needs) == 0 || slices.ContainsFunc(v.needs, set(content)) || slices.ContainsFunc(v.around, set(o))
}

func isList(v ref.Val) bool { return v.Type() == types.ListType }

// encodeFields writes the fields of an object into an element.
func encodeFields(e *domain.Element, o *object) {
	if rule := o.typ.owner; rule != nil && !rule.asField {
		if source, set := o.fields[rule.field].(*object); set {
			if chosen, _ := contentOf(source); chosen != nil && chosen.value != "" {
				e.Attributes = append(e.Attributes, domain.Attribute{Name: rule.attribute, Value: chosen.value})
			}
		}
	}
	for _, f := range o.typ.fields {
		encodeField(e, o, f)
	}
}

func encodeField(e *domain.Element, o *object, f *fieldType) {
	value, set := o.fields[f.name]
	if !set {
		if f.pointer || f.list || f.omitEmpty && f.kind != kindStruct || f.place == placeVariant || f.place == placeNone {
			return
		}
		value = zero(f)
	}
	switch {
	case f.place == placeVariant || f.place == placeNone:
	case f.list:
		for _, item := range items(value) {
			encodeValue(e, prefixed(e, f), item, f)
		}
	case f.place == placeAttribute:
		e.Attributes = append(e.Attributes, domain.Attribute{Name: f.element, Value: textOf(value, f)})
	case f.place == placeText:
		e.Text = textOf(value, f)
	default:
		encodeValue(e, prefixed(e, f), value, f)
	}
}

// prefixed is the name of a child. Children of elements of another namespace are of that namespace.
func prefixed(parent *domain.Element, f *fieldType) string {
	if prefix, _, has := strings.Cut(parent.Name, ":"); has && !strings.Contains(f.element, ":") {
		return prefix + ":" + f.element
	}
	return f.element
}

func encodeValue(parent *domain.Element, name string, value ref.Val, f *fieldType) {
	child := &domain.Element{Name: name}
	if o, is := value.(*object); is {
		child = encodeObject(name, o)
	} else {
		child.Text = textOf(value, f)
	}
	if child != nil {
		parent.Children = append(parent.Children, child)
	}
}

func textOf(value ref.Val, f *fieldType) string {
	if text, is := value.(types.String); is {
		return string(text)
	}
	return fmt.Sprintf(f.format, value.Value())
}
