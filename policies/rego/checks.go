package rego

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/texts"
)

// Bounds of what is written in a module.
const (
	maxDepth    = 100     // expressions in one another
	maxElements = 10_000  // elements of one list, set or object: the index of rules takes the square of them
	maxWritten  = 400_000 // digits of all numbers, exponents included, which OPA compares again and again to put sets in order
	maxShared   = 10_000  // values that a variable stands for, when each mention of another counts
)

func at(location *ast.Location, format string, args ...any) diagnostics.Problem {
	issue := diagnostics.Problem{Message: texts.Shorten(fmt.Sprintf(format, args...), maxMessage)}
	if location != nil {
		issue.Line, issue.Column = location.Row, location.Col
	}
	return issue
}

// tooLarge looks at the text before anything else does.
func tooLarge(module string) []diagnostics.Problem {
	if len(module) > MaxModuleBytes {
		return []diagnostics.Problem{{Message: fmt.Sprintf("the module has %d bytes: at most %d", len(module), MaxModuleBytes)}}
	}
	if lines := strings.Count(strings.TrimSuffix(module, "\n"), "\n") + 1; lines > MaxModuleLines {
		return []diagnostics.Problem{{Line: MaxModuleLines + 1, Column: 1, Message: fmt.Sprintf("the module has %d lines: at most %d", lines, MaxModuleLines)}}
	}
	return nil
}

func ruleCount(module *ast.Module) []diagnostics.Problem {
	count := 0
	ast.WalkRules(module, func(*ast.Rule) bool { count++; return false })
	if count > MaxRules {
		return []diagnostics.Problem{at(module.Rules[len(module.Rules)-1].Loc(), "the module has %d rules: at most %d", count, MaxRules)}
	}
	return nil
}

// depth rejects what is nested so deep that compiling it would take long.
func depth(module *ast.Module) []diagnostics.Problem {
	v := &depthVisitor{}
	visitor := ast.NewBeforeAfterVisitor(v.before, v.after)
	visitor.Walk(module)
	ast.WalkRules(module, func(rule *ast.Rule) bool {
		if rule.Head.Key != nil { // the visitor passes by the keys of sets
			visitor.Walk(rule.Head.Key)
		}
		return false
	})
	return v.issues
}

type depthVisitor struct {
	depth  int
	place  *ast.Location
	issues []diagnostics.Problem
}

func (v *depthVisitor) before(x any) bool {
	if node, ok := x.(ast.Node); ok && node.Loc() != nil {
		v.place = node.Loc()
	}
	if v.depth++; v.depth <= 2*maxDepth { // a term and its value are two
		return false
	}
	if len(v.issues) == 0 {
		v.issues = append(v.issues, at(v.place, "the expression is nested deeper than %d levels", maxDepth))
	}
	return true
}

// elements rejects what has so many that compiling it would take long.
func elements(module *ast.Module) []diagnostics.Problem {
	var issues []diagnostics.Problem
	digits := 0
	ast.WalkTerms(module, func(term *ast.Term) bool {
		if number, ok := term.Value.(ast.Number); ok {
			n := magnitude(string(number))
			if digits += n; n > 10*maxDigits {
				issues = append(issues, at(term.Location, "a number has more than %d digits, or a large exponent", 10*maxDigits))
			} else if digits > maxWritten {
				issues = append(issues, at(term.Location, "the numbers up to this one have more than %d digits, exponents included: write smaller exponents", maxWritten))
			}
		}
		if collection, ok := term.Value.(interface{ Len() int }); ok && collection.Len() > maxElements {
			issues = append(issues, at(term.Location, "a value has %d elements: at most %d", collection.Len(), maxElements))
		}
		return len(issues) > 0
	})
	return issues
}

func (v *depthVisitor) after(any) { v.depth-- }

// What compiling a module takes at most. Both are far from what a person writes.
const (
	// maxChecked are the expressions whose types are checked.
	maxChecked = 200_000
	// maxOrdered are the comparisons that put the expressions of rules in order.
	maxOrdered = 30_000_000
)

