package cel_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
)

func texts(issues []diagnostics.Problem) []string {
	var all []string
	for _, issue := range issues {
		all = append(all, issue.String())
	}
	return all
}

func TestIssues(t *testing.T) {
	for name, c := range map[string]struct {
		kinds      []string
		expression string
		want       []string
	}{
		"a misspelt field": {
			[]string{apikinds.VirtualMachine},
			"object.spec.tempalte.spec.domain.memory.guest == '4Gi'",
			[]string{"1:12: undefined field 'tempalte'; did you mean 'template'?"},
		},
		"deep in the effective VM": {
			nil, "vm.spec.domain.devices.disks.all(d,\n  d.disk.buss == 'virtio')",
			[]string{"2:9: undefined field 'buss'; did you mean 'bus'?"},
		},
		"another case": {nil, "vm.spec.domain.cpu.dedicatedCPUPlacement", []string{"1:19: undefined field 'dedicatedCPUPlacement'; did you mean 'dedicatedCpuPlacement'?"}},
		"nothing near": {nil, "vm.spec.domain.cpu.quantum", []string{"1:19: undefined field 'quantum'"}},
		"the status of a VM that does not run yet": {nil, "vm.status.phase", []string{"1:3: undefined field 'status'"}},
		"a misspelt variable":                      {nil, "objet.metadata.name == ''", []string{"1:1: undeclared reference to 'objet'; did you mean 'object'?"}},
		"an escaped name":                          {nil, "vm.metadata.__namespace__", []string{"1:12: undefined field '__namespace__'; did you mean 'namespace'?"}},
		"a quantity as a number":                   {nil, "vm.spec.domain.memory.guest > 4", []string{"1:29: found no matching overload for '_>_' applied to '(string, int)'"}},
		"no such function":                         {nil, "vm.metadata.name.beginsWith('x')", []string{"1:28: undeclared reference to 'beginsWith'"}},
		"a broken pattern":                         {nil, "vm.metadata.name.matches('[')", []string{"1:26: invalid matches argument: error parsing regexp: missing closing ]: `[`"}},
		"broken syntax":                            {nil, "vm.spec.\n  && true", []string{"2:3: Syntax error: no viable alternative at input '. &&'"}},
		"several mistakes":                         {nil, "vm.spec.a == vm.spec.b", []string{"1:8: undefined field 'a'", "1:21: undefined field 'b'"}},
		"nothing":                                  {nil, "", []string{"1:1: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"}},
		"making an object":                         {nil, "EffectiveVM{kind: 'x'}.kind", nil},
		"a field of one kind of two": {
			[]string{apikinds.VirtualMachine, apikinds.VirtualMachineInstance},
			"object.spec.template.spec.domain.cpu.cores == 1",
			[]string{"1:12: warning: in a VirtualMachineInstance: undefined field 'template'"},
		},
		"a field of neither kind": {
			[]string{apikinds.VirtualMachine, apikinds.VirtualMachineInstance},
			"object.metadata.lables.x == 'y'",
			[]string{"1:16: in a VirtualMachine and a VirtualMachineInstance: undefined field 'lables'; did you mean 'labels'?"},
		},
		"a field of neither of two kinds, and a third without a schema": {
			[]string{apikinds.VirtualMachineTemplate, apikinds.VirtualMachine, apikinds.VirtualMachineInstance, apikinds.VirtualMachine},
			"object.parameters == 1",
			[]string{"1:7: warning: in a VirtualMachine and a VirtualMachineInstance: undefined field 'parameters'"},
		},
		"a kind without a schema": {[]string{apikinds.VirtualMachineTemplate}, "object.spec.whatever == 1", nil},
		"vm is typed whatever object is": {
			[]string{apikinds.VirtualMachine, apikinds.VirtualMachinePool},
			"vm.spec.domian.cpu.cores == 1",
			[]string{"1:8: undefined field 'domian'; did you mean 'domain'?"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, issues := scope(t, cel.ScopeOptions{Kinds: c.kinds}).Compile(c.expression, cel.Any)
			got := texts(issues)
			if name == "a broken pattern" && len(got) == 1 {
				got[0], _, _ = strings.Cut(got[0], ":")
				c.want = []string{"1"}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Problems of a scope have their fields, and all of them are reported.
func TestScopeIssues(t *testing.T) {
	e, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	ref := "elsewhere"
	for name, c := range map[string]struct {
		options cel.ScopeOptions
		want    []string
	}{
		"an unknown kind": {
			cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine, "Pod"}},
			[]string{"kinds[1]: unknown kind \"Pod\": the known ones are Plugin, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceReplicaSet, VirtualMachinePool, VirtualMachineTemplate"},
		},
		"variables": {
			cel.ScopeOptions{Variables: []cel.Expression{
				{Name: "a", Expression: "vm.spec.x"},
				{Name: "b", Expression: "variables.a.whatever + variables.c"},
				{Name: "c", Expression: "1"},
				{Name: "c", Expression: "2"},
				{Name: "not a name", Expression: "3"},
			}},
			[]string{
				"variables[0].expression:1:8: undefined field 'x'",
				"variables[1].expression:1:33: undefined field 'c'",
				"variables[3].name: there is a variable \"c\" already",
				"variables[4].name: \"not a name\" is not a name that an expression can use: letters, digits and _, not beginning with a digit",
			},
		},
		"a reference in the parameters": {
			cel.ScopeOptions{Params: &apiextensionsv1.JSONSchemaProps{Ref: &ref}},
			[]string{"params: a schema with $ref is not supported: write it in place"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, issues := e.Scope(c.options)
			if s != nil {
				t.Error("there is a scope nevertheless")
			}
			if diff := cmp.Diff(c.want, texts(issues)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A variable's type is known to those after it.
func TestVariablesAreTyped(t *testing.T) {
	s := scope(t, cel.ScopeOptions{
		Kinds: []string{apikinds.VirtualMachine, apikinds.VirtualMachineInstance},
		Variables: []cel.Expression{
			{Name: "cpu", Expression: "vm.spec.domain.cpu"},
			{Name: "cores", Expression: "variables.cpu.cores"},
		},
	})
	for expression, want := range map[string]string{
		"variables.cpu.coers":    "1:14: undefined field 'coers'; did you mean 'cores'?",
		"variables.cores == 'x'": "1:17: found no matching overload for '_==_' applied to '(int, string)'",
		"variables.core":         "1:10: undefined field 'core'; did you mean 'cores'?",
	} {
		if diff := cmp.Diff([]string{want}, texts(second(s.Compile(expression, cel.Any)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
}

// What is read behind an optional value that a variable holds would always be absent.
func TestOptionalVariables(t *testing.T) {
	s := scope(t, cel.ScopeOptions{Variables: []cel.Expression{
		{Name: "cpu", Expression: "vm.spec.domain.?cpu"},
		{Name: "chained", Expression: "vm.spec.domain.?cpu.numa.?guestMappingPassthrough"},
		{Name: "cores", Expression: "vm.spec.domain.?cpu.?cores.orValue(1)"},
	}})
	const advice = "variables.cpu is optional, and CEL finds no field of it: use variables.cpu.value() if variables.cpu.hasValue(), or use variables.cpu.optMap"
	for expression, want := range map[string]string{
		"variables.cpu.?cores.orValue(1)":            "1:14: " + advice,
		"true ||\n  variables.cpu.cores.hasValue()":  "2:16: " + advice,
		"[vm.spec.domain.?cpu][0].?cores.hasValue()": "1:25: " + strings.ReplaceAll(advice, "variables.cpu", "[vm.spec.domain.?cpu][0]"),
	} {
		_, issues := s.Compile(expression, cel.Any)
		if diff := cmp.Diff([]string{want}, texts(issues)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
	for expression, want := range map[string]any{
		"variables.cpu.hasValue() && variables.cpu.value().?cores.orValue(1) == 4": true,
		"variables.cpu.optMap(c, c.?cores.orValue(1)).orValue(1)":                  int64(4),
		"variables.cpu.or(vm.spec.domain.?cpu).?cores.orValue(1)":                  int64(4),
		"[vm.spec.domain.?cpu].all(c, c.?cores.orValue(1) == 4)":                   true,
		"vm.spec.domain.?cpu.numa.?guestMappingPassthrough.hasValue()":             false,
		"variables.chained.hasValue() || variables.cores == 4":                     true,
	} {
		got, err := evaluate(t, s, documents(), expression)
		if err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", expression, got, err, want)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }
