package rego

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/diagnostics"
)

// The names of checks of modules. Expressions in CEL have them too, except CheckNegation.
const (
	CheckQuantities = "quantity-string"
	CheckPatterns   = "pattern"
	CheckParameters = "parameter"
	CheckNegation   = "negation"
	CheckAbsent     = "absent-field"
)

// Advise returns advice about a module. params are the values of the parameters, nil if they are not known; declared
// reports whether they have a schema, and absent whether a field of input can be absent. A module that cannot be parsed has no
// advice.
func Advise(module string, params map[string]any, declared bool, absent func(steps []string) bool) []diagnostics.Advice {
	parsed, err := ast.ParseModuleWithOpts("policy", module, ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: capabilities()})
	if err != nil || parsed == nil {
		return nil
	}
	a := &adviser{params: params, declared: declared, absent: absent, tested: testedIn(parsed)}
	ast.WalkExprs(parsed, func(e *ast.Expr) bool {
		a.comparison(e)
		a.inequality(e)
		a.negation(e)
		return false
	})
	a.assigned = assignments(parsed)
	ast.WalkNodes(parsed, func(node ast.Node) bool {
		if e, ok := node.(*ast.Expr); ok && e.IsCall() {
			a.pattern(e.Operator(), e.Operands())
			a.image(e.Operator(), e.Operands())
		}
		if t, ok := node.(*ast.Term); ok {
			if call, ok := t.Value.(ast.Call); ok {
				if operator, ok := call[0].Value.(ast.Ref); ok {
					a.pattern(operator, call[1:])
					a.image(operator, call[1:])
				}
			}
			a.parameter(t)
		}
		return false
	})
	slices.SortStableFunc(a.found, func(a, b diagnostics.Advice) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.Compact(a.found)
}

// adviser collects the advice about a module.
type adviser struct {
	// assigned are the values of variables that have one in the whole module.
	assigned map[ast.Var]*ast.Term
	params   map[string]any
	declared bool
	absent   func(steps []string) bool
	// tested are the fields of input that the module reads with object.get or negates: it handles their absence.
	tested map[string]bool
	found  []diagnostics.Advice
}

func (a *adviser) warn(check string, location *ast.Location, format string, values ...any) {
	a.found = append(a.found, diagnostics.Advice{Check: check, Problem: at(location, format, values...)})
}

// ordering are the comparisons that order values, and equalities those that do not.
var (
	ordering   = []string{"lt", "lte", "gt", "gte"}
	equalities = []string{"eq", "equal", "neq"}
)

// comparison finds quantities that are compared as strings.
func (a *adviser) comparison(e *ast.Expr) {
	if !e.IsCall() || len(e.Operands()) != 2 {
		return
	}
	operator, sides := e.Operator().String(), e.Operands()
	if !slices.ContainsFunc(sides, func(t *ast.Term) bool { return IsQuantity(fieldOf(t)) }) {
		return
	}
	switch {
	case slices.Contains(ordering, operator):
		a.warn(CheckQuantities, e.Loc(), "a quantity is compared as a string, so \"16Gi\" is less than \"2Gi\": use units.parse_bytes")
	case slices.Contains(equalities, operator):
		for _, side := range sides {
			if text, ok := side.Value.(ast.String); ok {
				if canonical := OtherQuantity(string(text)); canonical != "" {
					a.warn(CheckQuantities, e.Loc(), "%q is never equal to a quantity, whose canonical form is %q", string(text), canonical)
				}
			}
		}
	}
}

// testedIn returns the fields of input that a module reads with object.get, and those that it negates.
func testedIn(module *ast.Module) map[string]bool {
	tested := map[string]bool{}
	ast.WalkExprs(module, func(e *ast.Expr) bool {
		if term, ok := e.Terms.(*ast.Term); ok && e.Negated {
			tested[strings.Join(fieldOf(term), ".")] = true
		}
		return false
	})
	ast.WalkTerms(module, func(t *ast.Term) bool {
		if call, ok := t.Value.(ast.Call); ok && call[0].String() == "object.get" && len(call) > 2 {
			tested[strings.Join(append(fieldOf(call[1]), keysOf(call[2])...), ".")] = true
		}
		return false
	})
	return tested
}

// keysOf returns the key of object.get, or those of its path.
func keysOf(t *ast.Term) (keys []string) {
	switch value := t.Value.(type) {
	case ast.String:
		return []string{string(value)}
	case *ast.Array:
		value.Foreach(func(one *ast.Term) {
			if key, ok := one.Value.(ast.String); ok {
				keys = append(keys, string(key))
			}
		})
	}
	return keys
}

