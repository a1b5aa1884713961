package rego

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/test/cputime"
)

// costly are modules that cost as much as they can for what they are charged.
func costly() map[string]string {
	r := "r := numbers.range(1, 100)\n"
	d := func(body string) string { return r + "deny contains \"a\" if { " + body + " }" }
	return map[string]string{
		"steps":                        d("some a in r; some b in r; some c in r; a + b + c < 0"),
		"every":                        d("every a in r { every b in r { a + b > 0 } }; some c in r; c < 0"),
		"compare texts":                d("some a in r; some b in r; input.params.long == input.params.other; a < 0"),
		"hashes":                       d("some a in r; some b in r; x := {input.params.long, a, b}; count(x) < 0"),
		"set insertion":                d("some a in r; some b in r; x := {y | some y in r}; count(x) < 0"),
		"set of texts":                 d("some a in r; x := {y | some z in r; y := sprintf(\"%s%d\", [input.params.medium, z])}; count(x) < 0"),
		"set of lists":                 d("some a in r; x := {[z, z, z] | some z in r}; count(x) < 0"),
		"object comprehension":         d("some a in r; x := {sprintf(\"%d\", [z]): z | some z in r}; count(x) < 0"),
		"array comprehension":          d("some a in r; x := [z | some z in r]; count(x) < 0"),
		"nested comprehension":         d("some a in r; x := [[z | some z in r] | some q in r]; count(x) < 0"),
		"functions":                    r + "f(x) := y if { y := x + 1 }\ndeny contains \"a\" if { some a in r; some b in r; f(a * b) < 0 }",
		"functions of objects":         r + "f(x, y) := z if { z := [x.spec, y] }\ndeny contains \"a\" if { some a in r; some b in r; is_null(f(input.object, a * b)) }",
		"with":                         d("some a in r; x := count(input.vm.spec) with input.vm.spec as a; x < 0"),
		"walk":                         d("some a in r; walk(input.object, [p, v]); v == a"),
		"walk the text":                d("some a in r; walk(input.params, [p, v]); v == a"),
		"walk list":                    d("some a in r; walk(r, [p, v]); v == a"),
		"partial sets":                 r + "s contains x if { some a in r; some b in r; x := a * b }\ndeny contains \"a\" if { some a in r; s[a * -1] }",
		"partial objects":              r + "s[x] := y if { some a in r; some b in r; x := (a * 1000) + b; y := [a, b] }\ndeny contains \"a\" if { some a in r; s[a * -1] }",
		"unification of patterns":      d("some a in r; some b in r; [a, [b, x]] = [b, [a, input.vm.spec]]; is_null(x)"),
		"unify objects":                d("some a in r; some b in r; {\"a\": {\"b\": x}, \"c\": b} = {\"a\": {\"b\": a}, \"c\": a}; x < 0"),
		"references":                   d("some a in r; some b in r; input.vm.spec.domain.devices.disks[_].disk.bus == \"x\""),
		"references of unknown fields": d("some a in r; some b in r; not input.vm.spec.domain.cpu.model"),
		"all fields":                   d("some a in r; some k; some l; input.vm.spec[k][l] == a"),
		"list index":                   d("some a in r; some i; r[i] == -1"),
		"membership":                   d("some a in r; not (-1 in r); a < 0"),
		"membership 3":                 d("some a in r; some i, x in r; x < 0"),
		"sprintf":                      d("some a in r; some b in r; sprintf(\"%v %d %s\", [a, b, \"x\"]) == \"\""),
		"sprintf f":                    d("some a in r; some b in r; sprintf(\"%f %e\", [1.5, 2.5]) == \"\""),
		"numbers":                      d("some a in r; some b in r; ((a * 12345.678) / b) - 1.5 < -100"),
		"big numbers":                  d("some a in r; some b in r; a * 12345678901234567890123456789012345678901234567890 < b"),
		"bits":                         d("some a in r; some b in r; bits.lsh(a, 1000) < b"),
		"regex":                        d("some a in r; some b in r; regex.match(\"(a|b|c|d)*x\", input.params.medium)"),
		"regex computed":               d("some a in r; some b in r; regex.match(sprintf(\"%d%d(a|b){20}\", [a, b]), \"x\")"),
		"glob":                         d("some a in r; some b in r; glob.match(\"*a*b*\", [], input.params.short)"),
		"glob computed":                d("some a in r; some b in r; glob.match(sprintf(\"*%d%d*\", [a, b]), [], \"abc\")"),
		"yaml":                         d("some a in r; some b in r; yaml.unmarshal(sprintf(\"[%s%d]\", [input.params.short, a * b])) == 1"),
		"yaml out":                     d("some a in r; yaml.marshal(input.vm.spec) == \"\""),
		"json":                         d("some a in r; json.unmarshal(json.marshal(input.vm.spec)) == 1"),
		"json patch":                   d("some a in r; json.patch(input.vm.spec, [{\"op\": \"add\", \"path\": \"/x\", \"value\": a}]) == 1"),
		"json filter":                  d("some a in r; is_null(json.filter(input.vm.spec, [\"domain/devices\"]))"),
		"object union":                 d("some a in r; is_null(object.union(input.vm.spec, {\"a\": a}))"),
		"object get":                   d("some a in r; some b in r; object.get(input.vm, [\"spec\", \"domain\"], a) == b"),
		"sort":                         d("some a in r; is_null(sort([-x | some x in r]))"),
		"sort texts":                   d("some a in r; sort([sprintf(\"%s%d\", [input.params.medium, 1000 - x]) | some x in r]) == []"),
		"time":                         d("some a in r; some b in r; is_null(time.clock([a * b, \"America/New_York\"]))"),
		"time format":                  d("some a in r; some b in r; time.format([a * b, \"America/New_York\", \"RFC3339\"]) == \"\""),
		"time parse":                   d("some a in r; some b in r; time.parse_rfc3339_ns(\"2024-01-02T03:04:05Z\") < 0"),
		"unknown zone":                 d("some a in r; some b in r; is_null(time.date([a * b, \"Nowhere/X\"]))"),
		"semver":                       d("some a in r; some b in r; semver.compare(\"1.2.3-a.b.c\", \"1.2.3-a.b.d\") > 2"),
		"units":                        d("some a in r; some b in r; units.parse_bytes(\"10Gi\") < b"),
		"crypto":                       d("some a in r; some b in r; crypto.sha256(input.params.medium) == \"\""),
		"hmac":                         d("some a in r; some b in r; crypto.hmac.sha512(input.params.medium, \"k\") == \"\""),
		"base64":                       d("some a in r; some b in r; base64.decode(base64.encode(input.params.medium)) == \"\""),
		"split":                        d("some a in r; is_null(split(input.params.medium, \"\"))"),
		"concat":                       d("some a in r; concat(input.params.short, [\"a\", \"b\"]) == \"\"; a < 0"),
		"replace":                      d("some a in r; some b in r; replace(input.params.medium, \"a\", \"bb\") == \"\""),
		"replace n":                    d("some a in r; some b in r; strings.replace_n({\"a\": \"b\"}, input.params.medium) == \"\""),
		"uri":                          d("some a in r; some b in r; uri.parse(\"http://a.b/c?d=e\").host == \"\""),
		"images":                       d("some a in r; some b in r; virtward.isImage(\"quay.io/a/b:c\"); b < 0"),
		"long images":                  d("some a in r; some b in r; virtward.isImage(input.params.image); b < 0"),
		"urls":                         d("some a in r; some b in r; virtward.isURL(\"https://a.b/c\"); b < 0"),
		"graph":                        d("some a in r; is_null(graph.reachable({1: [2, 3], 2: [3], 3: []}, [1]))"),
		"many violations":              "deny contains sprintf(\"%d %s\", [x, input.params.medium]) if { some x in numbers.range(1, 2000) }",
		"large rules index": func() string {
			s := "deny contains \"a\" if { some x in numbers.range(1, 100); f(x) == 0 }\n"
			for i := range 100 {
				s += fmt.Sprintf("f(x) := 1 if { x == %d }\n", i+1)
			}
			return s
		}(),
		"many rules": func() string {
			s := "r := numbers.range(1, 30)\n"
			for i := range 100 {
				s += fmt.Sprintf("deny contains \"a\" if { some x in r; x < -%d }\n", i+1)
			}
			return s
		}(),
		"default functions":      r + "default f(_) := 0\nf(x) := 1 if { x < 0 }\ndeny contains \"a\" if { some a in r; some b in r; f(a * b) < 0 }",
		"else":                   r + "f(x) := 1 if { x < 0 } else := 2 if { x < -1 } else := 3 if { x < -2 } else := 4\ndeny contains \"a\" if { some a in r; some b in r; f(a * b) < 0 }",
		"template strings":       d("some a in r; some b in r; $\"{a} and {b}\" == \"\""),
		"cross product of sets":  d("some a in r; x := {1, 2, 3} | {y | some y in r}; count(x) < 0"),
		"intersection":           d("some a in r; x := {y | some y in r} & {y | some y in r}; count(x) < 0"),
		"keys":                   d("some a in r; is_null(object.keys(input.vm.spec))"),
		"numbers.range":          d("some a in r; some b in r; count(numbers.range(1, 10)) < 0"),
		"negation":               d("some a in r; not not_there(a)\n}\nnot_there(x) if { x > 0"),
		"sum":                    d("some a in r; some b in r; sum(r) < 0"),
		"trim":                   d("some a in r; some b in r; trim(input.params.medium, \"abc\") == \"\""),
		"upper":                  d("some a in r; some b in r; upper(input.params.medium) == \"\""),
		"contains":               d("some a in r; some b in r; contains(input.params.long, \"aaaaaaaab\")"),
		"startswith":             d("some a in r; some b in r; strings.any_prefix_match([input.params.medium], [\"b\", \"c\"])"),
		"indexof":                d("some a in r; some b in r; indexof(input.params.medium, \"b\") > 0"),
		"substring":              d("some a in r; some b in r; substring(input.params.medium, 1, 5) == \"\""),
		"long keys":              d("some a in r; some b in r; {input.params.long: 1}[input.params.other] == a"),
		"compare documents":      d("some a in r; some b in r; input.object == input.vm; a < 0"),
		"dead ends":              d("some a in r; some b in r; r[_] == -1"),
		"dead ends of two":       d("some a in r; q := [r, r, r]; some i, j; q[i][j] == -1"),
		"dead ends of an object": d("some a in r; some k; input.vm[k].nothing[_] == 1"),
		"dead ends of a rule":    r + "s contains x if some x in r\ndeny contains \"a\" if { some a in r; some b in r; s[_] == -1 }",
		"an index of fields":     r + treeOfPaths(200, 200) + d("some a in r; some b in r; not f(a); b < 0")[len(r):],
		"an index of lists":      "q := numbers.range(1, 10000)\n" + manyTimes(100, "f(x) if [_, _, _, _, _, _, _, _, _, _, -%d] = x") + d("some a in r; some b in r; not f(q); a * b < 0"),
		"an index of fractions":  manyTimes(450, "f(x) if x == 0.5%d") + d("some a in r; some b in r; not f(0.25); a * b < 0"),
		"small literals": r + manyTimes(3, "f%d(x) := g%d(["+strings.Repeat("x, ", 19)+"x])") + "g0(x) := f1(x)\ng1(x) := f2(x)\n" +
			"g2(x) := 1 if { some a in r; some b in r; is_array(x); a * b < 0 }\ndeny contains \"a\" if f0(1) == 1",
		"long numbers":                 "n := 1e900\nm := 1e901\n" + d("some a in r; some b in r; not n == m; a * b < 0"),
		"replace a long text":          "t := concat(\"\", [\"a\" | some i in numbers.range(1, 5000)])\n" + d("some a in r; replace(\"x\", t, \"\") == \"\"; a < 0"),
		"trim by a long text":          "t := concat(\"\", [\"é\" | some i in numbers.range(1, 5000)])\nu := concat(\"\", [\"ä\" | some i in numbers.range(1, 5000)])\n" + d("some a in r; some b in r; trim(t, concat(\"\", [u, \"é\"])) == \"x\"; a < b"),
		"locate a long text":           "t := concat(\"\", [\"é\" | some i in numbers.range(1, 5000)])\nu := concat(\"\", [\"é\" | some i in numbers.range(1, 1000)])\n" + d("some a in r; some b in r; indexof(t, concat(\"\", [u, \"a\"])) > 0; a < b"),
		"greatest long number":         "q := [x | some a in r; x := a + 0." + strings.Repeat("7", 90) + "]\n" + d("some a in r; some b in r; max(q) < 0; a < b"),
		"long numbers in a list":       "q := [x | some a in r; x := 1e900 + a]\n" + d("some a in r; q[_] == 1e901; a < 0"),
		"expressions that read again":  d("some a in r; is_null(regex.find_n(\"a.*b|a\", input.params.medium, -1)); a < 0"),
		"expressions that replace":     d("some a in r; is_null(regex.replace(input.params.medium, \"(a[^c]*b)?a\", \"\")); a < 0"),
		"expressions of parts":         d("some a in r; some b in r; is_null(regex.split(\",+\", input.params.short)); a < b"),
		"ranges of any case":           d("some a in r; is_null(regex.is_valid(sprintf(\"(?i)[B-𞥂][C-\\\\x{1e942}]%d\", [a])))"),
		"classes by name":              d("some a in r; is_null(regex.match(sprintf(\"%s(?i)%d\", [`\\pL\\PN\\pL`, a]), \"x\"))"),
		"subsets of lists":             "q := [0 | some i in numbers.range(1, 3000)]\n" + d("some a in r; object.subset(q, array.concat(array.slice(q, 0, 1000), [a]))"),
		"subsets of objects":           d("some a in r; object.subset(input.params.deep, input.params.deeper)"),
		"edges that are reached again": "q := {\"r\": [\"a\" | some i in numbers.range(1, 900)], \"a\": [\"x\" | some i in numbers.range(1, 900)]}\n" + d("some a in r; is_null(graph.reachable(q, [\"r\"])); a < 0"),
		"globs of many stars":          d("some a in r; some b in r; glob.match(\"" + strings.Repeat("*a", 25) + "*b*\", [], input.params.short); a < b"),
		"globs of many braces":         d("some a in r; some b in r; glob.match(\"" + strings.Repeat("{a,*}", 25) + "b\", [], input.params.medium); a < b"),
		"unions of lists that follow":  "q := {[i] | some i in numbers.range(1, 300)}\nu := {[0, i] | some i in numbers.range(1, 300)}\n" + d("some a in r; is_null(q | u); a < 0"),
		"unions of equal lists":        "q := {[i] | some i in numbers.range(1, 300)}\n" + d("some a in r; is_null(q | {[a]}); a < 0"),
		"sort of large exponents":      "q := [" + manyTimes(300, "%de900, ") + "1]\n" + d("some a in r; is_null(sort(array.concat(q, [a]))); a < 0"),
		"lists among integers":         "q := {[i, 0 - i]: 1 | some i in numbers.range(1, 30)}\nu := numbers.range(0, 400)\n" + d("some a in r; is_null(object.remove(q, u)); a < 0"),
		"small numbers":                d("some a in r; a + 1e-900 == 1; a < 0"),
		"large range":                  "deny contains \"a\" if { some a in numbers.range(1, 90000); a < 0 }",
		"nothing":                      "deny contains \"a\" if { input.vm.spec.hostname == \"x\" }",
	}
}

