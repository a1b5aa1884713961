package templates

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// foreignText keeps text of an OpenShift Template that only looks like a reference, such as ${HOME} in a script: OpenShift
// leaves references to other names than those of its parameters as they are.
type foreignText struct {
	// known are the names of the Template's parameters, and dollar is the parameter for the dollar sign.
	known  map[string]bool
	dollar string
	// at is where the VirtualMachine is in the Template, and notes name the fields whose text was escaped.
	at    string
	notes []string
}

func newForeignText(parameters []v1beta1.Parameter, at string) *foreignText {
	f := &foreignText{known: map[string]bool{}, dollar: DollarParameter, at: at}
	for i := range parameters {
		f.known[parameters[i].Name] = true
	}
	for n := 2; f.known[f.dollar]; n++ {
		f.dollar = DollarParameter + "_" + strconv.Itoa(n)
	}
	return f
}

// keep escapes the references of a text to unknown parameters.
func (f *foreignText) keep(at, text string) string {
	var unknown []string
	kept := escape(text, f.dollar, func(name string) bool {
		if !f.known[name] {
			unknown = append(unknown, "${"+name+"}")
		}
		return !f.known[name]
	})
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	shown := texts.Shorten(strings.Join(unknown, ", "), 10*maxShown)
	switch len(unknown) {
	case 0:
	case 1:
		f.notes = append(f.notes, at+": "+shown+" is kept as text: the Template has no such parameter")
	default:
		f.notes = append(f.notes, at+": "+shown+" are kept as text: the Template has no such parameters")
	}
	return kept
}

// keepIn escapes the text of a value with the shape of a field. A name in Kubernetes has no dollar sign, and a number is no
// text: there, a reference to an unknown parameter stays, and is an error.
func (f *foreignText) keepIn(node any, s *shape, path []step) any {
	if s == nil || len(path) > maxDepth {
		return node
	}
	switch n := node.(type) {
	case map[string]any:
		return f.keepInObject(n, s, path)
	case []any:
		for i := range n {
			n[i] = f.keepIn(n[i], elementOf(s), append(path, step{index: i, kind: indexStep}))
		}
	case string:
		if s.takesText() && s.kind != itself && !isName(path) {
			return f.keep(pathIn(f.at, path), n)
		}
	}
	return node
}

func (f *foreignText) keepInObject(members map[string]any, s *shape, path []step) any {
	if s.kind == object {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			members[name] = f.keepIn(members[name], s.fields[name], append(path, step{name: name}))
		}
		return members
	}
	kept := make(map[string]any, len(members))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		kept[f.keep(pathIn(f.at, append(path, step{name: key, kind: keyStep})), key)] = f.keepIn(members[key], elementOf(s), append(path, step{name: key, kind: keyStep}))
	}
	return kept
}

// elementOf is the shape of the elements of a list or a map.
func elementOf(s *shape) *shape {
	if s.kind == anything {
		return s
	}
	return s.element
}

// isName reports whether a field has the name of an object.
func isName(path []step) bool {
	if len(path) == 0 || path[len(path)-1].kind != fieldStep {
		return false
	}
	field := path[len(path)-1].name
	return field == "name" || field == "generateName" || field == "namespace" || strings.HasSuffix(field, "Name")
}
