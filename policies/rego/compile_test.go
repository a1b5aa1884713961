package rego

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
)

// head is what the modules of these tests begin with: one line, and a rule on the next.
const head = "package test\n"

func TestCompileRejects(t *testing.T) {
	for name, test := range map[string]struct {
		module string
		kinds  []string
		want   []diagnostics.Problem
	}{
		"nothing":        {"", nil, []diagnostics.Problem{{Line: 0, Column: 0, Message: "empty module"}}},
		"no package":     {"deny contains \"no\"", nil, []diagnostics.Problem{{Line: 1, Column: 1, Message: "package expected"}}},
		"a syntax error": {head + "deny contains msg if {\n  msg := \"a\" +\n}", nil, []diagnostics.Problem{{Line: 4, Column: 1, Message: "unexpected } token"}}},
		"v0": {head + "deny[msg] { msg := \"no\" }", nil, []diagnostics.Problem{
			{Line: 2, Column: 1, Message: "`contains` keyword is required for partial set rules"}, {Line: 2, Column: 1, Message: "`if` keyword is required before rule body"},
		}},
		"v0 by import":          {"package test\nimport future.keywords\nallow { true }", nil, []diagnostics.Problem{{Line: 3, Column: 1, Message: "`if` keyword is required before rule body"}}},
		"an undefined function": {head + "deny contains msg if msg := shout(\"a\")", nil, []diagnostics.Problem{{Line: 2, Column: 29, Message: "undefined function shout"}}},
		"a wrong number of arguments": {head + "deny contains msg if msg := upper(\"a\", \"b\")", nil, []diagnostics.Problem{
			{Line: 2, Column: 29, Message: "upper: arity mismatch (have: (string, string), want: (x: string))"},
		}},
		"a type error":         {head + "deny contains msg if { msg := \"a\"; 1 == \"a\" }", nil, []diagnostics.Problem{{Line: 2, Column: 36, Message: "match error (left: number, right: string)"}}},
		"a wrong argument":     {head + "deny contains msg if msg := upper(5)", nil, []diagnostics.Problem{{Line: 2, Column: 29, Message: "upper: invalid argument(s) (have: (number), want: (x: string, y: string))"}}},
		"an unused variable":   {head + "deny contains \"a\" if { x := 1 }", nil, []diagnostics.Problem{{Line: 2, Column: 24, Message: "assigned var x unused"}}},
		"an unused import":     {"package test\nimport input.vm\ndeny contains \"a\"", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: "import input.vm unused"}}},
		"an unsafe variable":   {head + "deny contains \"a\" if not x == 1", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "var x is unsafe"}}},
		"recursion":            {head + "deny contains x if some x in deny", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: "rule data.test.deny is recursive: data.test.deny -> data.test.deny"}}},
		"a recursive function": {head + "f(x) := f(x)\ndeny contains f(1)", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: "rule data.test.f is recursive: data.test.f -> data.test.f"}}},

		"comprehensions in one another": {head + "deny contains \"a\" if count(" + strings.Repeat("[x | x := ", 20) + "1" + strings.Repeat("]", 20) + ") > 1", nil, []diagnostics.Problem{
			{Line: 2, Column: 1, Message: "too many comprehensions, or other bodies, are in one another: give some of them rules of their own"},
		}},
		"too many expressions in a rule": {head + "deny contains \"a\" if {\nx := 1\n" + strings.Repeat("x == 1\n", 400) + "}", nil, []diagnostics.Problem{
			{Line: 2, Column: 1, Message: "the rule has 401 expressions and calls, which is too many for one rule, or with those of the rules before it: split it"},
		}},
		"too many variables in a rule": {head + "deny contains \"a\" if {\nsome " + strings.ReplaceAll(manyTimes(400, "a%d, "), "\n", "") + "x\nx = 1\n}", nil, []diagnostics.Problem{
			{Line: 2, Column: 1, Message: "the rule has 403 expressions and calls, which is too many for one rule, or with those of the rules before it: split it"},
		}},
		"too many parts of a text in a rule": {head + "deny contains $\"" + strings.Repeat("{input.requester}", 400) + "\"", nil, []diagnostics.Problem{
			{Line: 2, Column: 1, Message: "the rule has 401 expressions and calls, which is too many for one rule, or with those of the rules before it: split it"},
		}},
		"many references to many rules": {head + manyTimes(500, "p contains %d") + manyTimes(101, "deny contains \"a\" if { %d == 1; "+strings.Repeat("p[1]; ", 10)+"true }"), nil, []diagnostics.Problem{
			{Line: 601, Column: 81, Message: "the references up to this one lead to more than 500000 rules: give each rule fewer references to names that many rules have"},
		}},
		"a long name of a rule": {head + "p" + strings.Repeat(".a", maxDepth) + " := 1\ndeny contains \"a\"", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: "the name of a rule has 101 parts: at most 100"}}},
		"a part of a call":      {head + "f(0).a if 0\nwarn contains \"a\"", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: "a rule must begin with a name, not with f(0).a"}}},

		"neither deny nor warn": {head + "allow if true", nil, []diagnostics.Problem{
			{Line: 1, Column: 1, Message: `the module has neither deny nor warn, so it evaluates nothing: deny contains {"msg": "…"} if { … }`},
		}},
		"a complete deny":  {head + "deny := true", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: `deny must be a set of violations: deny contains {"msg": "…"} if { … }`}}},
		"a default":        {head + "default warn := false", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: `warn must be a set of violations: warn contains {"msg": "…"} if { … }`}}},
		"a function":       {head + "deny(x) := x", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: `deny must be a set of violations: deny contains {"msg": "…"} if { … }`}}},
		"a deny of deny":   {head + "deny.a contains \"x\"", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: `deny must be a set of violations: deny contains {"msg": "…"} if { … }`}}},
		"an object":        {head + "deny[\"a\"] := 1", nil, []diagnostics.Problem{{Line: 2, Column: 1, Message: `deny must be a set of violations: deny contains {"msg": "…"} if { … }`}}},
		"a number":         {head + "deny contains 42", nil, []diagnostics.Problem{{Line: 2, Column: 15, Message: "deny contains number, which is neither a message nor an object with msg and field"}}},
		"no msg":           {head + "deny contains {\"field\": \"spec\"}", nil, []diagnostics.Problem{{Line: 2, Column: 15, Message: "deny contains an object without msg"}}},
		"a misspelt field": {head + "deny contains {\"msg\": \"a\", \"path\": \"spec\"}", nil, []diagnostics.Problem{{Line: 2, Column: 28, Message: "deny contains an object with path, only msg and field are allowed"}}},
		"a computed number": {head + "deny contains n if n := count(input.vm.spec.volumes)", nil, []diagnostics.Problem{
			{Line: 2, Column: 1, Message: "deny contains number, a message or an object with msg and field is required"},
		}},

		"a function that talks": {head + "deny contains \"a\" if http.send({\"method\": \"get\", \"url\": \"http://x\"}).status_code == 200", nil, []diagnostics.Problem{
			{Line: 2, Column: 22, Message: "http.send is not available in policies: it talks to the network"},
		}},
		"a clock":       {head + "deny contains \"a\" if time.now_ns() > 5", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "time.now_ns is not available in policies: it reads a clock, or keys and certificates that a clock makes invalid"}}},
		"the runtime":   {head + "deny contains opa.runtime().env.HOME", nil, []diagnostics.Problem{{Line: 2, Column: 15, Message: "opa.runtime is not available in policies: it depends on the process that it runs in"}}},
		"net.":          {head + "deny contains \"a\" if net.cidr_contains(\"10.0.0.0/8\", \"10.0.0.1\")", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "net.cidr_contains is not available in policies: it serves another purpose than evaluating a virtual machine"}}},
		"a mock":        {head + "deny contains \"a\" if true with http.send as 1", nil, []diagnostics.Problem{{Line: 2, Column: 32, Message: "http.send is not available in policies: it talks to the network"}}},
		"foreign data":  {head + "deny contains \"a\" if data.other.x", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "data.other.x is not in this module, and there is no other data"}}},
		"all data":      {head + "deny contains \"a\" if data[_].x", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "data[_].x is not in this module, and there is no other data"}}},
		"imported data": {"package test\nimport data.lib\ndeny contains lib.x", nil, []diagnostics.Problem{{Line: 2, Column: 8, Message: "data.lib is not in this module, and there is no other data"}}},

		"an unknown document": {head + "deny contains \"a\" if input.wm.spec", nil, []diagnostics.Problem{
			{Line: 2, Column: 22, Message: "input has no wm; it has domain, instancetype, migrationTargets, namespaceObject, object, oldObject, params, platform, pod, preference and 6 more"},
		}},
		"a misspelt path": {head + "deny contains \"a\" if input.vm.spec.domian.memory", nil, []diagnostics.Problem{
			{Line: 2, Column: 22, Message: "input.vm.spec has no domian; it has domain, dnsConfig, dnsPolicy, accessCredentials, affinity, architecture, evictionStrategy, hostname, livenessProbe, networks and 13 more"},
		}},
		"a misspelt path of a variable": {head + "deny contains \"a\" if { some d in input.vm.spec.domain.devices.disks; d.disk.buss == \"sata\" }", nil, []diagnostics.Problem{
			{Line: 2, Column: 70, Message: "d.disk has no buss; it has bus, pciAddress, readonly"},
		}},
		"a quantity is a string":     {head + "deny contains \"a\" if input.vm.spec.domain.memory.guest == 8", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "match error (left: string, right: number)"}}},
		"a misspelt path of object":  {head + "deny contains \"a\" if input.object.spec.running_", []string{"VirtualMachine"}, []diagnostics.Problem{{Line: 2, Column: 22, Message: "input.object.spec has no running_; it has running, runStrategy, dataVolumeTemplates, instancetype, preference, template, updateVolumesStrategy"}}},
		"a misspelt path in a pool":  {head + "deny contains \"a\" if input.oldObject.spec.x", []string{"VirtualMachinePool"}, []diagnostics.Problem{{Line: 2, Column: 22, Message: "input.oldObject.spec has no x; it has autohealing, maxUnavailable, nameGeneration, paused, replicas, scaleInStrategy, selector, updateStrategy, virtualMachineTemplate"}}},
		"a misspelt instancetype":    {head + "deny contains \"a\" if input.instancetype.spec.cpu", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "input.instancetype has no spec; it has schedulerName, annotations, cpu, gpus, hostDevices, ioThreads, ioThreadsPolicy, launchSecurity, memory, nodeSelector"}}},
		"a misspelt requester":       {head + "deny contains \"a\" if input.requester == 5", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "match error (left: string, right: number)"}}},
		"a misspelt namespaceObject": {head + "deny contains \"a\" if input.namespaceObject.labels", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "input.namespaceObject has no labels; it has apiVersion, kind, metadata"}}},

		"a status":       {head + "deny contains \"a\" if input.vm.status.phase == \"Running\"", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "input.vm has no status; it has spec, apiVersion, kind, metadata"}}},
		"managed fields": {head + "deny contains \"a\" if input.vm.metadata.managedFields", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "input.vm.metadata has no managedFields; it has annotations, creationTimestamp, deletionGracePeriodSeconds, deletionTimestamp, finalizers, generateName, generation, labels, name, namespace and 4 more"}}},

		"a number out of proportion": {head + "deny contains \"a\" if 1e999999999 > 2", nil, []diagnostics.Problem{{Line: 2, Column: 22, Message: "number too big"}}},
	} {
		t.Run(name, func(t *testing.T) {
			module, issues := Compile("test.rego", test.module, test.kinds...)
			if diff := cmp.Diff(test.want, issues); diff != "" {
				t.Error(diff)
			}
			if module != nil {
				t.Error("there is a module in spite of the issues")
			}
		})
	}
}

