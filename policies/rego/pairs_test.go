package rego

import (
	"fmt"
	"strings"
	"testing"
)

// TestPairs holds that a module has no sets and objects whose elements the parser compares with each other for long.
func TestPairs(t *testing.T) {
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
		many   bool
	}{
		"lists":                      {set(600, "[N, -N]"), true},
		"sets":                       {set(600, "{N, -N}"), true},
		"objects":                    {set(600, "{N: -N}"), true},
		"calls":                      {set(600, "f(N, -N)"), true},
		"references":                 {set(600, "input.params.N"), true},
		"variables and indices":      {set(600, "x[N]"), true},
		"sums":                       {set(600, "x + N"), true},
		"fractions":                  {set(600, "0.N"), true},
		"negative fractions":         {set(600, "-0.N"), true},
		"exponents":                  {set(600, "1eN"), true},
		"long integers":              {set(600, "1000000000000000000N"), true},
		"keys of an object":          {set(600, "[N]: 1"), true},
		"lists among integers":       {"s := {" + repeated(100, "[N, 1]") + repeated(3000, "N") + "1}", true},
		"in several sets":            {set(400, "[N]") + "\nt" + set(400, "[N]"), true},
		"in a text":                  {"s := $\"a { {" + repeated(600, "[N]") + "1} }\"", true},
		"in a raw text":              {"s := $`a \\{ { {" + repeated(600, "[N]") + "1} }`", true},
		"after a text":               {"t := $\"a \\{ \\\" { \"}\" } \"\n" + set(600, "[N]"), true},
		"after a comment":            {"# { \" ` [\n" + set(600, "[N]"), true},
		"after quotes":               {"t := \"\\\"{\"\nu := `\"{`\n" + set(600, "[N]"), true},
		"lists in a list":            {"s := [" + repeated(5000, "[N, -N]") + "1]", false},
		"values of an object":        {set(5000, "\"N\": [N, 0.5]"), false},
		"texts":                      {set(5000, "\"a, N\""), false},
		"integers":                   {set(5000, "-N"), false},
		"few lists":                  {set(400, "[N, -N]"), false},
		"lists in a text":            {"s := \"{" + repeated(600, "[N]") + "}\"", false},
		"lists in a comment":         {"# {" + repeated(600, "[N]"), false},
		"expressions of rules":       {"f {\n" + strings.Repeat("  x[1] == input.params.list[2]\n", 1000) + "}", false},
		"variables of a rule":        {"f {\n" + strings.Repeat("  some i, x in input.params.list\n", 1000) + "}", false},
		"brackets that do not match": {"}])" + set(10, "[N]") + "([{", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := pairs(head + c.module)
			if many := len(got) == 1 && strings.Contains(got[0].Message, "write lists instead of sets"); many != c.many || len(got) > 0 && got[0].Line < 2 {
				t.Errorf("%+v, want too many: %v", got, c.many)
			}
		})
	}
	if _, problems := Compile("policy", head+set(600, "[N, -N]")); len(problems) != 1 || problems[0].Line != 2 || problems[0].Column != 6 {
		t.Errorf("%+v", problems)
	}
}
