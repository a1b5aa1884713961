package templates

import (
	"strconv"
	"strings"

	"github.com/virtward/virtward/texts"
)

// step is one step of a path: a field, a key or an index.
type step struct {
	name  string
	index int
	kind  stepKind
}

type stepKind int

const (
	fieldStep stepKind = iota
	keyStep
	indexStep
)

// at is the path of what is written, in the template.
func (r *renderer) at() string { return pathOf(r.path) }

// pathOf is a path in the VirtualMachine of a template.
func pathOf(path []step) string { return pathIn(virtualMachineAt, path) }

// pathIn is a path in an object as text. Users choose the names and the depth, so both are bounded.
func pathIn(root string, path []step) string {
	var b strings.Builder
	b.WriteString(root)
	for _, s := range path {
		name := texts.Shorten(s.name, maxPathName)
		if b.Len()+len(name) > maxPath {
			b.WriteString("…")
			break
		}
		switch s.kind {
		case fieldStep:
			b.WriteString("." + name)
		case keyStep:
			b.WriteString("[" + name + "]")
		case indexStep:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return b.String()
}
