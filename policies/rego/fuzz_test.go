package rego

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/test/build"
)

// patience is how long one module may take to be compiled or evaluated, on a machine that is busy. Milliseconds if nothing else runs.
const patience = 30 * time.Second

func soon(t *testing.T, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > patience {
		t.Errorf("%s took %s", what, took)
	}
}

// FuzzCompileRego compiles any text. It ends, it does not panic, and there is either a module or an issue which says
// where; a module can be evaluated.
func FuzzCompileRego(f *testing.F) {
	for _, module := range []string{
		observed,
		head + "deny contains {\"msg\": \"a\", \"field\": \"b\"} if { some i, d in input.vm.spec.volumes; not d.name in {\"x\"} }",
		head + "f(x) := y if y := [x, x] else := 2\nwarn contains $\"{f(1)}\" if every z in [1] { z == 1 }",
		"package a.b[\"c\"]\nimport input.vm as m\nimport rego.v1\ndeny contains concat(\",\", {k | m.metadata.labels[k]}) with input.params as 1",
		head + "deny contains `raw` if { x = {\"a\": [y, 1e3]}; walk(x, [p, v]); v == y; regex.match(\"a{2}\", `b`) }",
		head + "default x := false\nx := sprintf(\"%5d%%\", [numbers.range(1, 3)[_]])\ndeny contains \"a\" if x | {1}",
		"package p\ndeny[x] { true }", "", "package", head + "deny contains http.send({}) if data.x[_]",
	} {
		f.Add(module)
	}
	for _, module := range unusualModules() {
		f.Add(head + module)
	}
	for _, module := range comparisons() {
		f.Add(head + module)
	}
	in := input(f, map[string]any{"vm": build.Typical("db").Obj(), "params": map[string]any{"a": 1}, "requester": "bob"})
	f.Fuzz(func(t *testing.T, text string) {
		soon(t, "compiling", func() {
			module, issues := Compile("fuzz.rego", text)
			if (module == nil) != (len(issues) > 0) {
				t.Fatalf("module %v, issues %v", module, issues)
			}
			for _, issue := range issues {
				if issue.Message == "" || len(issue.Message) > maxMessage+len("…") || issue.Line < 0 || issue.Line > strings.Count(text, "\n")+2 {
					t.Errorf("a poor issue: %+v", issue)
				}
				if strings.Contains(issue.Message, "the compiler of Rego failed") || strings.Contains(issue.Message, guardPrefix) {
					t.Errorf("the compiler's own fault: %s", issue.Message)
				}
			}
			if module != nil {
				ask(t, module, in)
			}
		})
	})
}

// FuzzEvalRego asks modules that use the functions in many ways about any parameters.
func FuzzEvalRego(f *testing.F) {
	texts := []string{
		`deny contains sprintf(input.params.a, [input.params.b, input.params.b])`,
		`deny contains concat(input.params.a, input.params.b)
warn contains {"msg": input.params.a, "field": input.params.b}`,
		`deny contains input.params.a
deny contains replace(input.params.a, input.params.b, input.params.c)
warn contains regex.replace(input.params.a, input.params.b, input.params.c)`,
		`deny contains json.marshal([v | walk(input.params, [p, v]); count(p) > 1])`,
		`deny contains "a" if units.parse_bytes(input.params.a) * to_number(input.params.b) > input.params.c / input.params.d`,
		`deny contains json.marshal(json.unmarshal(input.params.a))
deny contains yaml.marshal(yaml.unmarshal(input.params.b))`,
		`deny contains "a" if glob.match(input.params.a, [input.params.b], input.params.c)
deny contains "b" if regex.match(input.params.a, input.params.b)
deny contains split(input.params.a, input.params.b)[_]`,
		`deny contains time.format([input.params.a, input.params.b, input.params.c])
deny contains time.format(time.parse_ns(input.params.a, input.params.b))`,
		`deny contains "a" if count(numbers.range(input.params.a, input.params.b)) == bits.lsh(input.params.a, input.params.b)
deny contains "b" if product(input.params.c) > 1`,
		`deny contains json.marshal(array.concat(input.params.a, input.params.b))
deny contains json.marshal(object.union(input.params.a, input.params.b))
deny contains json.marshal(json.patch(input.params.a, input.params.b))
deny contains json.marshal(object.get(input.params, input.params.a, input.params.b))`,
	}
	modules := make([]*Module, 0, len(texts))
	for _, text := range texts {
		modules = append(modules, mustCompile(f, head+text))
	}
	for i, params := range []string{
		`{"a": "%s of %v", "b": "x"}`, `{"a": ", ", "b": ["x", "y"]}`, `{"a": "aaa", "b": "a", "c": "bb"}`, `{"a": {"b": [1, {"c": null}]}}`,
		`{"a": "8Gi", "b": "1e3", "c": 5, "d": 0.1}`, `{"a": "[1, 1e999999999]", "b": "a: &x [1]\nb: *x"}`, `{"a": "*.b", "b": ".", "c": "a.b"}`,
		`{"a": 0, "b": "Europe/Berlin", "c": "RFC1123"}`, `{"a": 1, "b": 99, "c": [1, 2.5]}`, `{"a": {"x": [1]}, "b": [{"op": "add", "path": "/x/-", "value": 2}]}`, `[]`, `null`,
	} {
		f.Add(uint8(i), params)
	}
	f.Fuzz(func(t *testing.T, which uint8, params string) {
		if !json.Valid([]byte(params)) {
			t.Skip()
		}
		soon(t, "asking", func() {
			ask(t, modules[int(which)%len(modules)], input(t, map[string]any{"params": json.RawMessage(params)}))
		})
	})
}

// ask evaluates, and holds what comes to its bounds.
func ask(t *testing.T, module *Module, in *Input) {
	t.Helper()
	violations, err := module.Eval(in, Limits{Violations: 10})
	if err != nil {
		if violations != nil || !strings.HasPrefix(err.Error(), "the Rego of ") || strings.Contains(err.Error(), guardPrefix) {
			t.Errorf("%v, and the error %v", violations, err)
		}
		if strings.Contains(err.Error(), "made the evaluator fail") {
			t.Errorf("a panic: %v", err)
		}
	}
	if len(violations) > 11 {
		t.Errorf("%d violations", len(violations))
	}
	for _, v := range violations {
		if v.Message == "" || len(v.Message) > maxMsg+len("…") || len(v.Field) > maxField+len("…") {
			t.Errorf("a violation of %d and %d bytes", len(v.Message), len(v.Field))
		}
	}
	sameWithout(t, module, in, Limits{Violations: 10})
}
