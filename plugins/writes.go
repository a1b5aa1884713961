package plugins

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// write is a field of the domain that the expression of a hook can set.
type write struct {
	// at is the field of the Plugin, and element the path of Go's names: Devices.Disks.
	at      *field.Path
	element string
	// list says that it is a list, and extends that the value is made of the list as it is.
	list, extends bool
}

// writesOf returns what the hooks of a Plugin can set.
func writesOf(c *compiled) (all []write) {
	for i := range c.domainHooks {
		if s := c.domainHooks[i].expression; s != nil && s.err == nil {
			w := &writer{ast: s.program.ast, at: specPath.Child(domainHooks).Index(i).Child("cel", "expression")}
			w.result(s.program.ast.Expr(), "", schema()["Domain"])
			all = append(all, w.found...)
		}
	}
	return all
}

type writer struct {
	ast   *celast.AST
	at    *field.Path
	found []write
}

// result collects what an expression sets below a path.
func (w *writer) result(e celast.Expr, path string, t *structType) {
	if branches, is := ternary(e); is {
		for _, branch := range branches {
			w.result(branch, path, t)
		}
		return
	}
	if e.Kind() != celast.StructKind {
		if path != "" {
			w.add(e, path, false)
		}
		return
	}
	for _, entry := range e.AsStruct().Fields() {
		f := t.byName[entry.AsStructField().Name()]
		if f == nil {
			continue
		}
		below := f.name
		if path != "" {
			below = path + "." + f.name
		}
		if value := entry.AsStructField().Value(); f.list || f.kind != kindStruct {
			w.add(value, below, f.list)
		} else {
			w.result(value, below, structOf(f))
		}
	}
}

func (w *writer) add(value celast.Expr, path string, list bool) {
	w.found = append(w.found, write{at: w.at, element: path, list: list, extends: reads(value, path)})
}

// ternary returns the branches of a conditional expression.
func ternary(e celast.Expr) ([]celast.Expr, bool) {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.Conditional {
		return nil, false
	}
	return e.AsCall().Args()[1:], true
}

// reads reports whether an expression reads a field of the domain.
func reads(e celast.Expr, path string) bool {
	found := false
	celast.PostOrderVisit(e, celast.NewExprVisitor(func(e celast.Expr) {
		found = found || pathOf(e) == variableDomain+"."+path
	}))
	return found
}

// pathOf is the path of a selection from a variable; empty for another expression.
func pathOf(e celast.Expr) string {
	switch e.Kind() {
	case celast.IdentKind:
		return e.AsIdent()
	case celast.SelectKind:
		if parent := pathOf(e.AsSelect().Operand()); parent != "" && !e.AsSelect().IsTestOnly() {
			return parent + "." + e.AsSelect().FieldName()
		}
	}
	return ""
}

// returnsVariable reports whether a branch of an expression is the variable of the domain.
func (p *program) returnsVariable() bool { return returnsVariable(p.ast.Expr()) }

func returnsVariable(e celast.Expr) bool {
	if branches, is := ternary(e); is {
		return slices.ContainsFunc(branches, returnsVariable)
	}
	return e.Kind() == celast.IdentKind && e.AsIdent() == variableDomain
}

// overwrites reports whether a write takes away what an earlier one has set, and where.
func (w *write) overwrites(earlier write) (element string, clash bool) {
	switch {
	case w.extends:
		return "", false
	case w.element == earlier.element || strings.HasPrefix(earlier.element, w.element+"."):
		return earlier.element, true
	case strings.HasPrefix(w.element, earlier.element+"."):
		return w.element, true
	}
	return "", false
}

// filledLists are the lists that KubeVirt fills for common virtual machines.
var filledLists = []string{
	"CPU.Features", "Clock.Timer", "Devices.Channels", "Devices.Consoles", "Devices.Controllers", "Devices.Disks", "Devices.Filesystems",
	"Devices.Graphics", "Devices.Hostdevs", "Devices.Inputs", "Devices.Interfaces", "Devices.RNGs", "Devices.Serials", "Devices.TPMs",
	"Devices.Videos", "QEMUCommandline.Args", "SysInfo", "VCPUs.VCPU",
}

func filled(element string) bool { return slices.Contains(filledLists, element) }