// inequality finds fields that can be absent and that must not have a value: without the field, the inequality is undefined.
func (a *adviser) inequality(e *ast.Expr) {
	if !e.IsCall() || e.Negated || e.Operator().String() != "neq" || len(e.Operands()) != 2 {
		return
	}
	for _, side := range e.Operands() {
		steps := fieldOf(side)
		if len(steps) < 2 || !a.absent(steps) || a.handles(steps) {
			continue
		}
		last := len(steps) - 1
		a.warn(CheckAbsent, e.Loc(), "%s can be absent, and the comparison is undefined then, so the rule does not apply: use object.get(%s, %q, \"\")",
			inputField(steps), inputField(steps[:last]), steps[last])
		return
	}
}

// handles reports whether the module handles the absence of a field, or of one that it is in.
func (a *adviser) handles(steps []string) bool {
	for n := 2; n <= len(steps); n++ {
		if a.tested[strings.Join(steps[:n], ".")] {
			return true
		}
	}
	return false
}

// inputField returns a field of input as an expression.
func inputField(steps []string) string {
	ref := ast.Ref{ast.InputRootDocument}
	for _, step := range steps {
		ref = append(ref, ast.StringTerm(step))
	}
	return ref.String()
}

// negation finds negated comparisons of fields. If the field is absent, the comparison is undefined and its negation true.
func (a *adviser) negation(e *ast.Expr) {
	if !e.Negated || !e.IsCall() || !slices.Contains(slices.Concat(ordering, equalities), e.Operator().String()) {
		return
	}
	for _, side := range e.Operands() {
		if steps := fieldOf(side); len(steps) > 1 {
			a.warn(CheckNegation, e.Loc(), "the negation is true too if input.%s is absent: compare without not, or use object.get", strings.Join(steps, "."))
			return
		}
	}
}

// pattern finds regular expressions that do not compile: in the module, and in parameters.
func (a *adviser) pattern(operator ast.Ref, operands []*ast.Term) {
	if name := operator.String(); !strings.HasPrefix(name, "regex.") || len(operands) == 0 || name == "regex.template_match" || name == "regex.globs_match" {
		return
	}
	operand := operands[0]
	if operator.String() == "regex.replace" && len(operands) > 1 {
		operand = operands[1]
	}
	from := "the pattern"
	written, _ := operand.Value.(ast.String)
	text := string(written)
	if steps := fieldOf(operand); len(steps) > 1 && steps[0] == "params" {
		text, _ = Parameter(a.params, steps[1:]).(string)
		from += " in params." + strings.Join(steps[1:], ".")
	}
	if _, err := regexp.Compile(text); err != nil {
		a.warn(CheckPatterns, operand.Loc(), "%s does not compile: %v", from, err)
	}
}

// parameter finds names of parameters that do not exist. object.get and a schema can give them a default.
func (a *adviser) parameter(t *ast.Term) {
	steps := fieldOf(t)
	if a.params == nil || a.declared || len(steps) < 2 || steps[0] != "params" {
		return
	}
	if _, ok := a.params[steps[1]]; !ok {
		a.warn(CheckParameters, t.Loc(), "spec.params.values has no %s, so the rule never applies%s", steps[1], Suggestion(steps[1], a.params))
	}
}

// fieldOf returns the steps of a term that reads a field of input; nil for other terms. It ends at a step that is not
// written as a text.
func fieldOf(t *ast.Term) []string {
	ref, ok := t.Value.(ast.Ref)
	if !ok || len(ref) < 2 || !ref[0].Equal(ast.InputRootDocument) {
		return nil
	}
	var steps []string
	for _, step := range ref[1:] {
		name, ok := step.Value.(ast.String)
		if !ok {
			return nil
		}
		steps = append(steps, string(name))
	}
	return steps
}

// IsQuantity reports whether the steps lead to a field that is a quantity.
func IsQuantity(steps []string) bool {
	if len(steps) < 2 {
		return false
	}
	parent, name := steps[len(steps)-2], steps[len(steps)-1]
	switch name {
	case "guest", "maxGuest":
		return parent == "memory"
	case "capacity":
		return parent == "emptyDisk" || parent == "hostDisk"
	}
	return parent == "requests" || parent == "limits"
}

// OtherQuantity returns the canonical form of a text that is a quantity in another form; empty for other texts.
func OtherQuantity(text string) string {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.String() == text {
		return ""
	}
	return quantity.String()
}

// Parameter returns the value at a path of the parameters; nil if there is none.
func Parameter(params map[string]any, steps []string) any {
	var value any = params
	for _, step := range steps {
		object, _ := value.(map[string]any)
		value = object[step]
	}
	return value
}

// Suggestion lists the names of the parameters for a message.
func Suggestion(name string, params map[string]any) string {
	names := slices.Sorted(maps.Keys(params))
	for _, known := range names {
		if strings.EqualFold(known, name) || strings.HasPrefix(known, name) || strings.HasPrefix(name, known) {
			return fmt.Sprintf("; did you mean %s?", known)
		}
	}
	if len(names) == 0 || len(names) > 10 {
		return ""
	}
	return "; it has " + strings.Join(names, ", ")
}
