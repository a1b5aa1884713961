package ovf

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/net/html/charset"

	"github.com/virtward/virtward/texts"
)

// Limits of a descriptor and of a package.
const (
	MaxBytes       = 4 << 20  // bytes of a descriptor
	MaxElements    = 50_000   // elements of a descriptor
	MaxDepth       = 64       // depth of the elements
	MaxAttributes  = 256      // attributes of one element
	MaxAttribute   = 4 << 10  // bytes of an attribute, other than a value of a property or a setting
	MaxName        = 1 << 10  // bytes of the name of a file
	MaxFiles       = 1000     // files of a package
	MaxDisks       = 64       // disks of a virtual system
	MaxNICs        = 64       // network adapters of a virtual system
	MaxProperties  = 1000     // properties of a virtual system
	MaxEulas       = 100      // licenses of a virtual system
	MaxCPUs        = 1024     // virtual CPUs of a virtual system
	MaxCapacity    = 64 << 40 // bytes of a disk
	MaxMemory      = 64 << 40 // bytes of memory
	maxDescription = 4096     // bytes of a text that goes to the template
	maxAssignments = 1 << 14  // equals signs with a quote in one token
)

// element is an XML element. Names are without namespaces, because writers of descriptors use different ones.
type element struct {
	name     string
	attrs    []xml.Attr
	text     strings.Builder
	children []*element
	parent   *element
	// position is that among the siblings of the same name, from 1.
	position int
	// counts is the number of children of each name.
	counts map[string]int
}

// tree is a document: its root, and the URIs of all namespaces that it declares.
type tree struct {
	root       *element
	namespaces map[string]bool
}

// path names the element: Envelope/DiskSection/Disk[2].
func (e *element) path() string {
	name := e.name
	if e.parent == nil {
		return name
	}
	if e.parent.counts[e.name] > 1 {
		name += "[" + strconv.Itoa(e.position) + "]"
	}
	return e.parent.path() + "/" + name
}

// attr is the value of an attribute without surrounding spaces, of the namespace of OVF or of none before others.
func (e *element) attr(name string) string {
	other := ""
	for _, a := range e.attrs {
		if a.Name.Local != name {
			continue
		}
		if a.Name.Space == "" || strings.Contains(strings.ToLower(a.Name.Space), "/envelope") {
			return strings.TrimSpace(a.Value)
		}
		if other == "" {
			other = strings.TrimSpace(a.Value)
		}
	}
	return other
}

