package rego

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// comparedTimes is how often each module of comparisons compares a list, at least.
const comparedTimes = 20

// comparisons are modules with each shape in which the evaluator compares values within one step. In each, a and b are lists that differ in
// their last element, and a and c are the same.
func comparisons() map[string]string {
	r := fmt.Sprintf("r := numbers.range(1, %d)\na := input.object.a\n", comparedTimes)
	d := func(body, rules string) string {
		return r + rules + "\ndeny contains \"a\" if { some i in r; " + body + "; i < 0 }"
	}
	return map[string]string{
		// Searches among the elements and the keys of rules.
		"an element of a rule":        d("s[a]", "s contains x if x = input.oldObject.b"),
		"no element of a rule":        d("not s[a]", "s contains x if x = input.oldObject.b"),
		"an element of many":          d("s[a]", "s contains x if { some j in r; x = input.oldObject.b; j < 30 }"),
		"an element by a pattern":     d("s[[a, i]]", "s contains [x, y] if { x = input.oldObject.b; some y in r }"),
		"an element of a list":        d("s[a]", "s contains x if x = input.oldObject.list[_]"),
		"an element that is returned": d("s[a]", "f(x) := x\ns contains x if x = f(input.oldObject.b)"),
		"an element that is given":    d("s[a]", "f(x) := y if y = x\ns contains x if f(input.oldObject.b, x)"),
		"a key of a rule":             d("p[a]", "p[x] := 1 if x = input.oldObject.b"),
		"a key of a nested rule":      d("p[1][a]", "p[1][x] := 1 if x = input.oldObject.b"),
		"a key below a key of a rule": d("p[i][a]", "p[y][x] := 1 if { some y in r; x = input.oldObject.b }"),
		"a key above a key of a rule": d("p[a][i]", "p[x][y] := 1 if { some y in r; x = input.oldObject.b }"),
		"a set below a key of a rule": d("p[1][a]", "p[y] contains x if { some y in [1]; x = input.oldObject.b }"),
		// Searches in values.
		"an element of a set":     d("{x | some x in input.oldObject.pair}[a]", ""),
		"a key of an object":      d("{x: 1 | some x in input.oldObject.pair}[a] == 1", ""),
		"an element of a literal": d("q := input.oldObject.c; s := {q, i}; s[a]", ""),
		"a pattern in a set":      d("s[[a, y]]; y < 0", "s := {[x, 1] | some x in input.oldObject.list}"),
		"object.get":              d("object.get({\"a\": 1}, [a], 0) == 0", ""),
		// What a set, an object, a rule or a function has more than once.
		"elements of a set":             d("{y | some j in r; y := [input.object.a, input.oldObject.c][j % 2]}[i]", ""),
		"values of an object":           d("{1: y | some y in input.oldObject.pair}[i]", ""),
		"elements of a rule, twice":     d("s[_] == i", "s contains y if { some j in r; y := [input.object.a, input.oldObject.c][j % 2] }"),
		"values of a rule":              d("p[i]", "p[1] := y if { some j in r; y := [input.object.a, input.oldObject.c][j % 2] }"),
		"results of a rule":             d("c == i", "c := y if { some j in r; y := [input.object.a, input.oldObject.c][j % 2] }"),
		"results of two rules":          d("f(i) == i", "f(x) := input.object.a if x > 0\nf(x) := input.oldObject.c if x > 0"),
		"results of a function":         d("f(i) == i", "f(x) := y if { x > 0; some y in input.oldObject.pair }"),
		"results of an else":            d("f(i) == i", "f(x) := 1 if x < 0 else := y if { x > 0; some y in input.oldObject.pair }"),
		"results that are not compared": d("f(i)", "f(x) := y if { x > 0; some y in input.oldObject.pair }"),
		// Patterns.
		"a variable twice":              d("[x, x] = input.oldObject.pair; is_number(x)", ""),
		"a variable twice in an object": d("{\"a\": x, \"b\": x} = input.oldObject.object; is_number(x)", ""),
		"a value in a pattern":          d("[a, x] = input.oldObject.pair; is_number(x)", ""),
		"a value in an object":          d("{\"a\": a, \"b\": x} = input.oldObject.object; is_number(x)", ""),
		"an argument twice":             d("f(a, input.oldObject.c)", "f(x, x) if is_number(x)"),
		"an argument with a pattern":    d("f(input.oldObject.pair)", "f([x, x]) if is_number(x)"),
		"an argument with an object":    d("f(input.oldObject.object)", "f({\"a\": x, \"b\": x}) if is_number(x)"),
		"an argument":                   d("f([a, i]) == 1", "f(x) := 1 if is_array(x)"),
		"what a function returns":       d("object.get(input.oldObject, \"b\", 0, a)", ""),
		"what a rule returns":           d("f(i, a)", "f(x) := y if { y = input.oldObject.b; x > 0 }"),
		"what a rule does not return":   d("not f(i, a)", "f(x) := y if { y = input.oldObject.b; x > 0 }"),
		"a list in an index":            d("f(i)", "f(x) if { \"nothing\" in input.object.a; x > 0 }"),
		// Bodies within bodies.
		"every":               d("every x in [a] { x == input.oldObject.b }", ""),
		"every, and elements": d("every x in [a] { x == input.oldObject.list[_] }", ""),
		"negation":            d("not a == input.oldObject.c", ""),
		"a comprehension":     d("[1 | a == input.oldObject.c][i]", ""),
		"an equality":         d("a == input.oldObject.c; i < 0", ""),
		"some in":             d("some x in input.oldObject.pair; x == a; i < 0", ""),
		"a member":            d("a in input.oldObject.list", ""),
	}
}

