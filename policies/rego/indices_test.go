package rego

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// fieldValues resolves the fields of input and arguments to one value. Other fields are absent.
type fieldValues struct {
	value ast.Value
	asked int
}

func (v *fieldValues) Resolve(ref ast.Ref) (ast.Value, error) {
	v.asked++
	return v.value, nil
}

// listOf is a list of texts.
func listOf(length int) ast.Value {
	elements := make([]*ast.Term, length)
	for i := range elements {
		elements[i] = ast.StringTerm("a")
	}
	return ast.NewArray(elements...)
}

// manyTimes repeats a rule, with its number in the place of %d.
func manyTimes(count int, format string) string {
	var rules strings.Builder
	for i := range count {
		rules.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprint(i)) + "\n")
	}
	return rules.String()
}

// treeOfPaths are rules of a function whose index has a place for each field of each rule: the rules begin with different values, and end
// with a field that comes after those of the first rules.
func treeOfPaths(rules, fields int) string {
	first := ""
	for i := range fields {
		const inRule = 40
		if i%inRule == 0 {
			first += fmt.Sprintf("f(_) if { input.object.a == %d", -i-1)
		}
		if first += fmt.Sprintf("; input.object.b%d == 1", i); i%inRule == inRule-1 || i == fields-1 {
			first += " }\n"
		}
	}
	return first + manyTimes(rules, "f(_) if { input.object.a == %d; input.object.z%d == 0 }")
}

// TestLookupsAreBounded holds that a lookup which would read much ends, and that all rules may hold then. Without that, it would find none.
func TestLookupsAreBounded(t *testing.T) {
	subsets := ""
	for i := range 128 {
		subsets += "f(x) if { "
		for bit := range 7 {
			if i&(1<<bit) != 0 {
				subsets += fmt.Sprintf("input.object.a%d == \"a\"; ", bit)
			}
		}
		subsets += fmt.Sprintf("input.object.z%d == \"b\"; x }\n", i)
	}
	for name, c := range map[string]struct {
		module string
		path   string
		value  ast.Value
		ends   bool
	}{
		"a list":                       {`f(x) if { "b" in input.object.l; x }`, "f", listOf(1000), true},
		"a short list":                 {`f(x) if { "b" in input.object.l; x }`, "f", listOf(10), false},
		"a rule without arguments":     {`c if "b" in input.object.l`, "c", listOf(1000), true},
		"an else":                      {"c := 1 if \"b\" in input.object.l\nelse := 2 if \"c\" in input.object.l", "c", listOf(1000), true},
		"below a general name":         {"p[x].e := 1 if x := input.requester\np.d.e := 1 if \"b\" in input.object.l", "p", listOf(1000), true},
		"any element":                  {`c if input.object.l[_] == "b"`, "c", listOf(1000), true},
		"a prefix":                     {`f(x) if { startswith(input.object.l, "b"); x }`, "f", listOf(1000), true},
		"a suffix":                     {`f(x) if { strings.any_suffix_match(input.object.l, ["b"]); x }`, "f", listOf(1000), true},
		"a long text":                  {`f(x) if glob.match("b.*", ["."], x)`, "f", ast.String(strings.Repeat("a", 10_000)), true},
		"a text":                       {`f(x) if glob.match("b.*", ["."], x)`, "f", ast.String("a"), false},
		"a text, with many wildcards":  {manyTimes(100, `f(x) if glob.match("b%d.*", ["."], x)`), "f", ast.String(strings.Repeat("a.", 30)), true},
		"a pattern of a list":          {`f(x) if [_, "b"] = x`, "f", listOf(1000), true},
		"a short list, many patterns":  {manyTimes(100, `f(x) if [_, "b%d"] = x`), "f", listOf(2), true},
		"a short list, one pattern":    {`f(x) if [_, "b"] = x`, "f", listOf(2), false},
		"a list that is compared":      {`f(x) if x == ["b"]`, "f", listOf(1000), true},
		"a text that is compared":      {`f(x) if x == "b"`, "f", ast.String(strings.Repeat("a", 10_000)), false},
		"a list, compared with a text": {`f(x) if x == "b"`, "f", listOf(1000), false},
		"a number, one fraction":       {`f(x) if x == 0.5`, "f", ast.Number("0.25"), false},
		"a number, many fractions":     {manyTimes(100, `f(x) if x == 0.5%d`), "f", ast.Number("0.25"), true},
		"a list of many fractions":     {manyTimes(100, `f(x) if { 0.5%d in input.object.l; x }`), "f", ast.NewArray(ast.NumberTerm("0.25"), ast.NumberTerm("0.125")), true},
		"a tree with many paths":       {subsets, "f", ast.String("a"), true},
		"many values of a field":       {manyTimes(500, `f(x) if x == "b%d"`), "f", ast.String("a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, head+c.module+"\ndeny contains \"a\" if input.requester == \"b\"")
			index := module.compiler.RuleIndex(ast.MustParseRef("data.test." + c.path))
			every, err := index.AllRules(nil)
			if err != nil {
				t.Fatal(err)
			}
			values := &fieldValues{value: c.value}
			found, err := index.Lookup(values)
			if err != nil {
				t.Fatal(err)
			}
			got := len(found.Rules) == len(every.Rules) && len(found.Else) == len(every.Else)
			if got != c.ends || !c.ends && len(found.Rules) > 0 || values.asked == 0 {
				t.Errorf("%d of %d rules may hold, after %d values", len(found.Rules), len(every.Rules), values.asked)
			}
			if most := max(freeVisits, visitsPerRule*len(every.Rules)) + 1; values.asked > most {
				t.Errorf("the lookup reads %d values: at most %d", values.asked, most)
			}
		})
	}
}

