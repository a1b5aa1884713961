package nodelabels

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/domain"
)

// MaxDocument bounds a document of libvirt, in bytes. The capabilities of a host with 1024 CPUs have 300 KiB.
const MaxDocument = 1 << 20

// The root elements of libvirt's documents.
const (
	rootDomain   = "domainCapabilities"
	rootHost     = "capabilities"
	rootBaseline = "cpu"
)

const yes = "yes"

// Document is a document of libvirt.
type Document struct{ root *domain.Element }

// ParseDocument parses a document of at most MaxDocument bytes. It returns an error for other documents than libvirt's domain
// capabilities, capabilities and baselines of a CPU.
func ParseDocument(text []byte) (*Document, error) {
	if len(text) > MaxDocument {
		return nil, fmt.Errorf("the document has %d bytes, more than %d", len(text), MaxDocument)
	}
	root, err := domain.ParseElement(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{rootDomain, rootHost, rootBaseline}, root.Name) {
		return nil, fmt.Errorf("the element <%s> is none of libvirt's <%s>, <%s> and <%s>", root.Name, rootDomain, rootHost, rootBaseline)
	}
	return &Document{root: root}, nil
}

// find returns the first element of a path below the root, or an empty element.
func (d *Document) find(path ...string) *domain.Element {
	e := &domain.Element{}
	if d != nil {
		e = d.root
	}
	for _, name := range path {
		if e = e.Child(name); e == nil {
			return &domain.Element{}
		}
	}
	return e
}

// text returns the text of an element.
func (d *Document) text(path ...string) string { return d.find(path...).Text }

// supported reports whether libvirt says of an element that it is supported.
func (d *Document) supported(path ...string) bool {
	return d.find(path...).Attribute("supported") == yes
}

// values are those of an enumeration of an element.
func (d *Document) values(enumeration string, path ...string) []string {
	var values []string
	for _, e := range d.find(path...).Children {
		if e.Name != "enum" || e.Attribute("name") != enumeration {
			continue
		}
		for _, value := range e.Children {
			values = append(values, value.Text)
		}
	}
	return values
}

// number returns the text of an element as a number; zero if there is none.
func (d *Document) number(path ...string) (uint64, error) {
	text := d.text(path...)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no number", strings.Join(path, "/"), text)
	}
	return n, nil
}

// all returns the elements of a path, of which every element can occur several times.
func all(root *domain.Element, path ...string) []*domain.Element {
	found := []*domain.Element{root}
	for _, name := range path {
		var next []*domain.Element
		for _, e := range found {
			for _, child := range e.Children {
				if child.Name == name {
					next = append(next, child)
				}
			}
		}
		found = next
	}
	return found
}

// mode returns a CPU mode of domain capabilities, or nil.
func (d *Document) mode(name string) *domain.Element {
	for _, e := range d.find("cpu").Children {
		if e.Name == "mode" && e.Attribute("name") == name {
			return e
		}
	}
	return nil
}

// Documents are libvirt's documents about a node.
type Documents struct {
	// Domain has the capabilities of domains of the node's hypervisor, and Host those of the node. Baseline is the CPU that libvirt
	// computes from Domain. A nil document is missing.
	Domain, Host, Baseline *Document
	// Foreign are the capabilities of domains of other architectures, by libvirt's name of the architecture.
	Foreign map[string]*Document
}

// architectureNames are libvirt's names of architectures.
var architectureNames = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "s390x": "s390x"}

// Add adds a document of one of the kinds. Domain capabilities of another architecture than the first ones are foreign ones.
func (d *Documents) Add(document *Document) error {
	var at **Document
	switch document.root.Name {
	case rootHost:
		at = &d.Host
	case rootBaseline:
		at = &d.Baseline
	default:
		if own := d.Domain; own != nil && own.text("arch") != document.text("arch") {
			if d.Foreign == nil {
				d.Foreign = map[string]*Document{}
			}
			if d.Foreign[document.text("arch")] != nil {
				return fmt.Errorf("two documents have the domain capabilities of %s", document.text("arch"))
			}
			d.Foreign[document.text("arch")] = document
			return nil
		}
		at = &d.Domain
	}
	if *at != nil {
		return fmt.Errorf("two documents have the element <%s>", document.root.Name)
	}
	*at = document
	return nil
}

// DomainType is libvirt's type of the domains, such as kvm; empty if it is not known.
func (d *Documents) DomainType() string { return d.Domain.text("domain") }

// Architecture returns Kubernetes' name of the architecture of the domain capabilities, or of the capabilities of the host.
func (d *Documents) Architecture() (string, error) {
	name := d.Domain.text("arch")
	if name == "" {
		name = d.Host.text("host", "cpu", "arch")
	}
	if name == "" {
		return "", errors.New("no document names the architecture: add domain capabilities with the element <arch>")
	}
	architecture, known := architectureNames[name]
	if !known {
		return "", fmt.Errorf("the architecture %s is none on which KubeVirt runs virtual machines", name)
	}
	return architecture, nil
}
