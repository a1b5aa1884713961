package rego

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// unscreened is a module that OPA always evaluates.
func unscreened(m *Module) *Module {
	bare := *m
	bare.screen = nil
	return &bare
}

// sameWithout holds that a module has the same violations, costs and errors without its screen.
func sameWithout(t *testing.T, m *Module, in *Input, limits Limits) {
	t.Helper()
	if m.screen != nil {
		m.screen.left.Store(0)
	}
	got, spent, err := m.Measure(in, limits)
	want, wanted, wantErr := unscreened(m).Measure(in, limits)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("with %+v, the violations differ (-OPA, +screen):\n%s", limits, diff)
	}
	if spent != wanted || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Errorf("with %+v: %+v, %v; by OPA: %+v, %v", limits, spent, err, wanted, wantErr)
	}
}

// screened reports whether the screen decides that no rule holds.
func screened(t *testing.T, m *Module, in *Input) bool {
	t.Helper()
	term, size, err := in.term(m.documents)
	if err != nil {
		t.Fatal(err)
	}
	budget := m.budget(Limits{}.withDefaults(size.bytes), size)
	return m.screen.holdsNone(term, &budget)
}

// screenDocuments have values of all types.
func screenDocuments() map[string]any {
	volume := func(name, image string) map[string]any {
		return map[string]any{"name": name, "containerDisk": map[string]any{"image": image}}
	}
	return map[string]any{
		"vm": map[string]any{
			"metadata": map[string]any{"labels": map[string]string{"app": "db", "team": "blue"}, "namespace": "default"},
			"spec": map[string]any{
				"architecture": "amd64",
				"domain": map[string]any{
					"cpu": map[string]any{"sockets": 1, "cores": 2, "threads": 1}, "memory": map[string]any{"guest": "8Gi"},
					"devices": map[string]any{"disks": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}},
				},
				"volumes": []any{volume("a", "quay.io/a:1"), volume("b", "quay.io/b:2"), map[string]any{"name": "c"}},
			},
		},
		"object": map[string]any{"none": nil, "off": false, "on": true, "one": 1, "uno": 1, "two": 2, "list": []any{1, 2, 3, 2}, "empty": []any{}, "pairs": []any{[]any{1, "a"}, []any{2, "b"}}},
		"params": map[string]any{"allowed": []string{"quay.io/", "ghcr.io/"}, "names": []string{"x", "y"}}, "requester": "alice",
	}
}