// TestCompileIsBounded throws modules at the compiler that are large in one way or another.
func TestCompileIsBounded(t *testing.T) {
	doubled := func(join string, lines int) string {
		s := " x0 := [1, 2]\n"
		for i := range lines {
			s += fmt.Sprintf(" x%d := "+join+"\n", i+1, i, i)
		}
		return s
	}
	distinct := func(rules int) string {
		var s strings.Builder
		for i := range rules {
			fmt.Fprintf(&s, "r%d if input.vm.spec.hostname == \"%d\"\n", i, i)
		}
		return s.String()
	}
	for name, test := range map[string]struct{ module, want string }{
		"bytes":          {head + "# " + strings.Repeat("x", MaxModuleBytes), "the module has 262159 bytes: at most 262144"},
		"lines":          {head + strings.Repeat("\n", MaxModuleLines), "the module has 10001 lines: at most 10000"},
		"rules":          {head + "deny contains \"a\"\n" + distinct(MaxRules), "the module has 1001 rules: at most 1000"},
		"clauses":        {head + "deny contains \"a\"\nx := 1 if input.vm" + strings.Repeat(" else := 2 if input.vm", MaxRules), "the module has 1002 rules: at most 1000"},
		"brackets":       {head + "x := " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "the expression is nested deeper than 100 levels"},
		"lists":          {head + "x := " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "the expression is nested deeper than 100 levels"},
		"objects":        {head + "x := " + strings.Repeat("{1: ", 5000) + "1" + strings.Repeat("}", 5000), "the expression is nested deeper than 100 levels"},
		"sums":           {head + "x := " + strings.Repeat("1 + ", 5000) + "1", "the expression is nested deeper than 100 levels"},
		"calls":          {head + "f(x) := x\ny := " + strings.Repeat("f(", 3000) + "1" + strings.Repeat(")", 3000), "the expression is nested deeper than 100 levels"},
		"indices":        {head + "x := " + strings.Repeat("input.params[", 5000) + "1" + strings.Repeat("]", 5000), "the expression is nested deeper than 100 levels"},
		"every":          {head + "x if { " + strings.Repeat("every z in [1] { ", 200) + "z == 1" + strings.Repeat("}", 200) + " }", "the expression is nested deeper than 100 levels"},
		"digits":         {head + "x := " + strings.Repeat("9", 200_000), "number too big"},
		"a large number": {head + "deny contains \"a\" if input.vm.spec.hostname == 1e2000", "a number has more than 1000 digits, or a large exponent"},
		"exponents":      {head + "x := {" + manyTimes(9000, "%de900,") + "1}", "the numbers up to this one have more than 400000 digits, exponents included: write smaller exponents"},
		"elements":       {head + "deny contains \"a\" if input.vm.spec.hostname == [" + strings.Repeat("1,", 100_000) + "1]", "a value has 100001 elements: at most 10000"},
		"doubled lists": {
			head + "deny contains \"a\" if {\n" + doubled("[x%d, x%d]", 40) + " count(x40) == 2 }", "x12 would hold more than 10000 values, because it repeats lists or objects",
		},
		"doubled objects": {
			head + "deny contains \"a\" if {\n" + doubled("{\"a\": x%d, \"b\": x%d}", 40) + " count(x40) == 2 }", "x11 would hold more than 10000 values, because it repeats lists or objects",
		},
		"doubled rules": {
			head + "x0 := [1]\ndeny contains \"a\" if x40 == 5\n" + strings.ReplaceAll(doubled("[x%d, data.test.x%d]", 40), " x0 := [1, 2]\n", ""), "x12 would hold more than 10000 values, because it repeats lists or objects",
		},
		"doubled calls": {
			head + "f(x) := [x, x]\ndeny contains \"a\" if " + strings.Repeat("f(", 40) + "1" + strings.Repeat(")", 40) + " == 5", "a call would return more than 10000 values, because it repeats lists or objects",
		},
		"unknown functions": {head + "deny contains \"a\"\n" + strings.Repeat("x if nope(1)\n", 500), "undefined function nope"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, issues := Compile("test.rego", test.module)
			if took := time.Since(start); took > patience {
				t.Errorf("it took %s", took)
			}
			if len(issues) == 0 || issues[0].Message != test.want {
				t.Errorf("got %v, want %q", issues, test.want)
			}
			if len(issues) > maxIssues+1 {
				t.Errorf("%d issues are reported", len(issues))
			}
		})
	}
}

