package templates

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// references walks a tree and notes what it refers to.
type references struct {
	// numbers are the parameters that a value of a field is with ${{NAME}}. decoded are those with ${{NAME}} in any place,
	// and asText those with ${NAME}.
	numbers, decoded, asText map[string]bool
	// declared are the names of the template's parameters, used those that it refers to.
	declared, used map[string]bool
	// undefined are the references to others.
	undefined map[use]bool
	path      []step
	// inOrder makes walk visit the members of objects in the order of their names.
	inOrder bool
}

func newReferences(parameters []v1beta1.Parameter) *references {
	w := &references{numbers: map[string]bool{}, decoded: map[string]bool{}, asText: map[string]bool{}, declared: make(map[string]bool, len(parameters)), used: map[string]bool{}, undefined: map[use]bool{}}
	for i := range parameters {
		w.declared[parameters[i].Name] = true
	}
	return w
}

// use is a reference to a parameter, and where it is.
type use struct{ name, at string }

// walkAll walks a whole tree. If it refers to too many parameters that do not exist, the first ones in the order of names are
// noted, so that the same template has the same findings.
func (w *references) walkAll(tree any) {
	if w.walk(tree); len(w.undefined) >= maxFindings {
		w.inOrder = true
		clear(w.undefined)
		w.walk(tree)
	}
}

func (w *references) walk(node any) {
	if len(w.path) > maxDepth {
		return
	}
	switch n := node.(type) {
	case map[string]any:
		if w.inOrder {
			for _, key := range slices.Sorted(maps.Keys(n)) {
				w.member(key, n[key])
			}
			return
		}
		for key, child := range n {
			w.member(key, child)
		}
	case []any:
		for i, child := range n {
			w.path = append(w.path, step{index: i, kind: indexStep})
			w.walk(child)
			w.path = w.path[:len(w.path)-1]
		}
	case string:
		if name, ok := wholeReference(n); ok {
			w.numbers[name] = true
		}
		w.text(n)
	}
}

func (w *references) member(key string, child any) {
	w.text(key)
	w.path = append(w.path, step{name: key})
	w.walk(child)
	w.path = w.path[:len(w.path)-1]
}

func (w *references) text(text string) {
	if !strings.Contains(text, "${") {
		return
	}
	names, asText := namesIn(text), w.asText
	if _, whole := wholeReference(text); whole {
		asText = w.decoded
	}
	for _, name := range names {
		w.used[name], asText[name] = true, true
		if !w.declared[name] && len(w.undefined) < maxFindings {
			w.undefined[use{name, pathOf(w.path)}] = true
		}
	}
}

// namesIn are the parameters that a text refers to.
func namesIn(text string) []string {
	if name, whole := wholeReference(text); whole {
		return []string{name}
	}
	var names []string
	for _, s := range split(text) {
		if s.reference {
			names = append(names, s.text)
		}
	}
	return names
}

// checkReferences reports references to parameters that do not exist, and parameters without a reference.
func (r *renderer) checkReferences(w *references, spec *v1beta1.VirtualMachineTemplateSpec) {
	for _, name := range namesIn(spec.Message) {
		w.used[name] = true
		if !w.declared[name] {
			w.undefined[use{name, "spec.message"}] = true
		}
	}
	for _, u := range slices.SortedFunc(maps.Keys(w.undefined), func(a, b use) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name))
	}) {
		name := texts.Shorten(u.name, maxShown)
		r.deny(RuleUndefinedParameter, invalid(u.at, "${"+name+"}", "the template has no parameter "+name))
	}
	for i := range spec.Parameters {
		name := spec.Parameters[i].Name
		if !w.used[name] {
			r.warn(RuleUnusedParameter, invalid(parameterAt(i, "name"), name, "the template does not refer to the parameter"))
		}
		if v := r.values[name]; v != nil && v.unknown && v.parameter == &spec.Parameters[i] {
			r.warn(RuleNotValidated, invalid(parameterAt(i, "value"), "", "what depends on the required parameter "+name+" is not validated, since it has no default"))
		}
	}
}