// TestScreen holds that modules have the same violations, steps and bytes with and without a screen, at each limit.
func TestScreen(t *testing.T) {
	for name, test := range map[string]struct {
		module string
		// none is whether the screen decides.
		none bool
	}{
		"a field that there is none of":     {`deny contains "x" if input.vm.spec.priorityClassName`, true},
		"a field of a field":                {`deny contains "x" if input.vm.spec.domain.firmware.bootloader`, true},
		"another value":                     {`deny contains "x" if input.vm.spec.architecture == "arm64"`, true},
		"another document":                  {`deny contains "x" if input.rollout.unknown`, true},
		"in both sets":                      {"deny contains \"x\" if input.requester == \"bob\"\nwarn contains \"y\" if input.rollout.unknown", true},
		"in one of them":                    {"deny contains \"x\" if input.requester == \"bob\"\nwarn contains \"y\" if input.vm.spec.architecture", false},
		"in one rule":                       {"deny contains \"x\" if input.rollout.unknown\ndeny contains \"y\" if input.requester", false},
		"a field that is there":             {`deny contains "x" if input.vm.spec.architecture == "amd64"`, false},
		"null":                              {`deny contains "x" if input.object.none == null`, false},
		"null is not false":                 {`deny contains "x" if input.object.none`, false},
		"false":                             {`deny contains "x" if input.object.off == false`, false},
		"false holds not":                   {`deny contains "x" if input.object.off`, true},
		"negation of a field there is none": {`deny contains "x" if not input.vm.spec.priorityClassName`, false},
		"negation":                          {`deny contains "x" if not input.vm.spec.architecture`, true},
		"negation of false":                 {`deny contains "x" if not input.object.off`, false},
		"no condition":                      {`deny contains "x"`, false},
		"a rule that depends on another":    {"deny contains \"x\" if found\nfound if input.rollout.unknown", true},
		"a rule twice":                      {"deny contains \"x\" if { found; found; input.object.off }\nfound if input.vm", true},
		"a rule that has no value, twice":   {"deny contains \"x\" if found\ndeny contains \"y\" if found\nfound if input.vm.spec.architecture == \"s390x\"", true},
		"a negated rule":                    {"deny contains \"x\" if { not found; input.object.off }\nfound if { some v in input.object.list; v > 5 }", true},
		"a default":                         {"default found := false\nfound if { some v in input.object.list; v > 5 }\ndeny contains \"x\" if found", true},
		"a default that holds":              {"default found := true\nfound := false if { some v in input.object.list; v > 5 }\ndeny contains \"x\" if found", false},
		"only a default":                    {"default found := false\ndeny contains \"x\" if found", true},
		"rules that agree":                  {"found := 1 if input.vm\nfound := 1 if input.object\ndeny contains \"x\" if found > 1", true},
		"rules that disagree":               {"found := 1 if input.vm\nfound := 2 if input.object\ndeny contains \"x\" if found > 1", false},
		"rules with variables that agree":   {"found := x if x := input.object.one\nfound := y if y := input.object.list[0]\ndeny contains \"x\" if found > 1", true},
		"a rule that disagrees with itself": {"found := x if x := input.object.list[_]\ndeny contains \"x\" if found > 5", false},
		"a part of a value":                 {"limits := {\"cpu\": 4}\ndeny contains \"x\" if input.vm.spec.domain.cpu.sockets > limits.cpu", true},
		"a part that there is none of":      {"limits := {\"cpu\": 4}\ndeny contains \"x\" if { some k in [\"memory\"]; limits[k] > 1 }", true},
		"one solution of many":              {"found if { some v in input.object.list; v > 0 }\ndeny contains \"x\" if { found; input.object.off }", true},
		"one solution of many, in a rule": {
			"found if { some v in input.object.list; other; v > 0 }\nother if { some w in input.object.list; w > 0 }\ndeny contains \"x\" if { found; input.object.off }", true,
		},
		"one solution, negated": {
			"found if { some v in input.object.list; not other; v > 0 }\nother if { some w in input.object.list; w > 5 }\ndeny contains \"x\" if { found; input.object.off }", true,
		},
		"values from a rule":               {"first := x if x := input.object.list[0]\nnext := y if y := first + 1\ndeny contains \"x\" if next > 2", true},
		"memory":                           {`deny contains "x" if units.parse_bytes(input.vm.spec.domain.memory.guest) > units.parse_bytes("8Gi")`, true},
		"product":                          {"vcpus := c.sockets * c.cores * c.threads if c := input.vm.spec.domain.cpu\ndeny contains sprintf(\"%d\", [vcpus]) if vcpus > 16", true},
		"images":                           {`deny contains "x" if { some i, v in input.vm.spec.volumes; image := v.containerDisk.image; not strings.any_prefix_match(image, input.params.allowed) }`, true},
		"images that are denied":           {`deny contains "x" if { some i, v in input.vm.spec.volumes; image := v.containerDisk.image; not strings.any_prefix_match(image, ["quay.io/a"]) }`, false},
		"labels":                           {"required := {\"app\", \"team\"}\ndeny contains concat(\", \", missing) if { missing := required - object.keys(input.vm.metadata.labels); count(missing) > 0 }", true},
		"a set":                            {"names := {v.name | some v in input.vm.spec.volumes}\ndeny contains d.name if { some d in input.vm.spec.domain.devices.disks; not d.name in names }", true},
		"a set by rules":                   {"names contains v.name if some v in input.vm.spec.volumes\nnames contains input.requester\ndeny contains d.name if { some d in input.vm.spec.domain.devices.disks; not d.name in names }", true},
		"a list":                           {`deny contains "x" if count([v | some v in input.object.list; v > 1]) > 3`, true},
		"an object in a function":          {`deny contains "x" if count(object.union({"a": input.requester}, {"b": 1})) > 5`, true},
		"a set in a function":              {`deny contains "x" if count({input.requester, input.object.one} | {2}) > 5`, true},
		"a list that is too long":          {`deny contains "x" if count([v | some v in input.object.list; v > 1]) > 2`, false},
		"an object":                        {`deny contains "x" if count({k: v | some k, v in input.vm.metadata.labels}) > 2`, true},
		"labels by name":                   {`deny contains k if { some k, v in input.vm.metadata.labels; v == "red" }`, true},
		"elements of a set":                {"allowed := {\"x\", \"y\"}\ndeny contains a if { some a in allowed; a == input.requester }", true},
		"a function":                       {"unpinned(p) if count(p) == 1\nunpinned(p) if p[count(p) - 1] == \"latest\"\ndeny contains v.name if { some v in input.vm.spec.volumes; unpinned(split(v.containerDisk.image, \":\")) }", true},
		"a function that returns":          {"double(x) := x * 2\ndeny contains \"x\" if { some v in input.object.list; double(v) > 6 }", true},
		"a function called again":          {"tag(i) := split(i, \":\")[1]\ndeny contains \"x\" if { some v in input.vm.spec.volumes; tag(v.containerDisk.image) == \"latest\" }\ndeny contains \"y\" if { some v in input.vm.spec.volumes; tag(v.containerDisk.image) == \"3\" }", true},
		"a function that is false":         {"is(x) := x > 5\ndeny contains \"x\" if { some v in input.object.list; is(v) }", true},
		"a function by its index":          {"class(\"amd64\") := 1\nclass(\"arm64\") := 2\ndeny contains \"x\" if class(input.vm.spec.architecture) == 2", true},
		"a function by a value":            {"class(a) := 1 if a == \"amd64\"\nclass(a) := 2 if a == \"arm64\"\ndeny contains \"x\" if class(input.vm.spec.architecture) > 1", true},
		"a function of none":               {"class(a) := 2 if a == \"arm64\"\ndeny contains \"x\" if class(input.vm.spec.architecture) > 1", true},
		"functions that disagree":          {"class(a) := 1 if a\nclass(a) := 2 if a != \"arm64\"\ndeny contains \"x\" if class(input.vm.spec.architecture) > 2", false},
		"pairs":                            {`deny contains "x" if { some p in input.object.pairs; p[0] > 5 }`, true},
		"patterns":                         {`deny contains "x" if { some p in input.object.pairs; [n, s] = p; n > 5 }`, true},
		"two fields":                       {`deny contains "x" if input.vm.metadata.namespace == input.vm.spec.architecture`, true},
		"two fields, negated":              {`deny contains "x" if not input.vm.metadata.namespace != input.vm.spec.architecture`, true},
		"lists that are equal":             {`deny contains "x" if input.object.list != [1, 2, 3, 2]`, true},
		"nothing in a list":                {`deny contains "x" if input.object.empty[_]`, true},
		"an index in both":                 {`deny contains "x" if { input.object.list[i]; input.vm.spec.volumes[i].name == "z" }`, true},
		"another set":                      {"deny contains \"x\" if count(warn) > 0\nwarn contains \"y\" if input.object.off", true},
		"another set, before":              {"deny contains \"x\" if input.object.off\nwarn contains \"y\" if count(deny) > 0", true},
		"a set with elements":              {"deny contains \"x\" if { count(warn) > 1 }\nwarn contains \"y\" if input.object.on", false},
		"every":                            {`deny contains "x" if { every v in input.object.list { v > 5 } }`, true},
		"with":                             {"found if input.requester == \"bob\"\ndeny contains \"x\" if found with input.requester as \"bob\"", false},
		"else":                             {"found := 1 if input.object.off\nelse := 2\ndeny contains \"x\" if found == 1", true},
		"an error":                         {`deny contains "x" if units.parse_bytes(input.requester) > 1`, false},
		"a pattern":                        {`deny contains "x" if regex.match("^b", input.requester)`, true},
		"every one":                        {`deny contains "x" if { every v in input.object.list { v < 5 }; input.object.off }`, true},
		"every element of a set":           {"names := {\"x\", \"y\"}\ndeny contains \"x\" if { every n in names { n != input.requester }; input.object.off }", true},
		"every one, by a rule":             {"small(v) if v < 5\ndeny contains \"x\" if { every k, v in input.object.list { small(v); k < 9 }; input.object.off }", true},
		"every one of nothing":             {`deny contains "x" if { every v in input.requester { v < 5 } }`, true},
		"every one of none":                {`deny contains "x" if { every v in input.object.empty { v > 5 } }`, false},
		"else in a function":               {"f(x) := 1 if x > 5\nelse := 2 if x > 2\nelse := 3\ndeny contains \"x\" if { some v in input.object.list; f(v) == 1 }", true},
		"else with many":                   {"f(x) := 1 if { some v in input.object.list; v > x }\nelse := 2 if { some v in input.object.list; v == x }\ndeny contains \"x\" if { some v in input.object.list; f(v) > 5 }", true},
		"an object by rules":               {"found[i] := v if some i, v in input.object.list\nfound[9] := 1 if input.object.on\ndeny contains \"x\" if { some i, v in found; v > 5 }", false}, // unsupported
		"an object by a rule":              {"found[i] := v if some i, v in input.object.list\ndeny contains \"x\" if { some i, v in found; v > 5 }", true},
		"an object by rules, twice":        {"found[i] := v if some i, v in input.object.list\ndeny contains \"x\" if { some i, v in found; v > 5 }\ndeny contains \"y\" if count(found) > 5", true},
		"a part of an object by rules":     {"found[i] := v if some i, v in input.object.list\ndeny contains \"x\" if found[1] > 5", false}, // unsupported
		"an object by rules that disagree": {"found[1] := v if some i, v in input.object.list\ndeny contains \"x\" if { some i, v in found; v > 5 }", false},
		"an object of none":                {"found[i] := v if { some i, v in input.object.empty }\ndeny contains \"x\" if { some i, v in found; v > 5 }", true},
		"an object of none by the index":   {"found[i] := v if { input.object.nothing; some i, v in input.object.list }\ndeny contains \"x\" if { some i, v in found; v > 5 }\ndeny contains \"y\" if count(found) > 0", true},
		"a set of pairs":                   {"found contains [i, v] if some i, v in input.object.list\ndeny contains \"x\" if { some [i, v] in found; v > 5 }", true},
		"a set of objects":                 {"found contains {\"i\": i, \"v\": v} if some i, v in input.object.list\ndeny contains \"x\" if { some f in found; f.v > 5 }", true},
		"a part of a set":                  {"found contains v if some v in input.object.list\ndeny contains \"x\" if found[9]", false}, // unsupported
		"a pattern with a constant":        {`deny contains "x" if { some p in input.object.pairs; [2, s] = p; s == "z" }`, true},
		"a pattern of another length":      {`deny contains "x" if { some p in input.object.pairs; [a, b, c] = p; a > 0 }`, true},
		"a pattern in a pattern":           {`deny contains "x" if { [[1, a], [b, a]] = input.object.pairs; b > 5 }`, true},
		"a list that is written":           {`deny contains "x" if { x := [input.object.one, input.requester]; some y in x; y == "bob" }`, true},
		"a function with a pattern":        {"f([a, b]) := a if b\ndeny contains \"x\" if { some p in input.object.pairs; f(p) > 5 }", true},
		"rules in a rule that ends early": {
			"found if { some v in input.object.list; n := more; n >= v }\nmore := x if { some v in input.object.list; x := max(input.object.list) }\ndeny contains \"x\" if { found; more > 5 }", true,
		},
		"rules in rules that end early": {
			"a if { some v in input.object.list; b; v > 0 }\nb if { some v in input.object.list; c == 1; v > 0 }\nc := x if { some v in input.object.list; x := v - v + 1; d }\nd if { some v in input.object.list; v > 0 }\ndeny contains \"x\" if { a; input.object.off }", true,
		},
		"functions in functions that end early": {
			"f(x) if { some v in input.object.list; g(v) == x }\ng(x) := y if { some v in input.object.list; y := x + v - v; h(v) }\nh(x) if { some v in input.object.list; v >= x }\ndeny contains \"x\" if { some v in input.object.list; f(v); v > 5 }", true,
		},
		"the order of a written set":            {`deny contains "x" if { x := [k | some k in {input.object.two, input.object.one}]; x[0] == 2 }`, false}, // unsupported
		"the same twice in a written set":       {`deny contains "x" if count([k | some k in {input.object.one, input.object.uno}]) == 2`, false},
		"the order of a written object":         {`deny contains "x" if { x := [v | some k, v in {input.object.two: "a", input.object.one: "b"}]; x[0] == "a" }`, false},
		"a written set in a list":               {`deny contains "x" if { y := [{input.object.two, input.object.one}]; x := [k | some k in y[0]]; x[0] == 2 }`, false},
		"a written set in a rule":               {"r := {x, y} if { x := input.object.two; y := input.object.one }\ndeny contains \"x\" if { x := [k | some k in r]; x[0] == 2 }", false},
		"a written set for a function":          {"f(s) := [k | some k in s]\ndeny contains \"x\" if { x := f({input.object.two, input.object.one}); x[0] == 2 }", false},
		"a written set by a function":           {"f(x, y) := {x, y}\ndeny contains \"x\" if { x := [k | some k in f(input.object.two, input.object.one)]; x[0] == 2 }", true}, // f makes it once
		"a written set for a built-in function": {`deny contains "x" if count({input.object.one, input.object.uno}) == 2`, true},
		"a written set in a comprehension":      {`deny contains "x" if { s := [{input.object.two, v} | some v in [1]]; x := [k | some k in s[0]]; x[0] == 2 }`, false},
		"an object with written values":         {`deny contains "x" if { some k, v in {"a": input.object.two, "b": input.object.one}; v > 2 }`, true},
		"rules that agree in another spelling":  {"r := to_number(\"1\") if input.object.one\nr := to_number(\"1.0\") if input.object.on\ndeny contains \"x\" if sprintf(\"%v\", [r]) == \"1\"", false},
		"functions that agree so":               {"f(x) := to_number(\"1\") if x\nf(x) := to_number(\"1.0\") if x\ndeny contains \"x\" if sprintf(\"%v\", [f(1)]) == \"1\"", false},
		"members that agree so":                 {`deny contains "x" if { o := {k: v | some k in ["a"]; some t in ["1", "1.0"]; v := to_number(t)}; json.marshal(o) == "{\"a\":1.0}" }`, false},
		"members of members that agree so":      {`deny contains "x" if { o := {k: v | some k in ["a"]; some t in ["1", "1.0"]; v := [{"b": {to_number(t)}}]}; contains(json.marshal(o), "1.0") }`, false},
		"arguments that are the same so":        {"f(x) := sprintf(\"%v\", [x])\ndeny contains \"x\" if { f(to_number(\"1\")) == \"1\"; f([to_number(\"1\")]) == \"[1.0]\" }\ndeny contains \"y\" if f([to_number(\"1.0\")]) == \"[1.0]\"", false},
		"walk":                                  {`deny contains "x" if { walk(input.object, [p, v]); v == "nothing" }`, false}, // unsupported
		"a template":                            {`deny contains "x" if $"{input.requester}!" == "bob!"`, true},
		"a long text":                           {`deny contains "x" if count(concat("", [input.requester | some x in numbers.range(1, 5000)])) == 1`, false},
		"many steps":                            {`deny contains "x" if { some a in numbers.range(1, 100); some b in numbers.range(1, 100); a + b == 0 }`, false},
	} {
		t.Run(name, func(t *testing.T) {
			module, in := mustCompile(t, "package p\n"+test.module), input(t, screenDocuments())
			if none := screened(t, module, in); none != test.none {
				t.Errorf("the screen decides: %v", none)
			}
			_, spent, _ := unscreened(module).Measure(in, Limits{})
			for _, limits := range []Limits{{}, {Steps: 1}, {Steps: 51}, {Steps: spent.Steps / 2}, {Bytes: 1}, {Bytes: max(1, spent.Bytes/2)}, {Left: 100}} {
				sameWithout(t, module, in, limits)
			}
			for steps := range min(spent.Steps, 300) {
				sameWithout(t, module, in, Limits{Steps: steps + 1})
			}
			sameWithout(t, module, in, Limits{Steps: spent.Steps})
			for bytes := spent.Bytes; bytes <= 4*spent.Bytes; bytes += max(1, spent.Bytes/5) {
				sameWithout(t, module, in, Limits{Bytes: bytes})
			}
		})
	}
}

