package rego

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// comparison is a module that compares values of the documents often.
type comparison struct {
	module string
	// times is how often it compares a list, at least.
	times int
}

// comparisons are modules with each shape in which the evaluator compares values within one step. In each, a and b are lists that differ in
// their last element, and a and c are the same.
func comparisons() map[string]comparison {
	const loops = 20
	r := "r := numbers.range(1, 20)\na := input.object.a\n"
	d := func(body, rules string) comparison {
		return comparison{r + rules + "\ndeny contains \"a\" if { some i in r; " + body + "; i < 0 }", loops}
	}
	return map[string]comparison{
		"an element of a rule":        d("s[a]", "s contains x if x = input.oldObject.b"),
		"no element of a rule":        d("not s[a]", "s contains x if x = input.oldObject.b"),
		"an element of many":          d("s[a]", "s contains x if { some j in r; x = input.oldObject.b; j < 30 }"),
		"a key of a rule":             d("p[a]", "p[x] := 1 if x = input.oldObject.b"),
		"a key of a nested rule":      d("p[1][a]", "p[1][x] := 1 if x = input.oldObject.b"),
		"a key below a key of a rule": d("p[i][a]", "p[y][x] := 1 if { some y in r; x = input.oldObject.b }"),
		"an element of a list":        d("s[a]", "s contains x if x = input.oldObject.list[_]"),
		"an argument":                 d("f([a, i]) == 1", "f(x) := 1 if is_array(x)"),
	}
}

// weighTestDocuments are documents with lists of a length.
func comparedDocuments(length int) map[string]any {
	list := func(last string) []any {
		made := make([]any, length, length+1)
		for i := range made {
			made[i] = fmt.Sprintf("%08d", i)
		}
		return append(made, last)
	}
	return map[string]any{
		"object":    map[string]any{"a": list("a")},
		"oldObject": map[string]any{"b": list("b"), "c": list("a"), "list": []any{list("b"), list("c")}, "pair": []any{list("a"), list("a")}},
	}
}

// TestComparisonsAreSteps holds that what the evaluator compares is charged for its size. The same module is evaluated with short and with
// long lists: each comparison of long lists costs more by the difference.
func TestComparisonsAreSteps(t *testing.T) {
	const short, long, element = 10, 2000, perValue + 8
	all := comparisons()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			c := all[name]
			module := mustCompile(t, head+strings.TrimSpace(c.module))
			steps := func(length int) int {
				_, spent, err := module.Measure(input(t, comparedDocuments(length)), Limits{Steps: math.MaxInt / 2, Bytes: math.MaxInt / 2})
				if err != nil {
					t.Fatal(err)
				}
				return spent.Steps
			}
			few, many := steps(short), steps(long)
			least := c.times * (long - short) * element / comparedPerStep
			t.Logf("%d and %d steps", few, many)
			if many-few < least {
				t.Errorf("%d more comparisons of %d elements cost %d steps, want at least %d", c.times, long-short, many-few, least)
			}
		})
	}
}
