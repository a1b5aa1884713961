package rego

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFields holds that modules find the same, for the same steps, in documents of which only their fields are converted.
func TestFields(t *testing.T) {
	spec := map[string]any{"hostname": "h", "domain": map[string]any{"cpu": map[string]any{"cores": 2}, "devices": map[string]any{"disks": []any{map[string]any{"name": "a", "disk": map[string]any{"bus": "sata"}}}}}}
	docs := map[string]any{
		"vm":     map[string]any{"metadata": map[string]any{"name": "x", "labels": map[string]any{"a/b": "c", "d": "e"}}, "spec": spec},
		"object": map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec}, "params": map[string]any{"names": []any{"a"}},
	}
	modules := costly()
	for i, body := range []string{
		"input.vm.metadata.labels[\"a/b\"] == \"c\"", "some k, v in input.vm.metadata.labels; v == \"e\"", "input.vm.spec.domain.devices.disks[_].disk.bus == \"sata\"",
		"x := input.vm.spec.domain; x.cpu.cores == 2", "count(input.vm) > 0", "some d; input[d].metadata.name == \"x\"", "input.object.spec == input.vm.spec",
		"input.vm.spec[\"hostname\"] == \"h\"", "not input.vm.spec.subdomain", "walk(input, [p, \"sata\"])", "input.vm.spec.hostname == \"y\" with input.vm.spec.hostname as \"y\"",
		"x := object.get(input, [\"vm\", \"spec\", \"hostname\"], \"\"); x == \"h\"", "some k; input.vm[k].hostname == \"h\"", "every d in input.vm.spec.domain.devices.disks { d.name == \"a\" }",
		"input.params.names[_] == input.vm.spec.domain.devices.disks[_].name", "$\"{input.vm.spec.hostname}\" == \"h\"", "{x | x := input.vm.spec.hostname} == {\"h\"}",
	} {
		modules[fmt.Sprintf("body %d", i)] = "deny contains \"a\" if { " + body + " }"
		modules[fmt.Sprintf("key %d", i)] = "deny contains input.vm.metadata.name if { " + body + " }\nwarn contains {\"msg\": input.object.metadata.name, \"field\": \"spec\"}"
	}
	for name, text := range modules {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, "package a\n"+text)
			limits := Limits{Steps: 5000}
			want, spent, err := module.Measure(input(t, docs), limits)
			got, less, errLess := module.Measure(input(t, docs).For(FieldsOf(module)), limits)
			if !slices.Equal(got, want) || less != spent || fmt.Sprint(errLess) != fmt.Sprint(err) {
				t.Errorf("%v, %+v, %v; want %v, %+v, %v", got, less, errLess, want, spent, err)
			}
		})
	}
	in := input(t, docs).For(FieldsOf(mustCompile(t, "package a\ndeny contains \"a\" if input.vm.spec.hostname == \"y\"")))
	if _, size, err := in.term(1<<len(documentNames()) - 1); err != nil || size.bytes == 0 {
		t.Fatal(size, err)
	}
	if text, err := json.Marshal(in.document("vm").term); err != nil || strings.Contains(string(text), "cores") || !strings.Contains(string(text), "hostname") {
		t.Errorf("%s, %v", text, err)
	}
}