// TestScreenIsUsedSeldom holds that a screen is seldom used while it is left to OPA, and always after it was not.
func TestScreenIsUsedSeldom(t *testing.T) {
	module := mustCompile(t, "package p\ndeny contains \"x\" if input.params.on")
	on, off := input(t, map[string]any{"params": map[string]any{"on": true}}), input(t, map[string]any{"params": map[string]any{"on": false}})
	for range 100 {
		if found, err := module.Eval(on, Limits{}); len(found) != 1 || err != nil {
			t.Fatal(found, err)
		}
	}
	used := 0
	for range seldom {
		if screened(t, module, off) {
			used++
		}
	}
	if used == 0 || !screened(t, module, off) || module.screen.left.Load() != 0 {
		t.Errorf("it was used %d times of %d", used, seldom)
	}
	for range seldom - 1 {
		module.screen.left.Store(fewLeft + 1)
		if screened(t, module, off) {
			t.Error("it is used after many evaluations that were left to OPA")
		}
	}
}

// TestScreenIsBounded holds that a screen leaves a module to OPA before it has compared or kept much that no step pays for.
func TestScreenIsBounded(t *testing.T) {
	list := func(n int) []any { return make([]any, n) }
	for name, test := range map[string]struct {
		module string
		few    int
		many   int
	}{
		"arguments with the same hash":     {"f(x) := 1 if x\ndeny contains \"x\" if { some i in numbers.range(1, input.object.count); f(i / 1000) > 5 }", 20, 600},
		"arguments that are large":         {"f(x) := 1 if x\ndeny contains \"x\" if { some i in [0, 1, 0, 1]; f(input.object.lists[i]) > 5 }", 20, 15_000},
		"values that are large":            {"r := x if { some x in input.object.lists }\ndeny contains \"x\" if r == 5", 20, 25_000},
		"members that are large":           {"deny contains \"x\" if { o := {k: v | some k in [1]; some v in input.object.lists}; o[1] == 5 }", 20, 25_000},
		"arguments of functions with many": {"f(" + strings.Repeat("_, ", 99) + "x) := 1 if x\ndeny contains \"x\" if { some x in numbers.range(1, input.object.count); f(" + strings.Repeat("x, ", 99) + "x) > 5 }", 20, 600},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, "package p\n"+test.module)
			for n, want := range map[int]bool{test.few: true, test.many: false} {
				in := input(t, map[string]any{"object": map[string]any{"count": n, "lists": []any{list(n), list(n)}}})
				if got := screened(t, module, in); got != want {
					t.Errorf("with %d, the screen decides: %v", n, got)
				}
			}
		})
	}
}

