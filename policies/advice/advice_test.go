package advice_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/advice"
)

// adviceOn returns the advice on a spec, one line each.
func adviceOn(t *testing.T, text string) []string {
	t.Helper()
	var spec policyv1alpha1.VirtualMachinePolicySpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var lines []string
	for _, a := range advice.Of(&spec, effective.AlwaysSet()) {
		lines = append(lines, fmt.Sprintf("%s %s:%d:%d: %s", a.Check, a.Field, a.Line, a.Column, a.Message))
	}
	return lines
}

// TestCEL has a mistake and correct forms for each check of expressions.
func TestCEL(t *testing.T) {
	const values = "params: {values: {limit: 8Gi, pattern: '(', names: {good: 'a+', bad: '['}}}\n"
	for _, c := range []struct {
		name, expression string
		spec             string
		want             []string
	}{
		{"a quantity that is ordered", "vm.spec.domain.memory.guest <= '8Gi'", "", []string{
			"quantity-string spec.validations[0].expression:1:29: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
		}},
		{"a request with a default", "params.limit > object.spec.template.spec.domain.?resources.?requests[?'memory'].orValue('0')", values, []string{
			"quantity-string spec.validations[0].expression:1:14: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
		}},
		{"a quantity behind a variable", "variables.guest < '8Gi'", "variables: [{name: guest, expression: vm.spec.domain.memory.guest}]", []string{
			"quantity-string spec.validations[0].expression:1:17: a quantity is compared as a string, so '16Gi' is less than '2Gi': use quantity(a).compareTo(quantity(b))",
		}},
		{"a quantity in another form", "vm.spec.domain.memory.guest == '8192Mi'", "", []string{
			`quantity-string spec.validations[0].expression:1:29: "8192Mi" is never equal to a quantity, whose canonical form is "8Gi": use quantity()`,
		}},
		{"a quantity in canonical form", "vm.spec.domain.memory.guest == '8Gi' && vm.spec.domain.memory.guest != params.limit", values, nil},
		{"a compared quantity", "quantity(vm.spec.domain.memory.guest).compareTo(quantity('8192Mi')) <= 0", "", nil},
		{"a field that is no quantity", "vm.spec.domain.cpu.cores <= 4 && instancetype.cpu.guest > 1", "", nil},
		{"a pattern in a parameter", "vm.metadata.name.matches(params.pattern) || vm.metadata.name.matches(params.names['bad'])", values, []string{
			"pattern spec.validations[0].expression:1:25: the pattern in params.pattern does not compile: error parsing regexp: missing closing ): `(`",
			"pattern spec.validations[0].expression:1:69: the pattern in params.names.bad does not compile: error parsing regexp: missing closing ]: `[`",
		}},
		{"a correct pattern in a parameter", "vm.metadata.name.matches(params.names.good)", values, nil},
		{"a parameter that does not exist", "vm.metadata.name != params.limits", values, []string{
			"parameter spec.validations[0].expression:1:27: spec.params.values has no limits, so the policy cannot be evaluated; did you mean limit?",
		}},
		{"a parameter that may exist", "has(params.max) && vm.metadata.name != params.max || params.?most.orValue('') == ''", values, nil},
		{"parameters of a ConfigMap", "params.anything == 'x'", "params: {configMap: {namespace: a, name: b}}", nil},
		{"an optional that is compared with null", "vm.spec.?evictionStrategy == null", "", []string{
			"null-comparison spec.validations[0].expression:1:27: an optional is never null: use hasValue() or orValue()",
		}},
		{"a field that is compared with null", "null != object.spec.running", "", []string{
			"null-comparison spec.validations[0].expression:1:6: a field that is not set is absent, not null, and reading it fails: use has()",
		}},
		{"documents that can be null", "instancetype == null || oldObject == null || params.none == null", "params: {values: {none: null}}", nil},
		{"an old object on create", "object.spec.runStrategy == oldObject.spec.runStrategy", "", []string{
			"old-object spec.validations[0].expression:1:42: oldObject is null on CREATE, so the policy cannot be evaluated: write oldObject == null || …, or match only UPDATE",
		}},
		{"an old object on update", "object.spec.runStrategy == oldObject.spec.runStrategy", "match: {operations: [UPDATE]}", nil},
		{"an old object behind a comparison", "oldObject == null || object.spec.runStrategy == oldObject.spec.runStrategy", "", nil},
		{"an old object behind the object", "object != null || oldObject.metadata.name == ''", "match: {operations: [CREATE, DELETE]}", nil},
		{"an old object behind the operation", "request.operation == 'CREATE' || oldObject.metadata.name == ''", "", nil},
		{"an old object behind a condition", "oldObject.metadata.name == ''", "match: {matchConditions: [{name: update, expression: oldObject != null}]}", nil},
		{"a field that can be absent", "vm.spec.domain.cpu.dedicatedCpuPlacement && vm.spec.domain.cpu.dedicatedCpuPlacement == true", "", []string{
			"absent-field spec.validations[0].expression:1:19: vm.spec.domain.cpu.dedicatedCpuPlacement can be absent, and reading it fails then: use vm.spec.domain.cpu.?dedicatedCpuPlacement, or has()",
		}},
		{"a field of one that can be absent", "vm.spec.domain.memory.hugepages.pageSize == '2Mi'", "", []string{
			"absent-field spec.validations[0].expression:1:22: vm.spec.domain.memory.hugepages can be absent, and reading it fails then: use vm.spec.domain.memory.?hugepages, or has()",
		}},
		{"a field that is tested", "!has(vm.spec.domain.cpu.numa) || has(vm.spec.domain.cpu.numa.guestMappingPassthrough)", "", nil},
		{"an optional field", "vm.spec.?nodeSelector.orValue({}).size() == 0", "", nil},
		{"a field that is tested elsewhere", "vm.spec.tolerations.size() > 0", "match: {matchConditions: [{name: tolerant, expression: has(vm.spec.tolerations)}]}", nil},
		{"a list that can be empty", "vm.spec.volumes.all(v, has(v.containerDisk))", "", []string{
			"absent-field spec.validations[0].expression:1:8: vm.spec.volumes can be absent, and reading it fails then: use vm.spec.?volumes, or has()",
		}},
		{"fields that are never absent", "vm.spec.domain.cpu.cores * vm.spec.domain.cpu.sockets <= 4 && vm.spec.architecture == 'amd64' && vm.spec.domain.devices.autoattachVSOCK", "", nil},
		{"a field of the object", "object.spec.template.spec.nodeSelector.size() == 0", "", nil},
		{"what does not parse", "vm.", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := fmt.Sprintf("%s\nvalidations: [{expression: %q, message: m}]", strings.TrimSpace(c.spec), c.expression)
			if diff := cmp.Diff(c.want, adviceOn(t, spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRego has a mistake and correct forms for each check of modules.
func TestRego(t *testing.T) {
	for _, c := range []struct {
		name, body string
		params     string
		want       []string
	}{
		{"a quantity that is ordered", `input.vm.spec.domain.memory.guest > "8Gi"`, "", []string{
			`quantity-string spec.rego.module:3:5: a quantity is compared as a string, so "16Gi" is less than "2Gi": use units.parse_bytes`,
		}},
		{"a quantity in another form", `input.vm.spec.domain.memory.guest == "8192Mi"`, "", []string{
			`quantity-string spec.rego.module:3:5: "8192Mi" is never equal to a quantity, whose canonical form is "8Gi"`,
		}},
		{"a compared quantity", `units.parse_bytes(input.vm.spec.domain.memory.guest) > units.parse_bytes("8Gi")`, "", nil},
		{"a negated comparison", `not input.vm.spec.domain.cpu.cores > 4`, "", []string{
			"negation spec.rego.module:3:5: the negation is true too if input.vm.spec.domain.cpu.cores is absent: compare without not, or use object.get",
		}},
		{"a negation of a rule", `not allowed`, "", nil},
		{"a comparison", `input.vm.spec.domain.cpu.cores <= 4`, "", nil},
		{"a default", `not object.get(input.vm.spec.domain, ["cpu", "cores"], 1) > 4`, "", nil},
		{"a pattern", `regex.match("(", input.vm.metadata.name)`, "", []string{
			"pattern spec.rego.module:3:17: the pattern does not compile: error parsing regexp: missing closing ): `(`",
		}},
		{"a pattern in a parameter", `x := regex.find_n(input.params.pattern, input.vm.metadata.name, 1)`, `{"pattern": "["}`, []string{
			"pattern spec.rego.module:3:23: the pattern in params.pattern does not compile: error parsing regexp: missing closing ]: `[`",
		}},
		{"a correct pattern", `regex.match(input.params.pattern, input.vm.metadata.name)`, `{"pattern": "a+"}`, nil},
		{"a parameter that does not exist", `input.vm.metadata.name == input.params.names`, `{"name": "x"}`, []string{
			"parameter spec.rego.module:3:31: spec.params.values has no names, so the rule never applies; did you mean name?",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := "package x\ndeny contains \"m\" if {\n    " + c.body + "\n}\nallowed if input.vm.metadata.name == \"a\"\n"
			spec, err := yaml.Marshal(map[string]any{"enforcement": "Deny", "rego": map[string]any{"module": module}})
			if err != nil {
				t.Fatal(err)
			}
			text := string(spec)
			if c.params != "" {
				text += "params: {values: " + c.params + "}\n"
			}
			if diff := cmp.Diff(c.want, adviceOn(t, text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLibrary: the policies of the library and the examples get no advice.
func TestLibrary(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../library/*/policy.yaml", "../../examples/policy/*/policy.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("only %d policies", len(files))
	}
	for _, file := range slices.Sorted(slices.Values(files)) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var policy policyv1alpha1.VirtualMachinePolicy
		if err := yaml.Unmarshal(data, &policy); err != nil {
			t.Fatal(err)
		}
		for _, a := range advice.Of(&policy.Spec, effective.AlwaysSet()) {
			t.Errorf("%s: %s: %s:%d: %s", file, a.Check, a.Field, a.Line, a.Message)
		}
	}
}