// comparedDocuments are documents with lists of a length.
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
		"oldObject": map[string]any{"b": list("b"), "c": list("a"), "list": []any{list("b"), list("c")}, "pair": []any{list("a"), list("a")}, "object": map[string]any{"a": list("a"), "b": list("a")}},
	}
}

// TestComparisonsAreSteps holds that what the evaluator compares is charged for its size. The same module is evaluated with short and with
// long lists: each comparison of long lists costs more by the difference.
func TestComparisonsAreSteps(t *testing.T) {
	const short, long, element = 10, 2000, perValue + 8
	all := comparisons()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, head+strings.TrimSpace(all[name]))
			steps := func(length int) int {
				_, spent, err := module.Measure(input(t, comparedDocuments(length)), Limits{Steps: math.MaxInt / 2, Bytes: math.MaxInt / 2})
				if err != nil {
					t.Fatal(err)
				}
				return spent.Steps
			}
			few, many := steps(short), steps(long)
			least := comparedTimes * (long - short) * element / comparedPerStep
			t.Logf("%d and %d steps", few, many)
			if many-few < least {
				t.Errorf("%d more comparisons of %d elements cost %d steps, want at least %d", comparedTimes, long-short, many-few, least)
			}
		})
	}
}

// afterOthers is a module that searches for 0 in a set of integers in which another value has the hash of 0.
func afterOthers(other string) string {
	return "s := {x | some x in array.concat([" + other + "], numbers.range(1, 5000))} | {0}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); s[0]; i < 0 }"
}

