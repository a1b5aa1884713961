package rego

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// TestEveryBuiltinIsDecided fails when OPA has a function that nobody has decided about: it belongs into pure, with a
// guard if it can build more than it is given, or into refused, with the reason.
func TestEveryBuiltinIsDecided(t *testing.T) {
	allowed, missing := pure(), refused()
	known := map[string]bool{}
	for _, b := range ast.CapabilitiesForThisVersion().Builtins {
		known[b.Name] = true
		_, isMissing := missing[b.Name]
		switch isAllowed := slices.Contains(allowed, b.Name); {
		case isAllowed && isMissing:
			t.Errorf("%s is both allowed and refused", b.Name)
		case !isAllowed && !isMissing:
			t.Errorf("nobody has decided about %s: %s", b.Name, b.Description)
		case isAllowed && b.Nondeterministic:
			t.Errorf("%s is allowed, and not deterministic", b.Name)
		case isAllowed && b.IsDeprecated():
			t.Errorf("%s is allowed, and deprecated", b.Name)
		case isMissing && missing[b.Name] == "":
			t.Errorf("%s is refused without a reason", b.Name)
		}
	}
	for _, name := range slices.Concat(allowed, slices.Collect(keys(missing)), slices.Collect(keys(guarded()))) {
		if !known[name] {
			t.Errorf("OPA has no function %s", name)
		}
	}
	for name := range guarded() {
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

// TestGuardsAgreeWithTheFunctions calls every guarded function with arguments of its types, large and small: neither
// the guard nor the function panics, and what the function returns is not out of proportion to what the guard said.
func TestGuardsAgreeWithTheFunctions(t *testing.T) {
	arguments := []*ast.Term{
		ast.StringTerm(""), ast.StringTerm("a"), ast.StringTerm("7"), ast.StringTerm("2006"), ast.StringTerm("<"), ast.StringTerm(">"), ast.StringTerm("%s%d"), ast.StringTerm("[\"a\"]"), ast.StringTerm("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		ast.IntNumberTerm(0), ast.IntNumberTerm(-3), ast.IntNumberTerm(400), ast.NumberTerm("99999999999999999999999999"),
		ast.ArrayTerm(), ast.ArrayTerm(ast.StringTerm("b"), ast.StringTerm("c")), ast.ArrayTerm(ast.IntNumberTerm(4), ast.IntNumberTerm(7)),
		ast.SetTerm(ast.StringTerm("b")), ast.SetTerm(ast.SetTerm(ast.StringTerm("b"))), ast.ArrayTerm(ast.ObjectTerm()),
		ast.ObjectTerm(), ast.ObjectTerm([2]*ast.Term{ast.StringTerm("a"), ast.StringTerm("dd")}), ast.NullTerm(), ast.BooleanTerm(true),
	}
	for name, check := range guarded() {
		t.Run(name, func(t *testing.T) {
			arity := ast.BuiltinMap[name].Decl.Arity()
			called := 0
			draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
			for range 1_000 * arity * arity * arity {
				operands := make([]*ast.Term, arity)
				for j := range operands {
					operands[j] = arguments[draw.IntN(len(arguments))]
				}
				bytes, err := check(operands)
				if err != nil {
					continue
				}
				_ = topdown.GetBuiltin(name)(topdown.BuiltinContext{Cancel: newBudget(DefaultLimits())}, operands, func(result *ast.Term) error {
					called++
					if got := weight(result); got > 64*(bytes+weight(operands...)+16) {
						t.Errorf("%v: the guard said %d bytes, and the result has %d", operands, bytes, got)
					}
					return nil
				})
			}
			if called == 0 {
				t.Error("no arguments were right: the test says nothing about this function")
			}
		})
	}
}