// attrOf is the value of an attribute of a namespace that contains a text.
func (e *element) attrOf(space, name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name && strings.Contains(strings.ToLower(a.Name.Space), space) {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// optional reports whether the descriptor permits to ignore the element. Without the attribute, it is required.
func (e *element) optional() bool {
	value := strings.ToLower(e.attr("required"))
	return value == "false" || value == "0"
}

// child is the first child of one of the names, or nil.
func (e *element) child(names ...string) *element {
	for _, name := range names {
		for _, c := range e.children {
			if c.name == name {
				return c
			}
		}
	}
	return nil
}

// value is the text of the first child of one of the names.
func (e *element) value(names ...string) string {
	if c := e.child(names...); c != nil {
		return c.content()
	}
	return ""
}

// content is the text of the element itself, without surrounding spaces.
func (e *element) content() string { return strings.TrimSpace(e.text.String()) }

// empty reports whether the element has neither children nor text.
func (e *element) empty() bool { return len(e.children) == 0 && e.content() == "" }

// parser builds a tree from tokens.
type parser struct {
	decoder    *xml.Decoder
	source     *source
	tree       tree
	open       []*element
	scopes     []map[string]bool // namespaces that the open elements declare
	elements   int
	firstToken bool
}

// parseXML reads a whole document. The error is a *Rejection.
func parseXML(data []byte) (*tree, error) {
	if len(data) > MaxBytes {
		return nil, &Rejection{LimitExceeded, "", "the descriptor has more than 4 MiB", "remove what is not part of OVF"}
	}
	p := &parser{source: &source{Reader: bytes.NewReader(unicodeText(data))}, firstToken: true}
	p.decoder = xml.NewDecoder(p.source)
	p.tree.namespaces = map[string]bool{}
	p.decoder.CharsetReader = readCharset
	for {
		p.source.assignments = 0
		token, err := p.decoder.Token()
		if errors.Is(err, io.EOF) && len(p.open) == 0 {
			break
		}
		if errors.Is(err, errAssignments) {
			return nil, &Rejection{LimitExceeded, p.at(), "line " + p.line() + ": " + err.Error(), "remove what is not part of OVF"}
		}
		if err != nil {
			return nil, p.invalid(strings.TrimPrefix(err.Error(), "XML syntax error on "))
		}
		if err := p.add(token); err != nil {
			return nil, err
		}
		p.firstToken = false
	}
	if p.tree.root == nil {
		return nil, p.invalid("the file has no element")
	}
	return &p.tree, nil
}

// source counts the attributes of a token while it is read. encoding/xml keeps all attributes of an element before the element can be
// checked: 4 MiB of them need thirty times as much memory.
type source struct {
	io.Reader

	// assignments are the equals signs that a quote follows, since the last token.
	assignments int
	assigns     bool
}

var errAssignments = fmt.Errorf("the descriptor has more than %d attributes in one element or text", maxAssignments)

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	for _, c := range p[:n] {
		switch c {
		case '=':
			s.assigns = true
		case ' ', '\t', '\r', '\n':
		case '"', '\'':
			if s.assigns {
				s.assignments++
			}
			s.assigns = false
		default:
			s.assigns = false
		}
	}
	if s.assignments > maxAssignments {
		return 0, errAssignments
	}
	return n, err
}

// invalid is the rejection of a document that is not well-formed.
func (p *parser) invalid(message string) *Rejection {
	return &Rejection{InvalidXML, p.at(), texts.ShortenCharacters(texts.OneLine(message), 3*maxShown), "repair the XML of the descriptor"}
}

// at is the path of the element that is being read.
func (p *parser) at() string {
	if len(p.open) == 0 {
		return ""
	}
	return p.open[len(p.open)-1].path()
}

func (p *parser) add(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return p.start(t)
	case xml.EndElement:
		p.open, p.scopes = p.open[:len(p.open)-1], p.scopes[:len(p.scopes)-1]
	case xml.CharData:
		if len(p.open) > 0 {
			p.open[len(p.open)-1].text.Write(t)
		} else if len(bytes.TrimSpace(t)) > 0 {
			return p.invalid("line " + p.line() + ": text outside of the root element")
		}
	case xml.Directive:
		return &Rejection{ForbiddenXML, p.at(), "line " + p.line() + ": the document has a DOCTYPE or another declaration", "remove the declaration"}
	case xml.ProcInst:
		if t.Target == "xml" && !p.firstToken {
			return p.invalid("line " + p.line() + ": an XML declaration is only allowed at the beginning")
		}
	}
	return nil
}

func (p *parser) line() string {
	line, _ := p.decoder.InputPos()
	return strconv.Itoa(line)
}

// start adds an element, with the checks of a start tag that encoding/xml does not make.
func (p *parser) start(t xml.StartElement) error {
	p.elements++
	limit := func(what string) error {
		return &Rejection{LimitExceeded, p.at(), "line " + p.line() + ": the descriptor has more than " + what, "remove what is not part of OVF"}
	}
	switch {
	case len(p.open) == 0 && p.tree.root != nil:
		return p.invalid("line " + p.line() + ": a second root element")
	case p.elements > MaxElements:
		return limit("50000 elements")
	case len(p.open) >= MaxDepth:
		return limit("64 levels of elements")
	case len(t.Attr) > MaxAttributes:
		return limit("256 attributes of one element")
	}
	scope := map[string]bool{}
	for _, a := range t.Attr {
		if isNamespace(a) {
			scope[a.Value] = true
			p.tree.namespaces[a.Value] = true
		}
	}
	p.scopes = append(p.scopes, scope)
	e := &element{name: t.Name.Local, position: 1}
	if err := p.attributes(e, t); err != nil {
		return err
	}
	p.attach(e)
	return nil
}