// TestScreenOfGeneratedModules holds the same for modules whose rules refer to one another in many ways.
func TestScreenOfGeneratedModules(t *testing.T) {
	g := &moduleGenerator{rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same modules each time
	in := input(t, screenDocuments())
	compiled, decided := 0, 0
	for range 300 {
		text := g.module()
		module, problems := Compile("generated.rego", text)
		if len(problems) > 0 {
			continue // such as a type that does not fit
		}
		compiled++
		if screened(t, module, in) {
			decided++
		}
		_, spent, _ := unscreened(module).Measure(in, Limits{})
		for _, limits := range []Limits{{}, {Steps: spent.Steps}, {Steps: max(1, spent.Steps-1)}, {Bytes: max(1, spent.Bytes)}, {Bytes: 2 * max(1, spent.Bytes)}} {
			sameWithout(t, module, in, limits)
		}
		if t.Failed() {
			t.Fatal(text)
		}
	}
	if compiled < 200 || decided < 100 {
		t.Errorf("%d modules compile, and the screen decides %d of them", compiled, decided)
	}
	t.Logf("%d modules compile, and the screen decides %d of them", compiled, decided)
}

// moduleGenerator writes modules.
type moduleGenerator struct{ *rand.Rand }

func (g *moduleGenerator) pick(from ...string) string { return from[g.IntN(len(from))] }

// module writes rules, each of which may refer to those after it.
func (g *moduleGenerator) module() string {
	var text strings.Builder
	text.WriteString("package generated\n")
	const rules = 5
	for i := range 1 + g.IntN(2) {
		fmt.Fprintf(&text, "%s contains %q if { %s }\n", g.pick("deny", "deny", "warn"), strconv.Itoa(i), g.body(0, rules))
	}
	for i := range rules {
		body := func() string { return g.body(i+1, rules) }
		switch name := fmt.Sprintf("r%d", i); g.IntN(4) {
		case 0:
			fmt.Fprintf(&text, "%s if { %s }\n%s if { %s }\n", name, body(), name, body())
		case 1:
			fmt.Fprintf(&text, "%s := y if { y := %s; %s }\n", name, g.pick(g.value(), "input.object.list[_]"), body())
		case 2:
			fmt.Fprintf(&text, "default %s := %s\n%s := 1 if { %s }\n", name, g.pick("false", "0", `"x"`), name, body())
		case 3:
			fmt.Fprintf(&text, "%s := 1 if { %s } else := 2 if { %s } else := false\n", name, body(), body())
		}
		switch name := fmt.Sprintf("c%d", i); g.IntN(4) {
		case 0:
			fmt.Fprintf(&text, "%s contains v if { some v in %s; %s }\n", name, g.list(), body())
		case 1:
			fmt.Fprintf(&text, "%s[k] := v if { some k, v in %s; %s }\n", name, g.list(), body())
		case 2:
			fmt.Fprintf(&text, "%s := [v | some v in %s; %s]\n", name, g.list(), body())
		case 3:
			fmt.Fprintf(&text, "%s := {v | some v in %s; %s}\n", name, g.list(), body())
		}
		fmt.Fprintf(&text, "f%d(x) if { x != 2; %s }\n", i, body())
		switch g.IntN(3) {
		case 0:
			fmt.Fprintf(&text, "f%d(x) if { x > 1; %s }\n", i, body())
		case 1:
			fmt.Fprintf(&text, "f%d(x) := true if { x > 1; %s } else := false\n", i, body())
		}
	}
	return text.String()
}

// body writes expressions that may refer to rules from one on.
func (g *moduleGenerator) body(from, rules int) string {
	expressions := make([]string, 0, 3)
	for i := range 1 + g.IntN(3) {
		v, rule := fmt.Sprintf("v%d", i), strconv.Itoa(from+g.IntN(max(1, rules-from)))
		if from >= rules {
			expressions = append(expressions, g.plain(v))
			continue
		}
		expressions = append(expressions, g.pick(g.plain(v), g.plain(v), "r"+rule, "not r"+rule, v+" := r"+rule+"; "+v+" != 7", "count(c"+rule+") > 1", "f"+rule+"("+g.value()+")",
			"not f"+rule+"("+g.value()+")", "some "+v+" in c"+rule+"; "+v+" != "+g.value(), "some "+v+" in input.object.list; f"+rule+"("+v+")",
			"every e in input.object.list { f"+rule+"(e) }", "some "+v+" in input.object.list; not "+v+" in c"+rule))
	}
	return strings.Join(expressions, "; ")
}

// plain writes an expression that refers to no rule.
func (g *moduleGenerator) plain(v string) string {
	return g.pick("input.object.on", "input.object.off", "not input.object.off", "input.object.one == 1", "some "+v+" in "+g.list()+"; "+v+" > "+g.pick("0", "1", "2", "5"),
		v+" := "+g.value()+"; "+v+" != 3", "some "+v+" in input.object.pairs; ["+g.pick("1", "_")+", b"+v+"] = "+v+"; b"+v+" != \"b\"",
		"input.vm.spec.architecture == "+g.pick(`"amd64"`, `"arm64"`), "not "+g.value()+" in "+g.list(), "every e in "+g.list()+" { e > "+g.pick("0", "1")+" }",
		"count({x | some x in "+g.list()+"; x > 1}) > "+g.pick("0", "2"))
}

func (g *moduleGenerator) list() string {
	return g.pick("input.object.list", "input.object.empty", "[1, 2, 3]", "{1, 2}", "input.object.nothing")
}

func (g *moduleGenerator) value() string {
	return g.pick("1", "2", "5", "input.object.one", "input.object.list[1]", "count(input.object.list)", "input.object.nothing")
}
