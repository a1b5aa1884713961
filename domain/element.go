package domain

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Element is an element of a document.
type Element struct {
	Name       string
	Attributes []Attribute
	// Text is the content of an element without children.
	Text     string
	Children []*Element
	// Source is what the element was made from; empty for that of its parent.
	Source Source
}

// Attribute is an attribute of an element.
type Attribute struct {
	Name, Value string
	Source      Source
}

// Attribute returns the value of an attribute; empty if there is none.
func (e *Element) Attribute(name string) string {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return e.Attributes[i].Value
		}
	}
	return ""
}

// Child returns the first child of a name, or nil.
func (e *Element) Child(name string) *Element {
	for _, c := range e.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// qemuNamespace is the namespace of arguments for QEMU.
const qemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0"

// Element returns the document of a domain, in canonical order, as virt-launcher passes it to libvirt.
func (d *Domain) Element() *Element {
	root := encode("domain", reflect.ValueOf(d).Elem())
	root.Attributes = append(root.Attributes, Attribute{Name: "xmlns:qemu", Value: qemuNamespace})
	return root
}

// tag is how a field is written: `xml:"name,attr"`. An empty field is left out, unless the tag has keep.
type tag struct {
	path             []string
	attr, text, keep bool
}

func tagOf(field *reflect.StructField) tag {
	name, options, _ := strings.Cut(field.Tag.Get("xml"), ",")
	t := tag{path: strings.Split(name, ">")}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "attr":
			t.attr = true
		case "chardata":
			t.text = true
		case "keep":
			t.keep = true
		}
	}
	return t
}

// encode returns the element of a struct.
func encode(name string, v reflect.Value) *Element {
	e := &Element{Name: name}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		t, value := tagOf(&field), v.Field(i)
		switch {
		case t.attr || t.text:
			e.scalar(&t, value)
		case value.Kind() == reflect.Slice:
			e.list(&t, value)
		case value.Kind() == reflect.Struct:
			e.Children = append(e.Children, encode(t.path[0], value))
		case value.Kind() == reflect.Pointer && value.IsNil(), value.Kind() != reflect.Pointer && value.IsZero():
		case value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct:
			e.Children = append(e.Children, encode(t.path[0], value.Elem()))
		default:
			e.Children = append(e.Children, &Element{Name: t.path[0], Text: textOf(value)})
		}
	}
	return e
}

// scalar adds an attribute, or the text.
func (e *Element) scalar(t *tag, value reflect.Value) {
	if value.IsZero() && !t.keep {
		return
	}
	if t.text {
		e.Text = textOf(value)
		return
	}
	e.Attributes = append(e.Attributes, Attribute{Name: t.path[0], Value: textOf(value)})
}

// list adds an element for each item, in an element of its own if the tag has two names.
func (e *Element) list(t *tag, items reflect.Value) {
	if len(t.path) > 1 && items.Len() > 0 {
		within := &Element{Name: t.path[0]}
		e.Children = append(e.Children, within)
		e = within
	}
	name := t.path[len(t.path)-1]
	for i := range items.Len() {
		e.Children = append(e.Children, encode(name, items.Index(i)))
	}
}

// textOf returns the text of a string or a number.
func textOf(value reflect.Value) string {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(value.Uint(), 10)
	case reflect.Int64:
		return strconv.FormatInt(value.Int(), 10)
	default:
		return value.String()
	}
}

// XML writes an element and what it contains.
func (e *Element) XML(w io.Writer) error {
	var text strings.Builder
	e.write(&text, "")
	_, err := io.WriteString(w, text.String())
	return err
}

func (e *Element) write(w *strings.Builder, indent string) {
	w.WriteString(indent + "<" + e.Name)
	for i := range e.Attributes {
		w.WriteString(" " + e.Attributes[i].Name + `="`)
		escape(w, e.Attributes[i].Value)
		w.WriteString(`"`)
	}
	switch {
	case len(e.Children) > 0:
		w.WriteString(">\n")
		for _, c := range e.Children {
			c.write(w, indent+"  ")
		}
		w.WriteString(indent + "</" + e.Name + ">\n")
	case e.Text != "":
		w.WriteString(">")
		escape(w, e.Text)
		w.WriteString("</" + e.Name + ">\n")
	default:
		w.WriteString("/>\n")
	}
}

// escape writes text. Characters that XML does not have are replaced, and those that cannot be printed are references, because
// terminals interpret some of them.
func escape(w *strings.Builder, text string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a strings.Builder returns no error
	for _, r := range escaped.String() {
		if unicode.IsPrint(r) {
			w.WriteRune(r)
		} else {
			fmt.Fprintf(w, "&#x%X;", r)
		}
	}
}

// The bounds of a document that is read. A domain of KubeVirt has a depth of 8.
const (
	maxDepth    = 32
	maxElements = 100_000
)

// ParseElement reads a document, such as that of a running domain. White space around text is dropped.
func ParseElement(r io.Reader) (*Element, error) {
	decoder := xml.NewDecoder(r)
	// The text of an element comes in as many parts as there are comments in it.
	type open struct {
		*Element
		text []byte
	}
	var stack []open
	count := 0
	for {
		token, err := decoder.Token()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil, errors.New("the document has no element")
			}
			return nil, fmt.Errorf("not an XML document: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if count++; count > maxElements || len(stack) >= maxDepth {
				return nil, fmt.Errorf("the document has more than %d elements, or a depth of more than %d", maxElements, maxDepth)
			}
			e := &Element{Name: qualified(t.Name)}
			for _, a := range t.Attr {
				e.Attributes = append(e.Attributes, Attribute{Name: qualified(a.Name), Value: a.Value})
			}
			if len(stack) > 0 {
				parent := stack[len(stack)-1]
				parent.Children = append(parent.Children, e)
			}
			stack = append(stack, open{Element: e})
		case xml.CharData:
			if len(stack) > 0 && len(stack[len(stack)-1].Children) == 0 {
				stack[len(stack)-1].text = append(stack[len(stack)-1].text, t...)
			}
		case xml.EndElement:
			e := stack[len(stack)-1]
			if len(e.Children) == 0 {
				e.Text = strings.TrimSpace(string(e.text))
			}
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return e.Element, nil
			}
		}
	}
}

// qualified is a name with the prefix that Domain uses.
func qualified(name xml.Name) string {
	switch name.Space {
	case qemuNamespace, "qemu":
		return "qemu:" + name.Local
	case "xmlns":
		return "xmlns:" + name.Local
	}
	return name.Local
}

// Canonical returns a document in the form in which two are compared: sorted attributes, and children sorted by their names.
// Children of one name keep their order. Left out are metadata, and elements that are empty where libvirt writes none.
func (e *Element) Canonical() *Element {
	c := &Element{Name: e.Name, Text: e.Text, Source: e.Source}
	for _, a := range e.Attributes {
		if !strings.HasPrefix(a.Name, "xmlns") {
			c.Attributes = append(c.Attributes, a)
		}
	}
	slices.SortStableFunc(c.Attributes, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	for _, child := range e.Children {
		if !child.withoutMeaning() {
			c.Children = append(c.Children, child.Canonical())
		}
	}
	slices.SortStableFunc(c.Children, func(a, b *Element) int { return strings.Compare(a.Name, b.Name) })
	return c
}

func (e *Element) withoutMeaning() bool {
	switch e.Name {
	case "metadata":
		return true
	case "source", "bios", "baseBoard", "chassis":
		return len(e.Attributes) == 0 && len(e.Children) == 0 && e.Text == ""
	}
	return false
}
