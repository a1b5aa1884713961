package rego

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// TestPairs holds that a module has no sets and objects whose elements the parser compares with each other for long.
func TestPairs(t *testing.T) {
	const none, sets, whole = "", "write lists instead of sets", "write texts instead"
	repeated := func(n int, format string) string {
		var made strings.Builder
		for i := range n {
			fmt.Fprintf(&made, strings.ReplaceAll(format, "N", "%[1]d")+", ", i)
		}
		return made.String()
	}
	set := func(n int, format string) string { return "s := {" + repeated(n, format) + "1}" }
	for name, c := range map[string]struct {
		module string
		want   string
	}{
		"lists":                      {set(600, "[N, -N]"), sets},
		"sets":                       {set(600, "{N, -N}"), sets},
		"objects":                    {set(600, "{N: -N}"), sets},
		"calls":                      {set(600, "f(N, -N)"), sets},
		"references":                 {set(600, "input.params.N"), sets},
		"variables and indices":      {set(600, "x[N]"), sets},
		"sums":                       {set(600, "x + N"), sets},
		"fractions":                  {set(600, "0.N"), sets},
		"negative fractions":         {set(600, "-0.N"), sets},
		"exponents":                  {set(600, "1eN"), sets},
		"long integers":              {set(600, "1000000000000000000N"), sets},
		"keys of an object":          {set(600, "[N, -N]: 1"), sets},
		"lists among integers":       {"s := {" + repeated(100, "[N, 1]") + repeated(3000, "N") + "1}", sets},
		"in several sets":            {set(400, "[N, -N]") + "\nt" + set(400, "[N, -N]"), sets},
		"in a text":                  {"s := $\"a { {" + repeated(600, "[N, -N]") + "1} }\"", sets},
		"in a raw text":              {"s := $`a \\{ { {" + repeated(600, "[N, -N]") + "1} }`", sets},
		"after a text":               {"t := $\"a \\{ \\\" { \"}\" } \"\n" + set(600, "[N, -N]"), sets},
		"after a comment":            {"# { \" ` [\n" + set(600, "[N, -N]"), sets},
		"after quotes":               {"t := \"\\\"{\"\nu := `\"{`\n" + set(600, "[N, -N]"), sets},
		"booleans among integers":    {"s := {" + repeated(3000, "N") + strings.Repeat("true, ", 3000) + "null}", sets},
		"lists with texts, one hash": {set(600, "[\"a\", N, -N]"), sets},
		"objects with a key twice":   {set(600, "{\"a\": \"N\", \"a\": [N, -N]}"), sets},
		"objects with equal keys":    {set(600, "{0: N, -0: 1}"), sets},
		"sets of equal integers":     {set(600, "{N, N, -N}"), sets},
		"long fractions":             {set(100, "0.N"+strings.Repeat("7", 240)), sets},
		"long lists":                 {set(400, "["+strings.Repeat("1, ", 40)+"N, -N]"), sets},
		"after a field some":         {set(1, "input.params[\"y\"].some, "+repeated(600, "0.N")), sets},
		"after a field every":        {set(1, "input.params[\"y\"]. # some\n every, "+repeated(600, "[N, -N]")), sets},
		"in a list":                  {"s := [" + repeated(600, "0.N") + "1]", whole},
		"after a point":              {"s := [" + repeated(600, ".N") + "1]", whole},
		"after a point and a line":   {"s := [" + repeated(600, ". # 1\n N") + "1]", whole},
		"negative, in a list":        {"s := [" + repeated(600, "-1.N") + "1]", whole},
		"of 20 digits":               {"s := [" + repeated(150, "0.N77777777777777777777") + "1]", whole},
		"of 240 digits":              {"s := [" + repeated(65, "0.N"+strings.Repeat("7", 240)) + "1]", whole},
		"above all floats":           {"s := [" + repeated(70, "9N"+strings.Repeat("7", 200)+".5") + "1]", whole},
		"above all integers":         {"s := [" + repeated(150, "1000000000000000000N") + "1]", whole},
		"small exponents":            {"s := [" + repeated(70, "7Ne-300") + "1]", whole},
		"in rules":                   {strings.ReplaceAll(repeated(600, "p if input.params == 0.N"), ", ", "\n"), whole},
		"as keys of rules":           {strings.ReplaceAll(repeated(500, "p[0.N] := 1"), ", ", "\n"), whole},
		"lists in a list, one hash":  {"s := [" + repeated(600, "[N, -N]") + "1]", whole},
		"sets in a list, one hash":   {"s := [" + repeated(600, "{N, -N}") + "1]", whole},
		"sets of fractions":          {"s := [" + repeated(600, "{N.5, -N.5}") + "1]", whole},
		"objects in a list":          {"s := [" + repeated(600, "{N.5: -N}") + "1]", whole},
		"objects, a key twice":       {"s := [" + repeated(600, "{\"a\": \"N\", \"a\": 1}") + "1]", whole},
		"501 fractions":              {"s := [" + repeated(501, "0.N") + "1]", whole},
		"500 fractions":              {"s := [" + repeated(500, "0.N") + "1]", none},
		"86 numbers of 100 digits":   {"s := [" + repeated(86, "1."+strings.Repeat("7", 97)+"%02[1]d") + "1]", whole},
		"85 numbers of 100 digits":   {"s := [" + repeated(85, "1."+strings.Repeat("7", 97)+"%02[1]d") + "1]", none},
		"500 calls":                  {"s := {" + repeated(500, "f(N, -N)") + "}", none},
		"501 calls":                  {"s := {" + repeated(501, "f(N, -N)") + "}", sets},
		"354 lists of 8":             {"s := [" + repeated(354, `["a", "a", "a", "a", "a", "a", N, -N]`) + "1]", whole},
		"353 lists of 8":             {"s := [" + repeated(353, `["a", "a", "a", "a", "a", "a", N, -N]`) + "1]", none},
		"equal integers":             {"s := {true, " + strings.Repeat("7, ", 3000) + "1}", none},
		"one fraction often":         {"s := [" + strings.Repeat("0.5, 0.25, 0, 1, ", 5000) + "1]", none},
		"integers often":             {"s := [" + strings.Repeat("0, 1, ", 20000) + "1]", none},
		"few long fractions":         {"s := [" + repeated(50, "0.N"+strings.Repeat("7", 240)) + "1]", none},
		"many fractions":             {"s := [" + repeated(5000, "N.5") + "1]", none},
		"objects with texts":         {set(2000, "{\"name\": \"aN\", \"vlan\": N}"), none},
		"lists with texts":           {set(3000, "[\"aN\", N, true]"), none},
		"lists that follow":          {set(3000, "[N]"), none},
		"sets of texts":              {"s := [" + repeated(900, "{\"a\", \"aN\"}") + "1]", none},
		"booleans and integers":      {set(3000, "N") + "\nt := {true, false, null, 0, 1}", none},
		"lists in a list":            {"s := [" + repeated(400, "[N, -N]") + "1]", none},
		"values of an object":        {set(3000, "\"N\": [N, 0.5]"), none},
		"texts":                      {set(5000, "\"a, N\""), none},
		"integers":                   {set(5000, "-N"), none},
		"few lists":                  {set(400, "[N, -N]"), none},
		"lists in a text":            {"s := \"{" + repeated(600, "[N, -N]") + "}\"", none},
		"lists in a comment":         {"# {" + repeated(600, "[N, -N]"), none},
		"expressions of rules":       {"f {\n" + strings.Repeat("  x[1] == input.params.list[2]\n", 1000) + "}", none},
		"variables of a rule":        {"f {\n" + strings.Repeat("  some i, x in input.params.list\n", 1000) + "}", none},
		"brackets that do not match": {"}])" + set(10, "[N]") + "([{", none},
	} {
		t.Run(name, func(t *testing.T) {
			got := pairs(head + c.module)
			if c.want == none && len(got) > 0 || c.want != none && (len(got) != 1 || !strings.Contains(got[0].Message, c.want) || got[0].Line < 2) {
				t.Errorf("%+v, want: %s", got, c.want)
			}
		})
	}
	if _, problems := Compile("policy", head+set(600, "[N, -N]")); len(problems) != 1 || problems[0].Line != 2 || problems[0].Column != 6 {
		t.Errorf("%+v", problems)
	}
}