// TestElementwise holds that boundIndices knows all functions for which an index reads elements. A function is one if a lookup excludes a rule
// that calls it with a list.
func TestElementwise(t *testing.T) {
	for _, name := range pure() {
		declaration := ast.BuiltinMap[name]
		if topdown.GetBuiltin(name) == nil || declaration.Decl.Arity() < 2 || declaration.Decl.Arity() > 3 || types.Compare(declaration.Decl.Result(), types.B) != 0 {
			continue
		}
		for place := range declaration.Decl.Arity() {
			operands := []*ast.Term{ast.NewTerm(declaration.Ref())}
			for i, of := range declaration.Decl.FuncArgs().Args {
				operand := ast.StringTerm("b")
				switch {
				case i == place:
					operand = ast.NewTerm(ast.MustParseRef("input.l"))
				case fits(ast.ArrayTerm(), of) && !fits(operand, of):
					operand = ast.ArrayTerm(operand)
				}
				operands = append(operands, operand)
			}
			compiler := ast.NewCompiler()
			rule := &ast.Rule{Head: ast.NewHead("f", ast.VarTerm("x")), Body: ast.NewBody(ast.NewExpr(operands))}
			rule.Head.Args, rule.Head.Key, rule.Head.Value = ast.Args{ast.VarTerm("_")}, nil, ast.BooleanTerm(true)
			module := &ast.Module{Package: &ast.Package{Path: ast.MustParseRef("data.test")}, Rules: []*ast.Rule{rule}}
			rule.Module = module
			compiler.WithSkipStages(ast.StageCheckTypes).Compile(map[string]*ast.Module{"test": module})
			index := compiler.RuleIndex(ast.MustParseRef("data.test.f"))
			if index == nil {
				t.Fatalf("%s: no index: %v", name, compiler.Errors)
			}
			found, err := index.Lookup(&fieldValues{value: listOf(3)})
			if err != nil {
				t.Fatal(err)
			}
			if reads := len(found.Rules) == 0; reads && name != "equal" && !slices.Contains(elementwise(), name) {
				t.Errorf("an index reads the elements of the argument %d of %s", place, name)
			}
		}
	}
}

// TestLargeTreesAreNotMade holds that a module whose index would have a place for each field of each rule has none, and finds what others find.
func TestLargeTreesAreNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		rules, fields int
		made          bool
	}{
		"few rules":  {10, 1000, true},
		"few fields": {200, 10, true},
		"many":       {900, 1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, head+treeOfPaths(c.rules, c.fields)+`default g(_) := 1
g(x) := 2 if x == 7
else := 3 if x == 8
deny contains "f" if f(1)
deny contains sprintf("%d %d %d", [g(6), g(7), g(8)]) if input.requester`)
			index, _ := module.compiler.RuleIndex(ast.MustParseRef("data.test.f")).(*boundedIndex)
			if made := index != nil && index.within != nil; made != c.made {
				t.Errorf("the tree is made: %v", made)
			}
			for value, want := range map[int][]string{0: {"1 2 3", "f"}, 1: {"1 2 3"}} {
				got, err := module.Eval(input(t, map[string]any{"requester": "alice", "object": map[string]any{"a": 5, "z5": value}}), Limits{})
				if err != nil {
					t.Fatal(err)
				}
				messages := []string{}
				for _, violation := range got {
					messages = append(messages, violation.Message)
				}
				if !slices.Equal(messages, want) {
					t.Errorf("z5 is %d: %q, want %q", value, messages, want)
				}
			}
		})
	}
}
