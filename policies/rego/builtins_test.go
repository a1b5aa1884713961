package rego

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/virtward/virtward/test/isolated"
)

// TestEveryBuiltinIsDecided fails when OPA has a function that is in neither table: it belongs in pure, with a
// guard if it can build more than it is given, or into rejected, with the reason.
func TestEveryBuiltinIsDecided(t *testing.T) {
	allowed, missing := pure(), rejected()
	known := map[string]bool{}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		known[b.Name] = true
		_, isMissing := missing[b.Name]
		switch isAllowed := slices.Contains(allowed, b.Name); {
		case isAllowed && isMissing:
			t.Errorf("%s is both allowed and rejected", b.Name)
		case !isAllowed && !isMissing:
			t.Errorf("%s is in neither table: %s", b.Name, b.Description)
		case isAllowed && b.Nondeterministic:
			t.Errorf("%s is allowed, and not deterministic", b.Name)
		case isAllowed && b.IsDeprecated():
			t.Errorf("%s is allowed, and deprecated", b.Name)
		case isMissing && missing[b.Name] == "":
			t.Errorf("%s is rejected without a reason", b.Name)
		}
	}
	for _, name := range slices.Concat(allowed, slices.Collect(keys(missing)), slices.Collect(keys(guards()))) {
		if !known[name] {
			t.Errorf("OPA has no function %s", name)
		}
	}
	for name := range guards() {
		if !slices.Contains(allowed, name) {
			t.Errorf("%s is guarded, and not allowed", name)
		}
	}
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// hostile are arguments of all types, small and large, which make functions build as much as they can.
func hostile() []*ast.Term {
	const n = 6 << 10
	text := ast.StringTerm
	repeated := func(s string) *ast.Term { return text(strings.Repeat(s, n/len(s))) }
	var strings64, numbers, empties, paths, patches []*ast.Term
	object, set := ast.NewObject(), ast.NewSet()
	for i := range 1000 {
		s := text(strconv.Itoa(i))
		strings64, numbers = append(strings64, s), append(numbers, ast.IntNumberTerm(i))
		empties, paths = append(empties, ast.ArrayTerm()), append(paths, text("a/b/"+strconv.Itoa(i)))
		object.Insert(s, s)
		set.Add(s)
		if i < 50 {
			patches = append(patches, ast.ObjectTerm([2]*ast.Term{text("op"), text("add")}, [2]*ast.Term{text("path"), text("/x" + strconv.Itoa(i))}, [2]*ast.Term{text("value"), s}))
		}
	}
	deep := ast.ArrayTerm()
	for range 500 {
		deep = ast.ArrayTerm(deep)
	}
	keys, merges := "", "a: &a {x: 1}\n"
	for i := range 500 {
		keys += "k" + strconv.Itoa(i) + ": 1\n"
		merges += "b" + strconv.Itoa(i) + ": {<<: *a}\n"
	}
	bomb := "a: &a [1,1,1,1,1,1,1,1,1]\n"
	for c := 'b'; c < 'e'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	bracket := func(inner string) *ast.Term { return text("[" + strings.Repeat(inner+",", n/len(inner)) + inner + "]") }
	return slices.Concat([]*ast.Term{
		// Small.
		text(""), text("a"), text("7"), text(","), text("2006"), text("x"), text("{"), text("}"), text("%s"), text("%v%v%v"), text("%q"), text("%x"), text("%U"), text("%[1]v%[1]v%[1]v"), text("%999d"),
		text("()()()"), text("(((a)))"), text("a.*b"), text("(a|b)*c$"), text("a*"), text("**a*b*"), text("{a,b}"), text("$0$0"), text("UTC"), text("8Gi"), text("1s"), text("indent"), text("1.2.3"), text("2006-01-02T15:04:05Z"), text("RFC3339"), text("1.2.4-a"),
		ast.IntNumberTerm(0), ast.IntNumberTerm(-1), ast.IntNumberTerm(2), ast.IntNumberTerm(16), ast.IntNumberTerm(5000), numberTerm("1e900"), numberTerm("-3.25e-300"), numberTerm(strings.Repeat("9", 900)),
		ast.NullTerm(), ast.BooleanTerm(true), ast.ArrayTerm(), ast.ObjectTerm(), ast.SetTerm(),
		ast.ArrayTerm(text("a"), text("b")), ast.ArrayTerm(ast.IntNumberTerm(7), text("UTC"), repeated("January 2006 ")), ast.ArrayTerm(ast.IntNumberTerm(7), text("UTC")),
		ast.ObjectTerm([2]*ast.Term{text("a"), text("bb")}), ast.ObjectTerm([2]*ast.Term{text("indent"), text("          ")}), ast.SetTerm(text("1")),
		// Large.
		repeated("a"), repeated("A"), repeated("a,"), repeated("é"), repeated("ȿ"), repeated("\x01"), repeated("<"), repeated("%d"), repeated("%!"), repeated("a b\n"), repeated("9"), repeated("%41"), repeated("a="), repeated("QUFB"), repeated("aa"),
		repeated("- 1\n"), repeated("- - "), repeated("- &a 1\n"), repeated("---\n"), repeated("? \n"), repeated("a: 1\n"), repeated("#\n"), repeated("{a,"), text(keys), text(merges), text(bomb), text("a: |\n" + strings.Repeat(" a\n", n/3)),
		text("{" + strings.Repeat("a,", n/2) + "a}"), text(strings.Repeat("[", 2000) + strings.Repeat("]", 2000)), text("\"" + strings.Repeat("\\u0001", n/6) + "\""),
		bracket("1"), bracket("[]"), bracket("{}"), bracket("\"\""), bracket("{\"\":0}"), bracket("-1e-9"), bracket("null"),
		text(strings.Repeat("a&", 400)), text("http://a/?" + strings.Repeat("a&", n/2)), text("http://a/" + strings.Repeat("%41", n/3)), text("1.2.3-" + strings.Repeat("a.", n/2) + "a"), text("1.2.3+" + strings.Repeat("a.", n/2) + "b"),
		text(strings.Repeat("(a)", 300)), text(strings.Repeat("[a-z]", 300)), text(strings.Repeat("a*", 300)), text(strings.Repeat("{a,b}", 300)), text(strings.Repeat("{a}", 300)), text(`((\pL{5}){5}){5}`),
		ast.ArrayTerm(strings64...), ast.ArrayTerm(numbers...), ast.ArrayTerm(empties...), ast.ArrayTerm(paths...), ast.ArrayTerm(patches...), ast.NewTerm(object), ast.NewTerm(set), deep,
		ast.ArrayTerm(repeated("\x01")), ast.ArrayTerm(repeated("a"), ast.NewTerm(object), ast.NewTerm(set)), ast.ArrayTerm(ast.NewTerm(object), ast.NewTerm(object)), ast.SetTerm(ast.NewTerm(set), ast.SetTerm(text("1"))),
		ast.ArrayTerm(ast.ArrayTerm(strings64...), ast.ArrayTerm(numbers...)), ast.ObjectTerm([2]*ast.Term{text("a"), ast.ArrayTerm(strings64...)}), ast.ObjectTerm([2]*ast.Term{text("1"), ast.NewTerm(set)}),
		ast.SetTerm(ast.SetTerm(text("b"))), ast.ArrayTerm(ast.ObjectTerm()), ast.ArrayTerm(ast.SetTerm(ast.StringTerm("b"))),
	})
}

