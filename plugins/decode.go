package plugins

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/virtward/virtward/domain"
)

// decoder makes values of libvirtxml's types of a document.
type decoder struct {
	// lost are the paths of what the types do not have.
	lost []string
}

// decodeDomain returns the domain of a document, and the paths of attributes and elements that libvirtxml drops. An error says
// that virt-launcher could not read the document, and would not start the instance.
func decodeDomain(document *domain.Element) (*object, []string, error) {
	if document.Name != "domain" {
		return nil, nil, fmt.Errorf("the document is a %s, not a domain", document.Name)
	}
	d := &decoder{}
	o, err := d.element(schema()["Domain"], document, "", nil)
	if err != nil {
		return nil, nil, err
	}
	return o, d.lost, nil
}

// target is an object that takes its fields from an element. An element has several if its content is a variant.
type target struct {
	typ *structType
	o   *object
}

// element decodes an element. The object is made already if its owner has selected its variant.
func (d *decoder) element(t *structType, e *domain.Element, path string, o *object) (*object, error) {
	if o == nil {
		o = newObject(t)
	}
	if t.unsupported != "" {
		o.raw = e
		return o, nil
	}
	targets, selectors, err := d.targets(t, e, o, path)
	if err != nil || o.raw != nil {
		return o, err
	}
	for i := range e.Attributes {
		if err := d.attribute(targets, selectors, &e.Attributes[i], path); err != nil {
			return nil, err
		}
	}
	if e.Text != "" {
		if err := d.text(targets, e, path); err != nil {
			return nil, err
		}
	}
	counts := map[string]int{}
	for _, child := range e.Children {
		at := fmt.Sprintf("%s[%d]", joined(path, child.Name), counts[child.Name])
		counts[child.Name]++
		if err := d.child(targets, child, at); err != nil {
			return nil, err
		}
	}
	if t.name == deviceListType {
		if list := items(o.get(t.byName[iommuList])); len(list) > 0 {
			o.fields[oneIOMMU] = list[0]
		}
	}
	for i := range targets {
		if f := targets[i].typ.byName["XMLName"]; f != nil {
			name := newObject(schema()[xmlName])
			name.set(name.typ.byName["Local"], types.String(e.Name[strings.LastIndex(e.Name, ":")+1:]))
			targets[i].o.set(f, name)
		}
	}
	return o, nil
}

func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// targets returns the objects that an element has the fields of, and the attributes that select variants.
func (d *decoder) targets(t *structType, e *domain.Element, o *object, path string) (targets []target, selectors []string, err error) {
	if v := t.variants; v != nil {
		if len(v.attributes) > 0 {
			if err := selectVariant(t, e, o, path); err != nil {
				return nil, nil, err
			}
			if v.asField == "" {
				selectors = v.attributes
			}
		}
		if len(v.attributes) == 0 && v.strict && len(o.fields) == 0 {
			return nil, nil, fmt.Errorf("%s: libvirtxml cannot read the element, because it does not know its type", path)
		}
		for i := range v.of {
			if content, is := o.fields[v.of[i].field].(*object); is {
				if content.typ.unsupported != "" {
					o.raw = e
					return nil, nil, nil
				}
				targets = append(targets, target{content.typ, content})
			}
		}
	}
	for _, each := range slices.Concat(targets, []target{{t, o}}) {
		if each.typ.owner == nil {
			continue
		}
		if err := selectSource(each, e, path); err != nil {
			return nil, nil, err
		}
		if !each.typ.owner.asField {
			selectors = append(selectors, each.typ.owner.attribute)
		}
	}
	return append(targets, target{t, o}), selectors, nil
}

// selectVariant sets the variant that the attributes of an element name.
func selectVariant(t *structType, e *domain.Element, o *object, path string) error {
	var values []string
	for _, name := range t.variants.attributes {
		value, has := attribute(e, name)
		if !has && t.variants.required {
			return fmt.Errorf("%s: libvirtxml requires the attribute %s", path, name)
		}
		if !has {
			value = t.variants.fallback
		}
		values = append(values, value)
	}
	value := strings.Join(values, "/")
	if !setVariant(t, o, value) && t.variants.strict && value != t.variants.none {
		return fmt.Errorf("%s: libvirtxml cannot read the %s %q", path, strings.Join(t.variants.attributes, "/"), value)
	}
	return nil
}

