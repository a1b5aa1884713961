package plugins

import (
	_ "embed"
	"strings"
	"sync"
)

// libvirtxml has one line for each Go type that a domain can contain: its name, and each field as NAME:TYPE:TAG, where TAG is
// the xml tag of the field. Promoted fields of embedded structs are listed as fields. Names are those of libvirtxml v1.12002.
//
//go:embed libvirtxml.txt
var libvirtxml string

// kind is the kind of value that a field, or an item of its list, has.
type kind int

const (
	kindString kind = iota
	kindInt
	kindUint
	kindStruct
)

// place is the part of an element that has the value of a field.
type place int

const (
	// placeChild is an element of its own, placeAttribute an attribute, and placeText the text of the element.
	placeChild place = iota
	placeAttribute
	placeText
	// placeVariant is the content of the element itself, as the table of variants says.
	placeVariant
	// placeNone is not in the document.
	placeNone
)

// structType is a Go type of libvirtxml.
type structType struct {
	name   string
	fields []*fieldType
	byName map[string]*fieldType
	// variants is set for a type whose element has one of several contents, and owner for one whose field Source does.
	variants *variants
	owner    *owner
	// unsupported is why the type cannot be previewed; empty if it can.
	unsupported string
}

// fieldType is a field of a Go type.
type fieldType struct {
	name string
	kind kind
	// structName is the name of a kindStruct, without its package.
	structName string
	list       bool
	pointer    bool
	// element is the name of the attribute or of the element.
	element   string
	place     place
	omitEmpty bool
	// format is how a number is written: %d, or that of the table of formats.
	format string
	// unsupported is why the field cannot be previewed; empty if it can.
	unsupported string
}

// xmlName is the Go type of the names of elements. It is the only one of another package.
const xmlName = "xml.Name"

// schema has the types by their names.
var schema = sync.OnceValue(func() map[string]*structType {
	types := map[string]*structType{xmlName: newStructType(xmlName, []string{"Space:string:-", "Local:string:-"})}
	for line := range strings.Lines(libvirtxml) {
		parts := strings.Fields(line)
		types[parts[0]] = newStructType(parts[0], parts[1:])
	}
	for name, owned := range owners {
		types[name].owner = &owned
	}
	for name, v := range variantTypes {
		types[name].variants = &v
		for i := range v.of {
			types[name].byName[v.of[i].field].place = placeVariant
		}
	}
	for name, reason := range unsupportedTypes {
		types[name].unsupported = reason
	}
	for path, element := range renamed {
		f := fieldAt(types, path)
		f.element = element.name
		f.place = element.place
	}
	for path, format := range formats {
		fieldAt(types, path).format = format
	}
	for _, path := range omitted {
		fieldAt(types, path).omitEmpty = true
	}
	for _, path := range kept {
		fieldAt(types, path).omitEmpty = false
	}
	for path, reason := range unsupportedFields {
		fieldAt(types, path).unsupported = reason
	}
	return types
})

// fieldAt returns the field of a path TYPE.FIELD of the tables in shapes.go.
func fieldAt(types map[string]*structType, path string) *fieldType {
	name, field, _ := strings.Cut(path, ".")
	return types[name].byName[field]
}

func newStructType(name string, fields []string) *structType {
	t := &structType{name: name, byName: map[string]*fieldType{}}
	for _, text := range fields {
		parts := strings.SplitN(text, ":", 3)
		f := newFieldType(parts[0], parts[1], parts[2])
		t.fields = append(t.fields, f)
		t.byName[f.name] = f
	}
	return t
}

func newFieldType(name, goType, tag string) *fieldType {
	f := &fieldType{name: name, format: "%d"}
	if rest, is := strings.CutPrefix(goType, "[]"); is {
		f.list, goType = true, rest
	}
	if rest, is := strings.CutPrefix(goType, "*"); is {
		f.pointer, goType = true, rest
	}
	switch goType {
	case "string":
		f.kind = kindString
	case "int", "int64":
		f.kind = kindInt
	case "uint", "uint64":
		f.kind = kindUint
	default:
		f.kind, f.structName = kindStruct, goType
	}
	f.setTag(tag)
	if goType == xmlName {
		f.place, f.unsupported = placeNone, "names of elements"
	}
	return f
}

// setTag reads an xml tag: name, options. The tag of a field without one is empty, and that of one that is not encoded is -.
func (f *fieldType) setTag(tag string) {
	element, options, _ := strings.Cut(tag, ",")
	f.element = element
	if element == "" {
		f.element = f.name
	}
	if element == "-" {
		f.place = placeVariant
		if f.kind != kindStruct {
			f.place = placeNone
		}
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "attr":
			f.place = placeAttribute
		case "chardata", "cdata", "innerxml":
			f.place = placeText
		case "omitempty":
			f.omitEmpty = true
		}
	}
}

// structOf returns the type of a field that is a struct.
func structOf(f *fieldType) *structType { return schema()[f.structName] }