// TestCollisionsAreSteps holds that searches pay for the values with the same hash, and references for the rules that they compare.
func TestCollisionsAreSteps(t *testing.T) {
	many := func(count int, format string) string {
		var rules strings.Builder
		for i := range count {
			fmt.Fprintf(&rules, format+"\n", i)
		}
		return rules.String()
	}
	for name, c := range map[string]struct {
		module string
		least  int
	}{
		"fractions in arguments":      {"f(x) if x < 0\ndeny contains \"a\" if { some i in numbers.range(1, 300); f(i / 7000) }", 50_000},
		"fractions in a set":          {"s contains i / 7000 if some i in numbers.range(1, 300)\ndeny contains \"a\" if count(s) < 0", 50_000},
		"a fraction in integers":      {"s := {i | some i in numbers.range(1, 5000)}\ndeny contains \"a\" if { some i in numbers.range(1, 100); s[i + 0.5] }", 100 * 5000 / integersPerStep},
		"a list in indices":           {"s := {i | some i, _ in input.params}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); s[[i - i, 1]] }", 1000 * 3000 / besidePerStep},
		"a list in counts":            {"s := {n | some i in numbers.range(1, 1000); n := count(substring(sprintf(\"%1000d\", [1]), 0, i))} | {input.params}\ndeny contains \"a\" if { some i in numbers.range(1, 5000); s[[i - i, 1]] }", 200_000},
		"a list in a constant":        {"s := {" + many(3000, "%d,") + "-1}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); s[[[i - i, 1], input.params][i - i]] }", 1000 * 3000 / besidePerStep},
		"a boolean in integers":       {"s := {i | some i in numbers.range(1, 5000)} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); x := i > 0; s[x] }", 1000 * 5000 / besidePerStep},
		"true in integers":            {"s := {i | some i in numbers.range(1, 5000)} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); not s[true]; i < 0 }", 1000 * 5000 / besidePerStep},
		"booleans beside integers":    {"deny contains \"a\" if count({x | some i in numbers.range(1, 6000); x := [i, i > 0][ceil(i / 6000 - 0.5)]}) < 0", 400_000},
		"null in integers":            {"s := {i | some i in numbers.range(1, 5000)} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); not s[null]; i < 0 }", 1000 * 5000 / besidePerStep},
		"an integer after a boolean":  {afterOthers("false"), 60_000},
		"an integer after null":       {afterOthers("null"), 60_000},
		"an integer after fractions":  {afterOthers("0.5"), 60_000},
		"an integer after a list":     {afterOthers("[]"), 60_000},
		"an integer in a literal":     {"s := {false, " + many(5000, "%d,") + "0}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); s[0]; i < 0 }", 1000 * 5000 / nearPerStep},
		"an integer in fractions":     {"s := {" + many(4000, "%d.5,") + "0.25}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); not s[0]; i < 0 }", 1000 * 4000 / nearPerStep},
		"an integer in list literals": {"s := {" + many(3000, "[%d],") + "[-1]} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 10000); not s[1]; i < 0 }", 10_000 * 3000 / nearPerStep},
		"a text in list literals":     {"s := {" + many(3000, "[\"a\", %d],") + "[\"a\"]} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 10000); not s[\"a\"]; i < 0 }", 10_000 * 3000 / nearPerStep},
		"an integer in lists":         {"s := {[i] | some i in numbers.range(1, 5000)} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); not s[1]; i < 0 }", 70_000},
		"a text in lists":             {"s := {[\"a\", i] | some i in numbers.range(1, 5000)} | {input.params[0]}\ndeny contains \"a\" if { some i in numbers.range(1, 1000); not s[\"a\"]; i < 0 }", 70_000},
		"lists with one sum":          {"s contains [i, 1000 - i] if some i in numbers.range(1, 400)\ndeny contains \"a\" if count(s) < 0", 4_000},
		"lists with sums in turn":     {"s contains [i, 1] if some i in numbers.range(1, 400)\ndeny contains \"a\" if { some i in numbers.range(1, 20); count(s) > 0; s[[i, 2]]; i < 0 }", 800},
		"a union of lists":            {"s := {[i, 1000 - i] | some i in numbers.range(1, 400)}\ndeny contains \"a\" if { some i in numbers.range(1, 20); count(s | {[i, 1]}) < 0 }", 40_000},
		"members of an object":        {"p[i] := 1 if some i in numbers.range(1, 1000)\ndeny contains \"a\" if count(p) < 0", 7_000},
		"keys of an object, again":    {"deny contains \"a\" if { x := {i % 200: 1 | some i in numbers.range(1, 2000)}; count(x) < 0 }", 10_000},
		"an element of many rules":    {many(100, "s contains %d") + "deny contains \"a\" if { some i in numbers.range(1, 50); s[-i] }", 5_000},
		"patterns of many functions":  {many(100, "f({\"a\": -%d, \"b\": x}) := x") + "deny contains \"a\" if { some i in numbers.range(1, 50); f({\"a\": i, \"b\": 1}) == 1 }", 5_000},
		"names below a name":          {many(64, "c.r%d := 1") + "deny contains \"a\" if { some i in numbers.range(1, 50); count(data.test.c) < i - 50 }", 50 * 64},
	} {
		t.Run(name, func(t *testing.T) {
			_, spent, err := mustCompile(t, head+c.module).Measure(input(t, map[string]any{"params": make([]int, 3000)}), Limits{Steps: math.MaxInt / 2, Bytes: math.MaxInt / 2})
			t.Logf("%d steps", spent.Steps)
			if err != nil || spent.Steps < c.least {
				t.Errorf("%d steps, want at least %d: %v", spent.Steps, c.least, err)
			}
		})
	}
}

// TestLargeLiteralsAreMadeOnce holds that a large literal has the values of its variables before it is used.
func TestLargeLiteralsAreMadeOnce(t *testing.T) {
	literal := "[" + strings.Repeat("x, ", largeLiteral) + "x]"
	for name, c := range map[string]struct {
		module string
		want   bool
	}{
		"a variable":          {"deny contains \"a\" if { x := input.requester; y := " + literal + "; y[0] == \"x\" }", true},
		"what a rule returns": {"c := " + literal + " if x := input.requester\ndeny contains \"a\" if c[0] == \"x\"", true},
		"an argument":         {"f(x) := x\ndeny contains \"a\" if { x := input.requester; f(" + literal + ") == 1 }", true},
		"a small one":         {"deny contains \"a\" if { x := input.requester; y := [x, x]; y[0] == \"x\" }", false},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, head+c.module)
			for _, compiled := range module.compiler.Modules {
				if got := strings.Contains(compiled.String(), makeName) || strings.Contains(compiled.String(), onceName); got != c.want {
					t.Errorf("it is made once: %v", got)
				}
			}
			if _, err := module.Eval(input(t, map[string]any{"requester": "alice"}), Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
}