// setVariant makes the content of a value. It reports whether the value is known.
func setVariant(t *structType, o *object, value string) bool {
	for i := range t.variants.of {
		if v := &t.variants.of[i]; v.value == value {
			f := t.byName[v.field]
			o.fields[f.name] = newObject(structOf(f))
			return true
		}
	}
	return false
}

// selectSource makes the source of which the attribute of its owner selects the content.
func selectSource(owned target, e *domain.Element, path string) error {
	rule := owned.typ.owner
	value, has := attribute(e, rule.attribute)
	if !has && rule.required {
		return fmt.Errorf("%s: libvirtxml requires the attribute %s", path, rule.attribute)
	}
	if !has {
		if value = rule.fallback; value == "" && owned.typ.name != "DomainInterfaceVirtualPort" {
			return nil
		}
	}
	f := owned.typ.byName[rule.field]
	source := newObject(structOf(f))
	setVariant(source.typ, source, value)
	if len(source.fields) == 0 && structOf(f).name == "DomainChardevSource" {
		return nil
	}
	owned.o.fields[f.name] = source
	return nil
}

func attribute(e *domain.Element, name string) (string, bool) {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return e.Attributes[i].Value, true
		}
	}
	return "", false
}

func (d *decoder) attribute(targets []target, selectors []string, a *domain.Attribute, path string) error {
	if slices.Contains(selectors, a.Name) || strings.HasPrefix(a.Name, "xmlns") {
		return nil
	}
	for _, t := range targets {
		for _, f := range t.typ.fields {
			if f.place == placeAttribute && f.element == a.Name {
				return setText(t.o, f, a.Value, path+"@"+a.Name)
			}
		}
	}
	d.lost = append(d.lost, path+"@"+a.Name)
	return nil
}

func (d *decoder) text(targets []target, e *domain.Element, path string) error {
	for _, t := range targets {
		for _, f := range t.typ.fields {
			if f.place == placeText {
				return setText(t.o, f, e.Text, path)
			}
		}
	}
	d.lost = append(d.lost, path)
	return nil
}

func (d *decoder) child(targets []target, e *domain.Element, path string) error {
	for _, t := range targets {
		for _, f := range t.typ.fields {
			if f.place != placeChild || f.element != unprefixed(e.Name, f.element) {
				continue
			}
			return d.fieldOf(t.o, f, e, path)
		}
	}
	d.lost = append(d.lost, path)
	return nil
}

// unprefixed is the name of an element without the prefix of its namespace, unless the field has one.
func unprefixed(name, field string) string {
	if strings.Contains(field, ":") {
		return name
	}
	return name[strings.LastIndex(name, ":")+1:]
}

// fieldOf decodes a child into a field.
func (d *decoder) fieldOf(o *object, f *fieldType, e *domain.Element, path string) error {
	if f.kind != kindStruct && !f.list {
		return setText(o, f, e.Text, path)
	}
	if f.kind != kindStruct {
		o.fields[f.name] = listOf(append(items(o.get(f)), types.String(e.Text)))
		return nil
	}
	made, _ := o.fields[f.name].(*object)
	if f.list {
		made = nil
	}
	value, err := d.element(structOf(f), e, path, made)
	if err != nil {
		return err
	}
	if f.list {
		o.fields[f.name] = listOf(append(items(o.get(f)), value))
	} else {
		o.set(f, value)
	}
	return nil
}

// setText sets a field from a text.
func setText(o *object, f *fieldType, text, path string) error {
	v, err := scalarOf(f, text)
	if err != nil {
		return fmt.Errorf("%s: libvirtxml requires a number, and not %q", path, text)
	}
	o.set(f, v)
	return nil
}

func scalarOf(f *fieldType, text string) (ref.Val, error) {
	base := 10
	if f.format != "%d" {
		base = 0
	}
	switch f.kind {
	case kindInt:
		n, err := strconv.ParseInt(strings.TrimSpace(text), base, 64)
		return types.Int(n), err
	case kindUint:
		n, err := strconv.ParseUint(strings.TrimSpace(text), base, 64)
		return types.Uint(n), err
	default:
		return types.String(text), nil
	}
}
