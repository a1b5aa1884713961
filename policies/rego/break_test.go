package rego

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
)

const breaking = `package test

limit := input.params.limit

total(values) := result if {
	result := sum(values)
}

names contains name if {
	some disk in input.params.disks
	name := disk.name
}

deny contains msg if {
	some i
	disk := input.params.disks[i]
	size := disk.size
	more := size + 1
	more > limit
	msg := sprintf("%s is %d of %d", [disk.name, size, total([d.size | some d in input.params.disks])])
}
`

func stopsOf(t *testing.T, module *Module, variable string) (lines []string) {
	t.Helper()
	params := map[string]any{"limit": 8, "disks": []any{map[string]any{"name": "a", "size": 8}, map[string]any{"name": "b", "size": 8}, map[string]any{"name": "c", "size": 2}}}
	stops, more, err := module.Break(input(t, map[string]any{"params": params}), Limits{}, variable)
	if err != nil || more {
		t.Fatal(more, err)
	}
	for _, s := range stops {
		line := fmt.Sprintf("%d %s: %s", s.Line, s.Text, s.Value)
		for _, in := range s.Inputs {
			line += fmt.Sprintf(" | %s = %s", in.Text, in.Value)
		}
		lines = append(lines, line)
	}
	return lines
}

// A variable has a stop for each value, also for equal ones, with what its expression reads.
func TestBreak(t *testing.T) {
	t.Parallel()
	module := mustCompile(t, breaking)
	for variable, want := range map[string][]string{
		"more": {
			"18 more := size + 1: 9 | size = 8",
			"18 more := size + 1: 9 | size = 8",
			"18 more := size + 1: 3 | size = 2",
		},
		"limit":  {"3 limit := input.params.limit: 8 | input.params.limit = 8"},
		"result": {"6 result := sum(values): 18 | values = [8,8,2]"},
		"name":   nil, // nothing reads names
	} {
		if diff := cmp.Diff(want, stopsOf(t, module, variable)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", variable, diff)
		}
	}
	if diff := cmp.Diff([]string{"d", "deny", "disk", "i", "limit", "more", "msg", "name", "names", "result", "size", "total", "values"}, module.Variables()); diff != "" {
		t.Error(diff)
	}
	disks := stopsOf(t, module, "disk")
	if len(disks) != 3 || !strings.Contains(disks[1], `{"name":"b","size":8} | input.params.disks[1] = {"name":"b","size":8}`) {
		t.Errorf("%q", disks)
	}
}

// Stops and their values are bounded.
func TestBreakBounds(t *testing.T) {
	t.Parallel()
	module := mustCompile(t, "package test\n\ndeny contains msg if {\n\tsome i in numbers.range(1, 150)\n\tlong := input.params.long\n\tmsg := sprintf(\"%d%d\", [i, count(long)])\n}\n")
	in := input(t, map[string]any{"params": map[string]any{"long": strings.Repeat("x", 5000)}})
	stops, more, err := module.Break(in, Limits{}, "i")
	if len(stops) != MaxStops || !more || err != nil {
		t.Errorf("%d stops, more: %v, %v", len(stops), more, err)
	}
	stops, _, err = module.Break(in, Limits{}, "long")
	if len(stops) != MaxStops || stops[0].Value != nil || len(stops[0].Inputs) != 1 || stops[0].Inputs[0].Value != nil || err != nil {
		t.Errorf("%+v %v", stops[0], err)
	}
}

// TestShownValue: a value is shown up to a size of its JSON, whatever it consists of.
func TestShownValue(t *testing.T) {
	digits := make([]*ast.Term, (maxStopValue-1)/2) // with the commas, and one bracket more than a comma
	for i := range digits {
		digits[i] = ast.InternedTerm(1)
	}
	for name, test := range map[string]struct {
		value ast.Value
		shown bool
	}{
		"the largest text": {ast.String(strings.Repeat("a", maxStopValue-2)), true},
		"a larger text":    {ast.String(strings.Repeat("a", maxStopValue-1)), false},
		"the longest list": {ast.NewArray(digits...), true},
		"a longer list":    {ast.NewArray(append(slices.Clip(digits), ast.InternedTerm(1))...), false},
		"a whole document": {ast.NewArray(ast.StringTerm(strings.Repeat("a", 1<<20))), false},
		"an escaped text":  {ast.String(strings.Repeat("<", maxStopValue/2)), false},
		"null":             {ast.Null{}, true},
	} {
		if got := shownValue(test.value); (got != nil) != test.shown {
			t.Errorf("%s: %d bytes shown", name, len(got))
		}
	}
}
