package convert

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"

	"github.com/virtward/virtward/policies/export"
)

// expression returns an expression for the policy. It changes only if it reads a ConfigMap.
func (d *draft) expression(text, at string) string {
	if !d.data {
		return text
	}
	changed, err := export.WithoutMember(text, "params", "data")
	if err != nil {
		d.note(true, at, "the parameters cannot be found in it: %v", err)
		return text
	}
	return changed
}

// pointers say what to use for a name that only Kyverno has.
var pointers = map[string]string{
	"resource":              "Virtward has no lookups; vm has the fields of the instancetype and the preference, namespaceObject has the namespace",
	"globalContext":         "Virtward has no lookups: use params with a ConfigMap",
	"http":                  "policies make no calls",
	"image":                 "use virtward.image, see docs/policy-references.md",
	"images":                "vm.spec.volumes has the containerDisks; use virtward.image, see docs/policy-references.md",
	"getImageData":          "policies do not read registries",
	"verifyImageSignatures": "Virtward does not verify signatures",
	"generator":             "Virtward does not create objects",
	"exceptions":            "exceptions are applied before the policy is evaluated",
	"user":                  "use request.userInfo",
	"time":                  "policies have no clock",
	"x509":                  "policies do not read certificates",
}

// pointer returns what to use instead of what a compiler does not know; empty if that is unknown.
func pointer(message string) string {
	_, name, found := strings.Cut(message, "undeclared reference to '")
	if !found {
		return ""
	}
	name, _, _ = strings.Cut(name, "'")
	name, _, _ = strings.Cut(name, ".")
	if advice := pointers[name]; advice != "" {
		return ": " + advice
	}
	return ""
}

// path is the steps to a field of the object.
type path []string

// distinct returns each path once, in their order.
func distinct(paths []path) []path {
	known := make(map[string]bool, len(paths))
	return slices.DeleteFunc(slices.Clone(paths), func(one path) bool {
		at := strings.Join(one, "\x00")
		again := known[at]
		known[at] = true
		return again
	})
}

// maxFields bounds the fields that an expression is known to read. With more, it has no common field.
const maxFields = 256

// anyField is a path that has no field in common with others.
var anyField = path{everyElement}

// fieldsOf returns the fields of the object that an expression reads, also through variables, and those that decide fields of its pod.
func (d *draft) fieldsOf(text string) []path {
	tree, err := export.Tree(text)
	if err != nil {
		return nil
	}
	var found []path
	d.collect(tree.Expr(), &found)
	if found = distinct(found); len(found) > maxFields {
		return []path{anyField}
	}
	return found
}

// collect adds the longest paths below a node.
func (d *draft) collect(node celast.Expr, found *[]path) {
	if steps, root := export.Chain(node); root != "" {
		switch {
		case root == "object":
			*found = append(*found, steps)
		case root == "pod":
			if decides := machineField(steps); decides != nil {
				*found = append(*found, decides)
			}
		case root == "variables" && len(steps) > 0:
			for _, p := range d.paths[steps[0]] {
				*found = append(*found, slices.Concat(p, steps[1:]))
			}
		}
		return
	}
	for _, child := range export.Children(node) {
		d.collect(child, found)
	}
}

// common returns the field that all paths have in common; empty if that is the whole spec, or a key that no path can
// have.
func common(paths []path) string {
	if len(paths) == 0 {
		return ""
	}
	shared := paths[0]
	for _, p := range paths[1:] {
		n := 0
		for n < min(len(shared), len(p)) && shared[n] == p[n] {
			n++
		}
		shared = shared[:n]
	}
	// Labels and annotations have keys with dots, which a path would need in brackets.
	if i := slices.IndexFunc(shared, func(step string) bool { return strings.ContainsAny(step, "./ []") }); i >= 0 {
		shared = shared[:i]
	}
	if len(shared) < 2 || shared[0] != "spec" && shared[0] != "metadata" {
		return ""
	}
	return strings.Join(shared, ".")
}