// fits reports whether a term is of a type, as far as that can be seen from outside.
func fits(term *ast.Term, of types.Type) bool {
	if named, ok := of.(*types.NamedType); ok {
		of = named.Type
	}
	switch of := of.(type) {
	case types.String:
		_, ok := term.Value.(ast.String)
		return ok
	case types.Number:
		_, ok := term.Value.(ast.Number)
		return ok
	case *types.Array:
		_, ok := term.Value.(*ast.Array)
		return ok
	case *types.Set:
		_, ok := term.Value.(ast.Set)
		return ok
	case *types.Object:
		_, ok := term.Value.(ast.Object)
		return ok
	case types.Any:
		return len(of) == 0 || slices.ContainsFunc(of, func(one types.Type) bool { return fits(term, one) })
	}
	return true
}

func numberTerm(s string) *ast.Term { return ast.NewTerm(ast.Number(s)) }

// TestWhatFunctionsTake calls every function that a module may call with hostile arguments, and holds the memory that
// it takes against what it is charged. A function of which no call succeeds is not measured, so that the test fails.
func TestWhatFunctionsTake(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	// slack is what any call may take, such as the machine of a pattern, which is used again, and beyond is how far measuring and charging may differ.
	const slack, beyond = 48 << 10, 2
	arguments := hostile()
	all := guards()
	for _, name := range pure() {
		call := topdown.GetBuiltin(name)
		if call == nil {
			continue // the evaluator's own: assign and eq
		}
		t.Run(name, func(t *testing.T) {
			arity := ast.BuiltinMap[name].Decl.Arity()
			if name == "internal.print" || name == "print" || name == "trace" {
				return // nothing without a trace
			}
			called, worst := 0, 0.0
			draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
			fitting := make([][]*ast.Term, arity)
			for j, of := range ast.BuiltinMap[name].Decl.FuncArgs().Args {
				fitting[j] = slices.DeleteFunc(slices.Clone(arguments), func(term *ast.Term) bool { return !fits(term, of) })
			}
			for i := range 120 * arity * arity {
				operands := make([]*ast.Term, arity)
				for j := range operands {
					from := fitting[j]
					if len(from) == 0 || i%8 == 0 {
						from = arguments
					}
					operands[j] = from[draw.IntN(len(from))]
				}
				switch {
				case arity == 1:
					operands[0] = arguments[i%len(arguments)]
				case i == 0 && name == "time.parse_ns":
					operands = []*ast.Term{ast.StringTerm("2006-01-02"), ast.StringTerm("2006-01-02")}
				case i == 0 && name == "regex.template_match":
					operands = []*ast.Term{ast.StringTerm(strings.Repeat("{a}", 600)), ast.StringTerm("a"), ast.StringTerm("{"), ast.StringTerm("}")}
				}
				var charged int
				rejected, answered := false, false
				if check := all[name]; check != nil {
					for next := func() (charge, error) { return check(operands) }; next != nil && !rejected; {
						c, err := next()
						_, answered = err.(answer) //nolint:errorlint // never wrapped
						charged += max(c.keeps, c.takes)
						next, rejected = c.then, err != nil || charged > 64<<20 || c.work > defaultSteps
					}
				}
				called += map[bool]int{true: 1}[answered]
				if rejected {
					continue
				}
				before := isolated.Allocated()
				_ = call(topdown.BuiltinContext{Context: t.Context()}, operands, func(*ast.Term) error { called++; return nil })
				took := int(isolated.Allocated() - before)
				worst = max(worst, float64(took-slack)/float64(charged+1))
				if took > beyond*charged+slack {
					t.Fatalf("%.300v: it takes %d bytes, and is charged %d", operands, took, charged)
				}
			}
			if called == 0 {
				t.Error("no arguments were right: the test says nothing about this function")
			}
			t.Logf("%d calls, the worst took %.2f of its charge", called, worst)
		})
	}
}

// TestYAMLThatMakesErrors holds that keys which occur twice do not make an error for each pair.
func TestYAMLThatMakesErrors(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	module := mustCompile(t, head+`deny contains "valid" if yaml.is_valid(input.params.text)
deny contains "is" if not yaml.is_valid(input.params.text)`)
	for _, text := range []string{strings.Repeat("a: 1\n", 1000), strings.Repeat("? \n", 1500), "{" + strings.Repeat("a,", 2500) + "}", strings.Repeat("? []\n: 1\n", 300)} {
		before := isolated.Allocated()
		got, err := module.Eval(input(t, map[string]any{"params": map[string]any{"text": text}}), Limits{})
		if took := isolated.Allocated() - before; took > 16<<20 {
			t.Errorf("%.20q takes %d MB", text, took>>20)
		}
		if err != nil || len(got) != 1 || got[0].Message != "is" {
			t.Errorf("%.20q: %v, %v", text, got, err)
		}
	}
}
