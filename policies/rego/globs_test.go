package rego

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// globAnswer is what a guard knows of glob.match.
func globAnswer(t *testing.T, pattern, delimiters, subject *ast.Term) (matches bool, err error) {
	t.Helper()
	known, err := pay(globbed, []*ast.Term{pattern, delimiters, subject}, nil)
	if err != nil {
		return false, err
	}
	if known == nil {
		t.Fatalf("%v: the function is called", pattern)
	}
	return known.Equal(ast.InternedTerm(true)), nil
}

// TestGlobs compares globs with those of OPA.
func TestGlobs(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
	text := func(most int, of ...string) *ast.Term {
		var made strings.Builder
		for range draw.IntN(most) {
			made.WriteString(of[draw.IntN(len(of))])
		}
		return ast.StringTerm(made.String())
	}
	all := []*ast.Term{ast.NullTerm(), ast.ArrayTerm(), ast.ArrayTerm(ast.StringTerm("."), ast.StringTerm("é")), ast.ArrayTerm(ast.StringTerm("a"))}
	outcomes := map[bool]int{}
	for range 200_000 {
		pattern := text(9, "a", "b", ".", "é", "*", "*", "**", "?", "{", "}", ",", "[", "]", "!", "-", "\\", "[a-b]", "[!é]", "{a,", "[.a]", "\xff")
		delimiters, subject := all[draw.IntN(len(all))], text(7, "a", "b", ".", "é", "\xff", "]", "-", "{", ",")
		var want *ast.Term
		wrong := topdown.GetBuiltin("glob.match")(topdown.BuiltinContext{Context: t.Context()}, []*ast.Term{pattern, delimiters, subject}, func(term *ast.Term) error {
			want = term
			return nil
		})
		got, err := globAnswer(t, pattern, delimiters, subject)
		if (err == nil) != (wrong == nil) || err == nil && !want.Equal(ast.InternedTerm(got)) {
			t.Fatalf("%v, delimiters %v, text %v: %v, %v, want %v, %v", pattern, delimiters, subject, got, err, want, wrong)
		}
		if err == nil {
			outcomes[got]++
		}
	}
	if outcomes[true] < 1000 || outcomes[false] < 1000 {
		t.Errorf("too few of one outcome: %v", outcomes)
	}
}

// TestGlobsEnd holds that a pattern with many wildcards takes no longer than it is charged.
func TestGlobsEnd(t *testing.T) {
	subject := ast.StringTerm(strings.Repeat("a", 60))
	for _, pattern := range []string{strings.Repeat("*a", 25) + "*b*", strings.Repeat("{a,aa,*}", 25) + "*b*", strings.Repeat("{*,", 25) + "b" + strings.Repeat("}", 25) + "*b*"} {
		if matches, err := globAnswer(t, ast.StringTerm(pattern), ast.ArrayTerm(), subject); matches || err != nil {
			t.Errorf("%s: %v, %v", pattern, matches, err)
		}
	}
}