// TestLiteralValues compares the hashes that are read from the text of a module with those of OPA.
func TestLiteralValues(t *testing.T) {
	for text, hashed := range map[string]bool{
		"1": true, "-7": true, "- 7": true, "0.5": true, "-3.75": true, ".5": true, "1e3": true, "12e-1": true, "7E+2": true,
		"1000000000000000000000000000.5": true, "1e400": true, `"a"`: true, `"\u0061\n"`: true, "`a\\n`": true, "true": true, "false": true, "null": true,
		"[]": true, "{}": true, `[1, "a", [0.5, -2]]`: true, `{"a": 1, "b": [true]}`: true, `{7: {"c": "d"}}`: true, `{"a": {"b": {1, 2}}}`: true,
		"{1, 2, 1}": true, `{"a", "b", "a"}`: true, "[{1, 1}, # {\n 2]": true,
		"{0.5, 1}": false, "{[1], 2}": false, "{true, 1}": false, `{"a": 1, "a": 2}`: false, "{0: 1, -0: 2}": false, "{0.5: 1}": false, "[{0.5: 1}]": false,
	} {
		r := bracketReader{module: "[" + text + "]", open: []bracket{{}}}
		for r.next() {
		}
		got, want := r.closed.made(), ast.MustParseTerm("["+text+"]").Value.Hash()
		if got.variable || got.hashed() != hashed || hashed && got.hash != want {
			t.Errorf("%s: %+v, want the hash %d", text, got, want)
		}
	}
	for _, text := range []string{"x", "x.y", "f(1)", "(1)", "1 + 2", "3 - 2", "[1 | true]", "{x}", `{"a": x}`, `{"a": 1 | true}`, `$"a"`, `{"a": 1 + 2}`, `{"a": 3 - 2}`, "x[1]", `[$"{1}"]`} {
		r := bracketReader{module: "[" + text + "]", open: []bracket{{}}}
		for r.next() {
		}
		if got := r.closed.made(); !got.variable {
			t.Errorf("%s: %+v, want no value", text, got)
		}
	}
}

// TestAlikePairs holds that equal values are no pairs, and that each is compared with each different one.
func TestAlikePairs(t *testing.T) {
	for text, want := range map[string]int{"[0.5, 0.5, 0.5]": 0, "[0.5, 0.25]": 4, "[0.5, 0.25, 0.5]": 6, "[1.5, 0.5, -1.5]": 0, "[[1, 2], [2, 1], [3]]": 9} {
		r := bracketReader{module: text, open: []bracket{{}}}
		for r.next() {
		}
		if got, _ := alikePairs(r.constants); got != want {
			t.Errorf("%s: %d pairs, want %d", text, got, want)
		}
	}
}