// TestStepsAreTime evaluates modules that cost as much as they can for what they are charged, and holds their CPU time
// against the charge.
func TestStepsAreTime(t *testing.T) {
	docs := map[string]any{
		"params": map[string]any{
			"long": strings.Repeat("a", 100_000), "other": strings.Repeat("a", 99_999) + "b", "medium": strings.Repeat("a", 1000), "short": strings.Repeat("a,", 100) + "a",
			"image": "quay.io/" + strings.Repeat("a/", 400) + "b",
		},
	}
	nested := func(leaf string) (v any) {
		v = leaf
		for range 200 {
			v = map[string]any{"a": v}
		}
		return v
	}
	params, _ := docs["params"].(map[string]any)
	params["deep"], params["deeper"] = nested("a"), nested("b")
	spec := map[string]any{"domain": map[string]any{"devices": map[string]any{"disks": []any{map[string]any{"name": "a", "disk": map[string]any{"bus": "virtio"}}, map[string]any{"name": "b", "disk": map[string]any{"bus": "sata"}}}}, "cpu": map[string]any{"cores": 4}}, "volumes": []any{map[string]any{"name": "a"}}}
	docs["vm"] = map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec}
	docs["object"] = map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec}
	modules := costly()
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, "package a\n"+modules[name])
			in := input(t, docs)
			_, spent, err := module.Measure(in, Limits{})
			if limit := (*LimitError)(nil); err != nil && !errors.As(err, &limit) && name != "with" {
				t.Fatal(err)
			}
			cputime.Check(t, uint64(spent.Steps*StepUnits), func() { _, _, _ = module.Measure(in, Limits{}) }) //nolint:gosec // no count is negative
		})
	}
}