// isNamespace reports whether an attribute declares a namespace.
func isNamespace(a xml.Attr) bool {
	return a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns"
}

// longAttributes can have more than MaxAttribute bytes. Each is read once. Others are compared, or become a part of many texts: work and
// memory would grow with the product of their size and the number of elements.
var longAttributes = []string{"value", "qualifiers"}

// attributes copies the attributes of an element that are no declarations of namespaces. It checks the size of each.
func (p *parser) attributes(e *element, t xml.StartElement) error {
	if !p.declared(t.Name.Space) {
		return p.invalid(fmt.Sprintf("line %s: the prefix %s is not declared", p.line(), t.Name.Space))
	}
	seen := make(map[xml.Name]bool, len(t.Attr))
	for _, a := range t.Attr {
		if seen[a.Name] {
			return p.invalid(fmt.Sprintf("line %s: the element %s has the attribute %s twice", p.line(), t.Name.Local, a.Name.Local))
		}
		seen[a.Name] = true
		namespace := isNamespace(a)
		if len(a.Value) > MaxAttribute && (namespace || !slices.Contains(longAttributes, a.Name.Local)) {
			return &Rejection{
				LimitExceeded, p.at(), fmt.Sprintf("line %s: the attribute %s of the element %s has more than 4 KiB", p.line(), texts.Shorten(a.Name.Local, maxShown), texts.Shorten(t.Name.Local, maxShown)), "shorten it",
			}
		}
		if namespace {
			continue
		}
		if !p.declared(a.Name.Space) {
			return p.invalid(fmt.Sprintf("line %s: the prefix %s is not declared", p.line(), a.Name.Space))
		}
		e.attrs = append(e.attrs, a)
	}
	return nil
}

// xmlNamespace is the namespace of the prefix xml, which no document declares.
const xmlNamespace = "http://www.w3.org/XML/1998/namespace"

func (p *parser) declared(space string) bool {
	if space == "" || space == xmlNamespace {
		return true
	}
	for _, scope := range p.scopes {
		if scope[space] {
			return true
		}
	}
	return false
}

// attach makes an element the last child of the open one, and opens it.
func (p *parser) attach(e *element) {
	if len(p.open) == 0 {
		p.tree.root = e
	} else {
		e.parent = p.open[len(p.open)-1]
		if e.parent.counts == nil {
			e.parent.counts = map[string]int{}
		}
		e.parent.counts[e.name]++
		e.position = e.parent.counts[e.name]
		e.parent.children = append(e.parent.children, e)
	}
	p.open = append(p.open, e)
}

// unicodeText decodes UTF-16, and removes a byte order mark of UTF-8.
func unicodeText(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xef, 0xbb, 0xbf}):
		return data[3:]
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{'<', 0}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}), bytes.HasPrefix(data, []byte{0, '<'}):
		order = binary.BigEndian
	default:
		return data
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 0; i+1 < len(data); i += 2 {
		units = append(units, order.Uint16(data[i:]))
	}
	if len(units) > 0 && units[0] == 0xfeff {
		units = units[1:]
	}
	return []byte(string(utf16.Decode(units)))
}

// readCharset decodes the encoding that a document declares. A document that declares UTF-16 and is read up to its declaration is
// decoded already, or is UTF-8 as that of XenServer.
func readCharset(label string, input io.Reader) (io.Reader, error) {
	label = strings.ToLower(strings.TrimSpace(label))
	if strings.HasPrefix(label, "utf-16") || strings.HasPrefix(label, "utf16") || label == "ucs-2" || strings.HasPrefix(label, "iso-10646") {
		return input, nil
	}
	reader, err := charset.NewReaderLabel(label, input)
	if err != nil {
		return nil, fmt.Errorf("the encoding %q is not known", texts.Shorten(label, maxShown))
	}
	return reader, nil
}
