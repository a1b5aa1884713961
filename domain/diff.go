package domain

import (
	"slices"
	"strconv"
)

// Difference is a difference between two documents.
type Difference struct {
	// Path is that of an element, an attribute or a text: devices/disk[0]/driver@cache.
	Path string
	// Before and After are the values. Empty says that one of the documents does not have it, or that it has no text.
	Before, After string
	// BeforeSource and AfterSource are the sources of the values.
	BeforeSource, AfterSource Source
}

// present is the value of an element without text and attributes.
const present = "present"

// Diff returns the differences between the canonical forms of two documents. Elements of one kind are compared in their order,
// and devices with the same alias with each other.
func Diff(before, after *Element) []Difference {
	d := &differ{}
	d.elements("", before.Canonical(), after.Canonical(), Source{}, Source{})
	return d.found
}

type differ struct{ found []Difference }

func (d *differ) elements(path string, before, after *Element, beforeSource, afterSource Source) {
	beforeSource, afterSource = inherited(before.Source, beforeSource), inherited(after.Source, afterSource)
	if before.Text != after.Text {
		d.found = append(d.found, Difference{path, before.Text, after.Text, beforeSource, afterSource})
	}
	names := map[string]bool{}
	for _, a := range slices.Concat(before.Attributes, after.Attributes) {
		if names[a.Name] {
			continue
		}
		names[a.Name] = true
		x, had := before.attribute(a.Name)
		y, has := after.attribute(a.Name)
		if x.Value != y.Value || had != has {
			d.found = append(d.found, Difference{path + "@" + a.Name, shown(x.Value, had), shown(y.Value, has), inherited(x.Source, beforeSource), inherited(y.Source, afterSource)})
		}
	}
	d.children(path, before, after, beforeSource, afterSource)
}

func inherited(own, parent Source) Source {
	if own == (Source{}) {
		return parent
	}
	return own
}

// shown is a value, or that it is there though it is empty.
func shown(value string, there bool) string {
	if there && value == "" {
		return present
	}
	return value
}

func (e *Element) attribute(name string) (Attribute, bool) {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return e.Attributes[i], true
		}
	}
	return Attribute{}, false
}

// children compares children by their names.
func (d *differ) children(path string, before, after *Element, beforeSource, afterSource Source) {
	names := map[string]bool{}
	for _, child := range slices.Concat(before.Children, after.Children) {
		if names[child.Name] {
			continue
		}
		names[child.Name] = true
		for i, pair := range pairs(before.named(child.Name), after.named(child.Name)) {
			at := join(path, child.Name)
			if pair.several {
				at += "[" + strconv.Itoa(i) + "]"
			}
			switch {
			case pair.before == nil:
				d.whole(at, pair.after, afterSource, false)
			case pair.after == nil:
				d.whole(at, pair.before, beforeSource, true)
			default:
				d.elements(at, pair.before, pair.after, beforeSource, afterSource)
			}
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

func (e *Element) named(name string) (found []*Element) {
	for _, c := range e.Children {
		if c.Name == name {
			found = append(found, c)
		}
	}
	return found
}

// pair are two elements that are compared; one of them is nil if there is no other.
type pair struct {
	before, after *Element
	several       bool
}

// pairs returns elements with the same alias, and the others in their order.
func pairs(before, after []*Element) []pair {
	several := len(before) > 1 || len(after) > 1
	byAlias := map[string][]*Element{}
	for _, e := range after {
		if alias := e.Child("alias"); alias != nil {
			name := alias.Attribute("name")
			byAlias[name] = append(byAlias[name], e)
		}
	}
	taken := map[*Element]bool{}
	list := make([]pair, 0, max(len(before), len(after)))
	for _, e := range before {
		p := pair{before: e, several: several}
		if alias := e.Child("alias"); alias != nil {
			if same := byAlias[alias.Attribute("name")]; len(same) > 0 {
				p.after, byAlias[alias.Attribute("name")] = same[0], same[1:]
				taken[p.after] = true
			}
		}
		list = append(list, p)
	}
	rest := slices.DeleteFunc(slices.Clone(after), func(e *Element) bool { return taken[e] })
	for i := range list {
		if list[i].after == nil && len(rest) > 0 {
			list[i].after, rest = rest[0], rest[1:]
		}
	}
	for _, e := range rest {
		list = append(list, pair{after: e, several: several})
	}
	return list
}

// whole lists everything of an element that only one document has.
func (d *differ) whole(path string, e *Element, source Source, before bool) {
	source = inherited(e.Source, source)
	add := func(path, value string, source Source) {
		found := Difference{Path: path}
		if before {
			found.Before, found.BeforeSource = value, source
		} else {
			found.After, found.AfterSource = value, source
		}
		d.found = append(d.found, found)
	}
	if e.Text != "" || len(e.Attributes)+len(e.Children) == 0 {
		add(path, shown(e.Text, true), source)
	}
	for i := range e.Attributes {
		add(path+"@"+e.Attributes[i].Name, shown(e.Attributes[i].Value, true), inherited(e.Attributes[i].Source, source))
	}
	for i, child := range e.Children {
		at := join(path, child.Name)
		if list := e.named(child.Name); len(list) > 1 {
			at += "[" + strconv.Itoa(slices.Index(list, e.Children[i])) + "]"
		}
		d.whole(at, child, source, before)
	}
}

// Carry gives a document the sources of the one it was made from. What differs has the source of the change. Elements of one
// kind are compared as Diff does.
func Carry(before, after *Element, change Source) {
	carry(before, after, before.Source, change)
}

// carry sets the source of an element that both documents have, and of what it contains.
func carry(before, after *Element, source, change Source) {
	after.Source = source
	if before.Text != after.Text {
		after.Source = change
	}
	for i := range after.Attributes {
		a := &after.Attributes[i]
		a.Source = change
		if old, had := before.attribute(a.Name); had && old.Value == a.Value {
			a.Source = inherited(old.Source, source)
		}
	}
	names := map[string]bool{}
	for _, child := range after.Children {
		if names[child.Name] {
			continue
		}
		names[child.Name] = true
		for _, pair := range pairs(before.named(child.Name), after.named(child.Name)) {
			switch {
			case pair.after == nil:
			case pair.before == nil:
				pair.after.made(change)
			default:
				carry(pair.before, pair.after, inherited(pair.before.Source, source), change)
			}
		}
	}
}

// made sets the source of a new element and of what it contains.
func (e *Element) made(change Source) {
	e.Source = change
	for i := range e.Attributes {
		e.Attributes[i].Source = change
	}
	for _, child := range e.Children {
		child.made(change)
	}
}