// TestAlikeNumbersAreSteps holds that numbers with the same hash are charged for the comparisons that they cause where results of
// functions and elements of sets are looked for. Integers have hashes of their own.
func TestAlikeNumbersAreSteps(t *testing.T) {
	alike := func(format string, count int) (all []any) {
		for i := range count {
			all = append(all, json.Number(fmt.Sprintf(format, i)))
		}
		return all
	}
	calls := "f(x) if x < 0\ndeny contains \"a\" if { some x in input.object.spec.l; f(x) }"
	for name, c := range map[string]struct {
		module  string
		numbers []any
		exceeds bool
	}{
		"calls with fractions":      {calls, alike("0.%010d1", 5000), true},
		"calls with large integers": {calls, alike("9%020d", 5000), true},
		"calls with exponents":      {calls, alike("1%de-20", 5000), true},
		"calls with few fractions":  {calls, alike("0.%010d1", 100), false},
		"calls with integers":       {calls, alike("%d", 5000), false},
		"a set of fractions":        {"s contains x if some x in input.object.spec.l\ndeny contains \"a\" if -1 in s", alike("0.%010d1", 5000), true},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, "package a\n"+c.module)
			in := input(t, map[string]any{"object": map[string]any{"spec": map[string]any{"l": c.numbers}}})
			_, spent, err := module.Measure(in, Limits{})
			if limit := (*LimitError)(nil); errors.As(err, &limit) != c.exceeds {
				t.Fatalf("%+v, %v", spent, err)
			}
			cputime.Check(t, uint64(spent.Steps*StepUnits), func() { _, _, _ = module.Measure(in, Limits{}) }) //nolint:gosec // no count is negative
		})
	}
}

