package rego

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/isolated"
)

func input(tb testing.TB, documents map[string]any) *Input {
	tb.Helper()
	in, err := NewInput(documents)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

func mustCompile(tb testing.TB, module string) *Module {
	tb.Helper()
	m, issues := Compile("test.rego", module)
	if len(issues) > 0 {
		tb.Fatal(issues)
	}
	return m
}

func TestEval(t *testing.T) {
	vm := build.Typical("db").Memory("12288Mi").Label("team", "blue").Obj()
	documents := map[string]any{
		"vm": vm, "object": build.VMOf(build.Typical("db")).Obj(), "oldObject": (*v1.VirtualMachine)(nil),
		"request": map[string]any{"operation": "CREATE", "userInfo": map[string]any{"groups": []string{"dev"}}},
		"params":  map[string]any{"cap": "8Gi", "registries": []string{"quay.io/", "registry.local/"}}, "requester": "alice",
	}
	for name, test := range map[string]struct {
		module string
		want   []diagnostics.Violation
	}{
		"nothing": {`deny contains "no" if input.requester == "bob"`, nil},
		"a cap on memory": {`
deny contains {"msg": msg, "field": "spec.domain.memory.guest"} if {
	guest := input.vm.spec.domain.memory.guest
	units.parse_bytes(guest) > units.parse_bytes(input.params.cap)
	msg := sprintf("%s of memory is more than %s", [guest, input.params.cap])
}`, []diagnostics.Violation{{Message: "12Gi of memory is more than 8Gi", Field: "spec.domain.memory.guest", Computed: true}}},
		"sorted, denials first": {`
warn contains {"msg": "a"}
warn contains {"msg": "b", "field": "a"}
deny contains "z"
deny contains {"msg": "b", "field": "x"}
deny contains {"msg": "a", "field": "x"}
deny contains {"msg": "c", "field": "b"}`, []diagnostics.Violation{
			{Message: "z"}, {Message: "c", Field: "b", Computed: true}, {Message: "a", Field: "x", Computed: true}, {Message: "b", Field: "x", Computed: true}, {Message: "a", Warn: true}, {Message: "b", Field: "a", Computed: true, Warn: true},
		}},
		"one for each": {`
deny contains {"msg": sprintf("%s is on %s", [d.name, object.get(d.disk, "bus", "no bus")]), "field": sprintf("spec.domain.devices.disks[%d]", [i])} if some i, d in input.vm.spec.domain.devices.disks`, []diagnostics.Violation{
			{Message: "root is on virtio", Field: "spec.domain.devices.disks[0]", Computed: true}, {Message: "data is on no bus", Field: "spec.domain.devices.disks[1]", Computed: true}, {Message: "cloudinit is on no bus", Field: "spec.domain.devices.disks[2]", Computed: true},
		}},
		"a list of registries": {`
warn contains sprintf("volume %s comes from elsewhere", [v.name]) if {
	some v in input.vm.spec.volumes
	not strings.any_prefix_match(v.containerDisk.image, ["registry.local/"])
}`, []diagnostics.Violation{
			{Message: "volume cloudinit comes from elsewhere", Warn: true}, {Message: "volume data comes from elsewhere", Warn: true}, {Message: "volume root comes from elsewhere", Warn: true},
		}},
		"what there is none of is undefined": {`
deny contains "old" if input.oldObject
deny contains "instancetype" if input.instancetype
deny contains "created" if not input.oldObject`, []diagnostics.Violation{{Message: "created"}}},
		"request and requester": {`deny contains input.requester if { "dev" in input.request.userInfo.groups; input.request.operation == "CREATE" }`, []diagnostics.Violation{{Message: "alice"}}},
		"metadata":              {`deny contains input.vm.metadata.labels.team`, []diagnostics.Violation{{Message: "blue"}}},
		"numbers":               {`deny contains "four" if input.vm.spec.domain.cpu.cores * 2 == 8`, []diagnostics.Violation{{Message: "four"}}},
		"a long message":        {`deny contains {"msg": concat("", ["é" | some x in numbers.range(1, 2500)]), "field": concat("", ["f" | some x in numbers.range(1, 2500)])}`, []diagnostics.Violation{{Message: "é…", Field: "f…", Computed: true}}},
		"all of input":          {`deny contains concat(" ", [name | some name, _ in input])`, []diagnostics.Violation{{Message: "object params request requester vm"}}},
		"its own data":          {"threshold := 3\ndeny contains \"a\" if data.test.threshold == count(input.vm.spec.volumes)\ndeny contains \"b\" if data.test[\"nothing\"]", []diagnostics.Violation{{Message: "a"}}},
		"a mocked function":     {`deny contains f if f := g with sprintf as "mocked"` + "\n" + `g := sprintf("%d", [1])`, []diagnostics.Violation{{Message: "mocked"}}},
		"printing":              {`deny contains "a" if print(input.vm)`, []diagnostics.Violation{{Message: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mustCompile(t, head+test.module).Eval(input(t, documents), Limits{})
			for i := range got {
				if n := len(got[i].Message); n > 1000 {
					if n > maxMsg+len("…") {
						t.Errorf("a message of %d bytes", n)
					}
					got[i] = diagnostics.Violation{Message: "é" + strings.TrimLeft(got[i].Message, "é"), Field: "f" + strings.TrimLeft(got[i].Field, "f"), Computed: got[i].Computed}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestEvalSaysHowManyMore(t *testing.T) {
	module := head + `
deny contains sprintf("d%02d", [n]) if some n in numbers.range(1, input.params.deny)
warn contains sprintf("w%02d", [n]) if some n in numbers.range(1, input.params.warn)`
	for _, test := range []struct {
		deny, warn int
		want       diagnostics.Violation
	}{
		{deny: 5, warn: 5, want: diagnostics.Violation{Message: "w05", Warn: true}},
		{deny: 7, warn: 4, want: diagnostics.Violation{Message: "and 1 more violations of test.rego", Warn: true, More: 1}},
		{deny: 12, warn: 4, want: diagnostics.Violation{Message: "and 6 more violations of test.rego", More: 6}},
	} {
		got, err := mustCompile(t, module).Eval(input(t, map[string]any{"params": test}), Limits{Violations: 10})
		if err == nil {
			got, err = mustCompile(t, module).Eval(input(t, map[string]any{"params": map[string]int{"deny": test.deny, "warn": test.warn}}), Limits{Violations: 10})
		}
		if err != nil {
			t.Fatal(err)
		}
		last := got[len(got)-1]
		if (last.Sum != "") != (last.More > 0) {
			t.Errorf("%d more violations have the sum %q", last.More, last.Sum)
		}
		last.Sum = ""
		if diff := cmp.Diff(test.want, last); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	for name, test := range map[string]struct{ module, want string }{
		"a wrong argument":      {`deny contains "a" if units.parse_bytes(input.params.text) > 1`, "the Rego of test.rego, line 2, column 22: units.parse_bytes: units.parse_bytes: no byte amount provided"},
		"division by zero":      {`deny contains "a" if 1 / input.params.zero > 1`, "the Rego of test.rego, line 2, column 22: div: divide by zero"},
		"a conflict":            {"x := 1 if input.params\nx := 2 if input.params\ndeny contains \"a\" if x == 1", "the Rego of test.rego, line 3, column 1: rule data.test.x produced conflicting values: 1 at test.rego:2 2 at test.rego:3"},
		"a number":              {`deny contains input.params.zero`, "the Rego of test.rego: deny has an element which is neither a message nor an object with msg and field: number"},
		"a msg of numbers":      {`warn contains {"msg": input.params.zero}`, "the Rego of test.rego: warn has an element which is an object whose msg is not a string"},
		"a field of numbers":    {`deny contains {"msg": "a", "field": input.params.zero}`, "the Rego of test.rego: deny has an element which is an object whose field is not a string"},
		"an empty message":      {`deny contains {"msg": input.params.blank}`, "the Rego of test.rego: deny has an element which has an empty message"},
		"a bad pattern":         {`deny contains "a" if regex.match(input.params.pattern, "x")`, "the Rego of test.rego, line 2, column 22: regex.match: error parsing regexp: missing argument to repetition operator: `*`"},
		"the local time zone":   {`deny contains "a" if time.clock([0, "Local"])[0] > 1`, "the Rego of test.rego, line 2, column 22: time.clock: the time zone Local is that of the process; name one"},
		"a zone by its letters": {`deny contains "a" if time.parse_ns("RFC1123", input.params.text) > 1`, "the Rego of test.rego, line 2, column 22: time.parse_ns: a layout with the abbreviation of a time zone (MST) means something else in each zone; use a number (-0700)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, map[string]any{"params": map[string]any{"text": "many", "zero": 0, "blank": " ", "pattern": "*"}})
			got, err := mustCompile(t, head+test.module).Eval(in, Limits{})
			if got != nil || err == nil || err.Error() != test.want {
				t.Errorf("got %v, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

// TestEvalIsBounded evaluates modules that would never end, or need all the memory.
func TestEvalIsBounded(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	long := strings.Repeat("a", 200_000)
	grow := func(first, next string, times int) string {
		s := "x0 := " + first + "\n"
		for i := range times {
			s += fmt.Sprintf("x%d := %s\n", i+1, strings.ReplaceAll(next, "X", fmt.Sprintf("x%d", i)))
		}
		return s + fmt.Sprintf("deny contains \"a\" if json.is_valid(x%d)", times)
	}
	for name, test := range map[string]struct{ module, want string }{
		"loops in loops":       {`deny contains "a" if { some a in numbers.range(1, 9999); some b in numbers.range(1, 9999); some c in numbers.range(1, 9999); a + b + c == 0 }`, "takes more than 4194304 bytes of memory"},
		"a large list":         {`deny contains "a" if count([[a, b, c] | some a in numbers.range(1, 9999); some b in numbers.range(1, 9999); some c in numbers.range(1, 9999)]) == 1`, "takes more than 4194304 bytes of memory"},
		"every":                {`deny contains "a" if { every a in numbers.range(1, 99999) { every b in numbers.range(1, 99999) { a + b > 0 } } }`, "takes more than 4194304 bytes of memory"},
		"a function":           {"f(x) := [y | some y in numbers.range(x, x + 999); y % 7 == 0]\ndeny contains \"a\" if { some i in numbers.range(1, 99999); count(f(i)) == 5 }", "takes more than 4194304 bytes of memory"},
		"a range":              {`deny contains "a" if count(numbers.range(1, 1000000000000)) == 1`, "numbers.range: the range from 1 to 1000000000000 has more than 100000 numbers"},
		"a range of all":       {`deny contains "a" if count(numbers.range_step(-9223372036854775808, 9223372036854775807, 2)) == 1`, "numbers.range_step: the range from -9223372036854775808 to 9223372036854775807 has more than 100000 numbers"},
		"a range too wide":     {`deny contains "a" if count(numbers.range(1, 99999999999999999999999)) == 1`, "numbers.range: it takes integers of up to 64 bits"},
		"a wide format":        {`deny contains sprintf("%100000000d", [1])`, "sprintf: a width or precision of more than 1000"},
		"a wide argument":      {`deny contains sprintf("%*d", [100000000, 1])`, "sprintf: a width or precision that is an argument (*)"},
		"a precise format":     {`deny contains sprintf("%.100000000f", [1.5])`, "sprintf: a width or precision of more than 1000"},
		"one argument often":   {`deny contains sprintf(concat("", ["%[1]s" | some x in numbers.range(1, 10000)]), [input.params.long])`, "takes more than 100000 steps"},
		"joining":              {`deny contains concat(input.params.long, ["" | some x in numbers.range(1, 9999)])`, "takes more than 100000 steps"},
		"replacing":            {grow(`"aaaa"`, `replace(X, "a", "aaaaaaaaaa")`, 12), "takes more than 100000 steps"},
		"replacing nothing":    {`deny contains replace(input.params.long, "", input.params.long)`, "takes more than 4594376 bytes of memory"},
		"replacing many":       {grow(`"aaaa"`, `strings.replace_n({"a": "aaaaaaaaaa"}, X)`, 12), "takes more than 100000 steps"},
		"replacing a pattern":  {`deny contains regex.replace(input.params.long, ".*", concat("", ["$0" | some x in numbers.range(1, 1000)]))`, "takes more than 4594376 bytes of memory"},
		"doubling a text":      {grow(`"aaaa"`, `concat("", [X, X])`, 60), "takes more than 4194304 bytes of memory"},
		"doubling by format":   {grow(`"aaaa"`, `sprintf("%s%s", [X, X])`, 60), "takes more than 4194304 bytes of memory"},
		"doubling by template": {grow(`"aaaa"`, `$"{X}{X}"`, 60), "takes more than 4194304 bytes of memory"},
		"doubling a list":      {strings.Replace(grow(`[1, 2]`, `array.concat(X, X)`, 60), "json.is_valid(x60)", "count(x60) == 1", 1), "takes more than 4194304 bytes of memory"},
		"multiplying a list":   {"x0 := [y | some y in numbers.range(1, 999)]\nx1 := [x0 | some y in x0]\nx2 := [x1 | some y in x0]\ndeny contains json.marshal(x2)", "takes more than 4194304 bytes of memory"},
		"hexadecimal":          {grow(`"%"`, `hex.encode(X)`, 60), "takes more than 4194304 bytes of memory"},
		"squaring":             {strings.Replace(grow(`10`, `X * X`, 60), "json.is_valid(x60)", "x60 > 1", 1), "mul: a number of 1025 digits is longer than 1000"},
		"shifting":             {`deny contains "a" if bits.lsh(1, 100000000000) > 1`, "bits.lsh: it shifts by 100000000000 bits: at most 1024"},
		"a large exponent":     {`deny contains "a" if to_number(input.params.exponent) > 1`, ""},
		"an exponent of 2":     {`deny contains "a" if to_number("0x1p-999999999") * 3 > 1`, "to_number: a number of 1000000002 digits is longer than 1000"},
		"units":                {`deny contains "a" if units.parse(concat("", ["9" | some x in numbers.range(1, 1000)])) > 1`, "units.parse: a number of 1000 characters is longer than 100"},
		"a product":            {`deny contains "a" if product(numbers.range(1, 100000)) > 1`, "takes more than 4194304 bytes of memory"},
		"an endless pattern":   {`deny contains "a" if regex.match("((a?){100}){100}$", input.params.long)`, "regex.match: a pattern of 170000 states is larger than 2000"},
		"everywhere":           {`deny contains "a" if { walk(input.params, [p, v]); walk(input.params, [q, w]); walk(input.params, [r, x]); p == q; q == r; v == w; w == x; x == "nothing" }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, head+test.module)
			in := input(t, map[string]any{"params": map[string]any{"long": long, "exponent": "1e999999999"}})
			before := isolated.Allocated()
			start := time.Now()
			_, err := module.Eval(in, Limits{})
			if took := time.Since(start); took > patience {
				t.Errorf("it took %s", took)
			}
			if grown := isolated.Allocated() - before; grown > 1<<30 {
				t.Errorf("it allocated %d MB", grown>>20)
			}
			if test.want == "" {
				return // whatever it says, it says it soon
			}
			if err == nil || !strings.HasPrefix(err.Error(), "the Rego of test.rego") || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestEvalStops(t *testing.T) {
	endless := mustCompile(t, head+`deny contains "a" if { some a in numbers.range(1, 9999); some b in numbers.range(1, 9999); a + b == 0 }`)
	for name, test := range map[string]struct {
		limits Limits
		want   string
	}{
		"by steps": {Limits{Steps: 1000}, "the Rego of test.rego was stopped: it takes more than 1000 steps"},
		"by bytes": {Limits{Steps: math.MaxInt, Bytes: 1 << 20}, "the Rego of test.rego was stopped: it takes more than 1048576 bytes of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := endless.Eval(input(t, nil), test.limits)
			var limit *LimitError
			if !errors.As(err, &limit) || limit.Module != "test.rego" || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if took := time.Since(start); took > patience {
				t.Errorf("it took %s", took)
			}
		})
	}
	if _, err := mustCompile(t, head+`deny contains "a"`).Eval(input(t, nil), Limits{Steps: 1000}); err != nil {
		t.Error(err)
	}
}

// TestStepsAreTheSame evaluates with fewer and fewer steps: it fails below a number, and that is always the same.
func TestStepsAreTheSame(t *testing.T) {
	module := mustCompile(t, head+`deny contains v.name if { some v in input.vm.spec.volumes; some d in input.vm.spec.domain.devices.disks; d.name == v.name }`)
	needs := func() int {
		in := input(t, map[string]any{"vm": build.Typical("db").Obj()})
		for steps := 1; ; steps++ {
			if _, err := module.Eval(in, Limits{Steps: steps}); err == nil {
				return steps
			}
		}
	}
	first := needs()
	for range 5 {
		if n := needs(); n != first || n < 10 {
			t.Errorf("it needs %d steps, and needed %d before", n, first)
		}
	}
}

func TestInput(t *testing.T) {
	if _, err := NewInput(map[string]any{"machine": 1}); err == nil || err.Error() != `unknown document "machine": the known ones are domain, instancetype, migrationTargets, namespaceObject, object, oldObject, params, platform, pod, preference, provenance, references, request, requester, rollout, vm` {
		t.Error(err)
	}
	managed := build.Typical("db").Obj()
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	reads := func(document string) string {
		return head + fmt.Sprintf("deny contains \"a\" if json.marshal(input.%s) == \"\"", document)
	}
	for name, test := range map[string]struct {
		documents    map[string]any
		module, want string
	}{
		"a function":    {map[string]any{"params": func() {}}, reads("params"), "the Rego of test.rego was not evaluated: the document params: json: unsupported type: func()"},
		"infinity":      {map[string]any{"params": math.Inf(1)}, reads("params"), "the Rego of test.rego was not evaluated: the document params: json: unsupported value: +Inf"},
		"a cycle":       {map[string]any{"params": cyclic}, reads("params"), "the Rego of test.rego was not evaluated: the document params: json: unsupported value: encountered a cycle via map[string]interface {}"},
		"too large":     {map[string]any{"params": strings.Repeat("a", MaxDocumentBytes)}, reads("params"), "the Rego of test.rego was not evaluated: the document params: it has 1572866 bytes of JSON: at most 1572864"},
		"a long number": {map[string]any{"params": raw(`{"a\"": [` + strings.Repeat("9", 101) + `]}`)}, reads("params"), "the Rego of test.rego was not evaluated: the document params: a number in it has more than 100 digits, or a large exponent"},
		"a long string": {map[string]any{"params": raw(`"\"` + strings.Repeat("9", 101) + `"`)}, reads("params"), ""},
		"an exponent":   {map[string]any{"params": raw(`1e999999999`)}, reads("params"), "the Rego of test.rego was not evaluated: the document params: a number in it has more than 100 digits, or a large exponent"},
		"not read":      {map[string]any{"params": func() {}}, reads("vm"), ""},
		"managed":       {map[string]any{"vm": managed}, head + `deny contains "a" if input[document].metadata.managedFields`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mustCompile(t, test.module).Eval(input(t, test.documents), Limits{})
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	if got, err := mustCompile(t, head+`deny contains document if input[document].metadata.managedFields`).Eval(input(t, map[string]any{"vm": managed, "object": managed}), Limits{}); len(got) != 0 || err != nil {
		t.Errorf("got managed fields: %v, %v", got, err)
	}
	if len(managed.ManagedFields) != 1 {
		t.Error("the object lost its managed fields")
	}
}

// TestInputWith gives each policy parameters of its own.
func TestInputWith(t *testing.T) {
	module := mustCompile(t, head+"deny contains concat(\" \", [input.requester, input.params]) if input.params\ndeny contains \"no params\" if not input.params")
	shared := input(t, map[string]any{"requester": "alice", "params": "shared"})
	for _, test := range []struct {
		in   *Input
		want string
	}{
		{shared, "alice shared"},
		{shared.With("params", "first"), "alice first"},
		{shared.With("params", "second"), "alice second"},
		{shared.With("params", nil), "no params"},
		{shared.With("params", "third").With("requester", "bob"), "bob third"},
		{shared, "alice shared"},
	} {
		got, err := module.Eval(test.in, Limits{})
		if diff := cmp.Diff([]diagnostics.Violation{{Message: test.want}}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}

type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// TestConcurrently shares modules and one input between goroutines; the race detector looks on where there is one.
func TestConcurrently(t *testing.T) {
	in := input(t, map[string]any{"vm": build.Typical("db").Obj(), "params": map[string]any{"x": 1}})
	modules := []*Module{
		mustCompile(t, head+`deny contains v.name if some v in input.vm.spec.volumes`),
		mustCompile(t, head+`warn contains json.marshal(input.vm) if input.params.x == 1`),
		mustCompile(t, head+`warn contains name if some name, _ in input`),
	}
	want := []int{3, 1, 2}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				for i, m := range modules {
					if got, err := m.Eval(in, Limits{}); err != nil || len(got) != want[i] {
						t.Errorf("module %d: %v, %v", i, got, err)
					}
				}
			}
		})
	}
	group.Wait()
}

// TestModulesAreSmall bounds what a compiled module keeps: there may be a thousand.
func TestModulesAreSmall(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const count = 100
	mustCompile(t, observed)
	before := isolated.Heap()
	modules := make([]*Module, 0, count)
	for range count {
		modules = append(modules, mustCompile(t, observed))
	}
	each := (isolated.Heap() - before) / count
	runtime.KeepAlive(modules)
	t.Logf("a module keeps %d bytes", each)
	if each > 200<<10 {
		t.Errorf("a module keeps %d bytes", each)
	}
}