// compiling rejects what OPA's compiler takes long for. It checks the types of an expression again for each body around it, and for the
// bodies around that one in turn. And it orders the expressions of a rule so that variables have values before they are used, which takes
// the third power of them.
func compiling(module *ast.Module) []diagnostics.Problem {
	total := rulesCost{}
	for _, rule := range module.Rules {
		one := rulesCost{}
		visitor := ast.NewBeforeAfterVisitor(one.before, one.after)
		visitor.Walk(rule)
		if rule.Head.Key != nil { // the visitor passes by the keys of sets
			visitor.Walk(rule.Head.Key)
		}
		if total.checked = min(total.checked+one.checked, tooHeavy); total.checked > maxChecked {
			return []diagnostics.Problem{at(rule.Loc(), "too many comprehensions, or other bodies, are in one another: give some of them rules of their own")}
		}
		ordered := times(one.expressions, times(one.expressions, one.expressions))
		if total.ordered = min(total.ordered+ordered, tooHeavy); total.ordered > maxOrdered {
			return []diagnostics.Problem{at(rule.Loc(), "the rule has %d expressions and calls, which is too many for one rule, or with those of the rules before it: split it", one.expressions)}
		}
	}
	return nil
}

// rulesCost is what compiling rules takes.
type rulesCost struct {
	// bodies are those around an expression, and expressions are those with the calls, the declared variables and the parts of texts in them, each
	// of which the compiler makes an expression.
	bodies, expressions int
	checked, ordered    int
}

func (c *rulesCost) before(x any) bool {
	switch v := x.(type) {
	case ast.Body:
		c.bodies++
	case *ast.Expr:
		c.expressions++
		c.checked = min(c.checked+checks(c.bodies), tooHeavy)
	case ast.Call:
		c.expressions++
	case *ast.SomeDecl:
		c.expressions += len(v.Symbols)
	case *ast.TemplateString:
		c.expressions += len(v.Parts)
	}
	return false
}

// checks is how often the type of an expression in so many bodies is checked: measured, 21/8 times as often for each body.
func checks(bodies int) int {
	often := 1
	for range min(bodies, maxDepth) {
		often = min(often*21/8+1, tooHeavy)
	}
	return often
}

func (c *rulesCost) after(x any) {
	if _, ok := x.(ast.Body); ok {
		c.bodies--
	}
}

// maxReferred are the rules to which all references of a module lead: a reference leads to each rule of its name.
const maxReferred = 500_000

// referred rejects a module with many references to many rules. The compiler puts each pair into its graph.
func referred(module *ast.Module) []diagnostics.Problem {
	rules := map[string]int{}
	for _, rule := range module.Rules {
		rules[ruleName(rule)]++
	}
	total := 0
	var issues []diagnostics.Problem
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		var leads int
		switch path := module.Package.Path; {
		case !ref.HasPrefix(path):
			name, _ := ref[0].Value.(ast.Var)
			leads = rules[string(name)]
		case len(ref) == len(path):
			leads = len(module.Rules)
		default:
			if name, ok := ref[len(path)].Value.(ast.String); ok {
				leads = rules[string(name)]
			} else {
				leads = len(module.Rules)
			}
		}
		if total = min(total+leads, tooHeavy); total > maxReferred && len(issues) == 0 {
			issues = append(issues, at(ref[0].Loc(), "the references up to this one lead to more than %d rules: give each rule fewer references to names that many rules have", maxReferred))
		}
		return len(issues) > 0
	})
	return issues
}

// heads rejects rules that define a part of what a call results in, or a part of many objects in one another. OPA's parser takes them, its compiler
// does not, or takes long.
func heads(module *ast.Module) []diagnostics.Problem {
	var issues []diagnostics.Problem
	for _, rule := range module.Rules {
		if parts := len(rule.Head.Ref()); parts > maxDepth {
			issues = append(issues, at(rule.Loc(), "the name of a rule has %d parts: at most %d", parts, maxDepth))
		}
		if ref := rule.Head.Ref(); len(ref) == 0 || !isVar(ref[0]) {
			issues = append(issues, at(rule.Loc(), "a rule must begin with a name, not with %s", rule.Head.Ref()))
		}
	}
	return issues
}

func isVar(term *ast.Term) bool {
	_, ok := term.Value.(ast.Var)
	return ok
}

// ruleName is the first part of what a rule defines.
func ruleName(rule *ast.Rule) string {
	ref := rule.Head.Ref()
	name, _ := ref[0].Value.(ast.Var)
	return string(name)
}