// TestCompileTakesTenThousandLines shows that a module of the largest size is no problem by itself.
func TestCompileTakesTenThousandLines(t *testing.T) {
	var module strings.Builder
	module.WriteString(head)
	for i := range MaxRules {
		fmt.Fprintf(&module, "deny contains \"%d\" if {\n\n\n\tinput.params.n == %d\n\n\n\n\n}\n\n", i, i)
	}
	text := strings.TrimSuffix(module.String(), "\n\n")
	if lines := strings.Count(text, "\n") + 1; lines < MaxModuleLines-10 || lines > MaxModuleLines {
		t.Fatalf("the module of this test has %d lines", lines)
	}
	start := time.Now()
	compiled, issues := Compile("large.rego", text)
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %s", took)
	}
	violations, err := compiled.Eval(input(t, map[string]any{"params": map[string]any{"n": 777}}), Limits{})
	if diff := cmp.Diff([]diagnostics.Violation{{Message: "777"}}, violations); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestCompileTakes lists what a module may do.
func TestCompileTakes(t *testing.T) {
	for name, test := range map[string]struct {
		module string
		kinds  []string
		reads  []string
	}{
		"a message":               {head + "deny contains \"a\" if input.requester == \"bob\"", nil, []string{"requester"}},
		"an object":               {head + "warn contains {\"msg\": \"a\", \"field\": \"spec\"}", nil, nil},
		"any package":             {"package kubernetes.admission[\"x y\"]\ndeny contains \"a\" if data.kubernetes.admission[\"x y\"].p\np if input.params.p", nil, []string{"params"}},
		"imports":                 {"package test\nimport rego.v1\nimport input.vm as machine\ndeny contains \"a\" if machine.spec.hostname == \"x\"", nil, []string{"vm"}},
		"future keywords":         {"package test\nimport future.keywords.if\ndeny contains \"a\" if true", nil, nil},
		"computed documents":      {head + "deny contains \"a\" if input[x].metadata.name == \"y\"", nil, withoutPreviews()},
		"a computed preview":      {head + "deny contains \"a\" if { some name in [\"pod\", \"domain\"]; input[name].name == \"x\" }", nil, withoutTargets()},
		"previews":                {head + "deny contains \"a\" if input.pod.spec.nodeName == input.domain.devices.disk[_].serial", nil, []string{"domain", "pod"}},
		"the input as a whole":    {head + "deny contains \"a\" if { x := input; x.pod.spec.nodeName == x.vm.spec.domain.machine.type }", nil, withoutTargets()},
		"the input without them":  {head + "deny contains \"a\" if { x := input; x.vm.metadata.name == input.vm.spec.domain.machine.type }", nil, withoutPreviews()},
		"object of several kinds": {head + "deny contains \"a\" if input.object.spec.whatever", []string{"VirtualMachine", "VirtualMachineInstance"}, []string{"object"}},
		"an unknown kind":         {head + "deny contains \"a\" if input.object.spec.whatever", []string{"VirtualMachineTemplate"}, []string{"object"}},
		"object of a kind":        {head + "deny contains \"a\" if input.object.spec.template.spec.hostname == \"x\"", []string{"VirtualMachine"}, []string{"object"}},
		"labels":                  {head + "deny contains \"a\" if not input.vm.metadata.labels[\"example.com/team\"]", nil, []string{"vm"}},
		"a helper":                {head + "big(q) if units.parse_bytes(q) > 1\ndeny contains \"a\" if big(input.vm.spec.domain.memory.guest)", nil, []string{"vm"}},
		"print and trace":         {head + "deny contains \"a\" if { print(input.vm); trace(\"here\") }", nil, []string{"vm"}},
		"a name like a function":  {head + "any := 5\ndeny contains \"a\" if any == 5", nil, nil},
		"a template string":       {head + "deny contains $\"no {input.requester}\"", nil, []string{"requester"}},
		"a computed element":      {head + "deny contains v if some v in input.params.list", nil, []string{"params"}},
		"a mocked input":          {head + "deny contains \"a\" if p with input.params as {\"x\": 1}\np if input.params.x == 1", nil, []string{"params"}},
	} {
		t.Run(name, func(t *testing.T) {
			module, issues := Compile("test.rego", test.module, test.kinds...)
			if len(issues) > 0 {
				t.Fatal(issues)
			}
			var reads []string
			for _, document := range documentNames() {
				if module.Reads(document) {
					reads = append(reads, document)
				}
			}
			if diff := cmp.Diff(test.reads, reads); diff != "" {
				t.Error(diff)
			}
			if module.Name() != "test.rego" {
				t.Errorf("its name is %q", module.Name())
			}
		})
	}
}

// withoutPreviews are the documents that a module reads which has no names of documents.
func withoutPreviews() []string {
	return slices.DeleteFunc(slices.Clone(documentNames()), func(name string) bool { return slices.Contains(cel.PreviewNames(), name) })
}

// withoutTargets are the documents that a module reads which has the names of all other previews.
func withoutTargets() []string {
	return slices.DeleteFunc(slices.Clone(documentNames()), func(name string) bool { return name == "migrationTargets" })
}