// TestElementsAreSteps holds that the elements of a reference with a variable are charged, which the evaluator looks at
// without a step.
func TestElementsAreSteps(t *testing.T) {
	for _, body := range []string{
		"q[_] == -1", "some a in q; q[_] == -a", "some i; [q, q][i][_] == -1", "some x in q; x < 0", "some k; {\"a\": q, \"b\": q}[k][_] == -1",
	} {
		module := mustCompile(t, "package a\nq := numbers.range(1, 1000)\ndeny contains \"a\" if { "+body+" }")
		_, spent, _ := module.Measure(input(t, nil), Limits{})
		if least := 250; spent.Steps < least {
			t.Errorf("%s: %d steps, want at least %d", body, spent.Steps, least)
		}
	}
}

// TestDigitsOfElementsAreSteps holds that long numbers are charged by their digits, each time that they are compared with another one.
func TestDigitsOfElementsAreSteps(t *testing.T) {
	const numbers, digits = 100, 90
	steps := func(body string) int {
		module := mustCompile(t, fmt.Sprintf("package a\nq := [x | some i in numbers.range(1, %d); x := %s + i]\ndeny contains \"a\" if { %s }", numbers, strings.Repeat("7", digits), body))
		_, spent, err := module.Measure(input(t, nil), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return spent.Steps
	}
	if got, least := steps("q[_] == -1")-steps("q[0] == -1"), numbers*(1+digits/digitsPerStep); got < least {
		t.Errorf("comparing %d numbers costs %d steps more, want at least %d", numbers, got, least)
	}
}