// contract holds the module to its rules: at least one of deny and warn, and both are sets of violations.
func contract(module *ast.Module) []diagnostics.Problem {
	var issues []diagnostics.Problem
	asked := false
	for _, rule := range module.Rules {
		name := ruleName(rule)
		if name != denyRule && name != warnRule {
			continue
		}
		asked = true
		head := rule.Head
		if len(head.Args) > 0 || len(head.Ref()) != 1 || head.RuleKind() != ast.MultiValue || head.Key == nil {
			issues = append(issues, at(rule.Loc(), `%s must be a set of violations: %s contains {"msg": "…"} if { … }`, name, name))
			continue
		}
		issues = append(issues, violation(name, head.Key)...)
	}
	if !asked {
		issues = append(issues, at(module.Package.Loc(), `the module has neither deny nor warn, so it evaluates nothing: deny contains {"msg": "…"} if { … }`))
	}
	return issues
}

// violation checks an element that is written in the rule.
func violation(rule string, element *ast.Term) []diagnostics.Problem {
	switch v := element.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, *ast.Array, ast.Set, *ast.ArrayComprehension, *ast.SetComprehension:
		return []diagnostics.Problem{at(element.Loc(), "%s contains %s, which is neither a message nor an object with msg and field", rule, ast.ValueName(v))}
	case ast.Object:
		return violationObject(rule, element, v)
	}
	return nil
}

func violationObject(rule string, element *ast.Term, object ast.Object) []diagnostics.Problem {
	var issues []diagnostics.Problem
	if object.Get(ast.InternedTerm("msg")) == nil {
		issues = append(issues, at(element.Loc(), "%s contains an object without msg", rule))
	}
	object.Foreach(func(key, _ *ast.Term) {
		if name, ok := key.Value.(ast.String); ok && name != "msg" && name != "field" {
			issues = append(issues, at(key.Loc(), "%s contains an object with %s, only msg and field are allowed", rule, string(name)))
		}
	})
	return issues
}

// elementTypes checks elements that are computed, as far as the compiler knows their types.
func elementTypes(compiler *ast.Compiler, module *ast.Module) []diagnostics.Problem {
	var issues []diagnostics.Problem
	for _, rule := range module.Rules {
		name := ruleName(rule)
		if name != denyRule && name != warnRule {
			continue
		}
		set, ok := compiler.TypeEnv.GetByRef(module.Package.Path.Append(ast.StringTerm(name))).(*types.Set)
		if ok && !mayBeViolation(set.Of()) {
			return append(issues, at(rule.Loc(), "%s contains %s, a message or an object with msg and field is required", name, types.Sprint(set.Of())))
		}
	}
	return issues
}

// mayBeViolation reports whether every alternative of a type may be a violation.
func mayBeViolation(t types.Type) bool {
	switch t := t.(type) {
	case types.Any:
		for _, alternative := range t {
			if !mayBeViolation(alternative) {
				return false
			}
		}
		return true
	case types.String:
		return true
	case *types.Object:
		if t.DynamicProperties() != nil {
			return true
		}
		for _, p := range t.StaticProperties() {
			if p.Key == "msg" {
				_, isString := p.Value.(types.String)
				_, isAny := p.Value.(types.Any)
				return isString || isAny
			}
		}
	}
	return false
}

// builtinsUsed rejects the functions that are not pure, with the reason.
func builtinsUsed(module *ast.Module) []diagnostics.Problem {
	missing := rejected()
	var issues []diagnostics.Problem
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if name, ok := builtinName(ref); ok && missing[name] != "" && !defines(module, ref) {
			issues = append(issues, at(ref[0].Loc(), "%s is not available in policies: %s", name, missing[name]))
		}
		return false
	})
	return issues
}

// defines reports whether the module has a rule by the name that a reference begins with.
func defines(module *ast.Module, ref ast.Ref) bool {
	for _, rule := range module.Rules {
		if rule.Head.Ref()[0].Equal(ref[0]) {
			return true
		}
	}
	return false
}

// dataUsed rejects data that is not the module's own: there is none.
func dataUsed(module *ast.Module) []diagnostics.Problem {
	var issues []diagnostics.Problem
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if ref[0].Equal(ast.DefaultRootDocument) && !ref.HasPrefix(module.Package.Path) {
			issues = append(issues, at(ref[0].Loc(), "%s is not in this module, and there is no other data", ref))
		}
		return false
	})
	return issues
}
