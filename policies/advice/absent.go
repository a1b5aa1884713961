package advice

import (
	"reflect"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/policies/export"
)

// CheckAbsent is the name of the check of fields that can be absent.
const CheckAbsent = "absent-field"

// canBeAbsent returns the first steps of a path below vm.spec that lead to a field which can be absent; nil if there is none. always
// are the fields that are never absent.
func canBeAbsent(steps, always []string) []string {
	t := reflect.TypeFor[v1.VirtualMachineInstanceSpec]()
	for i, step := range steps {
		f, known := fieldpath.FieldOf(t, step)
		if !known {
			return nil
		}
		path := strings.Join(steps[:i+1], ".")
		isAlways := slices.ContainsFunc(always, func(set string) bool { return fieldpath.Within(set, path) })
		if t = f.Type; f.OmitEmpty && t.Kind() != reflect.Struct && !isAlways {
			return steps[:i+1]
		}
	}
	return nil
}

// absentFields finds reads of fields that can be absent. If an expression of the policy tests one, or reads it as an
// optional, it is not found.
func absentFields(p *policy, e *expression) {
	warned := map[string]bool{}
	visit(e, func(node celast.Expr) {
		if node.Kind() != celast.SelectKind || node.AsSelect().IsTestOnly() {
			return
		}
		steps, root := export.Chain(node)
		if root != "vm" || len(steps) < 2 || steps[0] != "spec" {
			return
		}
		absent := canBeAbsent(steps[1:], p.always)
		if len(absent) != len(steps)-1 || warned[strings.Join(absent, ".")] || p.tests(steps) {
			return
		}
		warned[strings.Join(absent, ".")] = true
		last := len(steps) - 1
		p.warn(e, node, "vm.%s can be absent, and reading it fails then: use vm.%s.?%s, or has()", strings.Join(steps, "."), strings.Join(steps[:last], "."), steps[last])
	})
}

// tests reports whether an expression of the policy tests a field of vm, or reads it as an optional.
func (p *policy) tests(steps []string) bool {
	found := false
	for _, e := range p.all {
		visit(e, func(node celast.Expr) {
			read, root := export.Chain(node)
			if root != "vm" || !slices.Equal(read, steps) {
				return
			}
			if node.Kind() == celast.CallKind || node.AsSelect().IsTestOnly() {
				found = true
			}
		})
	}
	return found
}
