package policies_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

func texts(problems []diagnostics.Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return all
}

const valid = `validations: [{expression: "true", message: m, fieldPath: spec.domain}]`

// TestProblems holds what a policy is rejected for, or warned of, and where.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"in order": {"enforcement: Deny\n" + valid, nil},
		"no enforcement": {valid, []string{
			`spec.enforcement: Unsupported value: "": supported values: "Deny", "Warn", "Audit"`,
		}},
		"a deletion": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine], operations: [DELETE]}\nvalidations: [{expression: 'oldObject.metadata.name != vm.metadata.name', message: m}]", nil},
		"a deletion that reads object": {"enforcement: Deny\nmatch: {operations: [DELETE]}\nvariables: [{name: labels, expression: object.metadata.labels}]\nvalidations: [{expression: size(variables.labels) > 0, message: m}, {expression: 'object == null || size(variables.labels) > 0', message: m}, {expression: 'has(object.metadata.labels)', message: m}]", []string{
			"spec.validations[0].expression: warning: object is null on DELETE: read oldObject, or test object == null first",
			"spec.validations[2].expression: warning: object is null on DELETE: read oldObject, or test object == null first",
		}},
		"a deletion whose condition tests for null": {"enforcement: Deny\nmatch: {operations: [CREATE, DELETE], matchConditions: [{name: a, expression: 'object != null && has(object.metadata.labels)'}]}\nvalidations: [{expression: 'has(object.metadata.labels)', message: m, fieldPath: metadata.labels}]", nil},
		"a deletion that reads the operation":       {"enforcement: Deny\nmatch: {operations: [CREATE, DELETE]}\nvalidations: [{expression: \"request.operation == 'DELETE' || has(object.metadata.labels)\", message: m, fieldPath: metadata.labels}]", nil},
		"a condition of a deletion that reads object": {"enforcement: Deny\nmatch: {operations: [DELETE], matchConditions: [{name: a, expression: 'has(object.metadata.labels)'}]}\nvalidations: [{expression: 'false', message: m}]", []string{
			"spec.match.matchConditions[0].expression: warning: object is null on DELETE: read oldObject, or test object == null first",
		}},
		"a deletion in Rego that reads object": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine], operations: [DELETE]}\nrego: {module: \"package a\\ndeny contains \\\"m\\\" if input.object.metadata.name\"}", []string{
			"spec.rego.module: warning: input.object is undefined on DELETE, so a rule that reads it has no result: read input.oldObject",
		}},
		"a deletion of a template": {"enforcement: Deny\nmatch: {kinds: [VirtualMachineTemplate], operations: [DELETE]}\nvalidations: [{expression: 'false', message: m}]", []string{
			"spec.match.operations: warning: deletions of a VirtualMachineTemplate are not evaluated",
		}},
		"neither CEL nor Rego": {"enforcement: Deny", []string{
			"spec: Invalid value: exactly one of validations and rego is required",
		}},
		"CEL and Rego": {"enforcement: Deny\nrego: {module: package a}\n" + valid, []string{
			"spec: Invalid value: exactly one of validations and rego is required",
		}},
		"variables with Rego": {"enforcement: Deny\nrego: {module: package a}\nvariables: [{name: a, expression: a}]", []string{
			"spec: Invalid value: variables are for CEL: in Rego, define rules in the module",
		}},
		"an export of Rego": {"enforcement: Deny\nrego: {module: package a}\nexportTo: [APIServer]", []string{
			"spec: Invalid value: only a policy in CEL can have exportTo: the API server cannot evaluate Rego",
		}},
		"nothing to say": {"enforcement: Deny\nvalidations: [{expression: 'true'}]", []string{
			"spec.validations[0]: Invalid value: message or messageExpression is required",
		}},
		"a variable twice": {"enforcement: Deny\nvariables: [{name: a, expression: '1'}, {name: a, expression: '2'}]\n" + valid, []string{
			`spec.variables[1]: Duplicate value: {"name":"a"}`,
		}},
		"an exception without namespaces and names": {"enforcement: Deny\nexceptions: [{reason: r}]\n" + valid, []string{
			"spec.exceptions[0]: Invalid value: namespaces or names is required",
		}},
		"a misspelt field": {"enforcement: Deny\nvalidations: [{expression: \"vm.metadata.name == '' ||\\n  vm.spec.domain.memry.guest == ''\", message: m, fieldPath: spec.domain}]", []string{
			"spec.validations[0].expression:2:17: undefined field 'memry'; did you mean 'memory'?",
		}},
		"a type other than bool": {"enforcement: Deny\nvalidations: [{expression: vm.metadata.name, message: m, fieldPath: spec.domain}]", []string{
			"spec.validations[0].expression:1:1: must result in a bool, not in a string",
		}},
		"a message of another type": {"enforcement: Deny\nvalidations: [{expression: 'true', messageExpression: '1'}]", []string{
			"spec.validations[0].messageExpression:1:1: must result in a string, not in a int",
		}},
		"a variable": {"enforcement: Deny\nvariables: [{name: a, expression: vm.foo}]\n" + valid, []string{
			"spec.variables[0].expression:1:3: undefined field 'foo'",
		}},
		"a condition that reads a variable": {"enforcement: Deny\nvariables: [{name: a, expression: 'true'}]\nmatch: {matchConditions: [{name: c, expression: variables.a}]}\n" + valid, []string{
			"spec.match.matchConditions[0].expression:1:10: undefined field 'a'",
		}},
		"a selector": {"enforcement: Deny\nmatch: {namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}}\n" + valid, []string{
			`spec.match.namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
		}},
		"a field that no kind has": {"enforcement: Deny\nvalidations: [{expression: 'true', message: m, fieldPath: spec.domain.cpus}]", []string{
			"spec.validations[0].fieldPath: in a VirtualMachine and a VirtualMachineInstance: there is no field cpus in spec.domain",
		}},
		"a field that one kind has": {"enforcement: Deny\nvalidations: [{expression: 'true', message: m, fieldPath: spec.runStrategy}]", []string{
			"spec.validations[0].fieldPath: warning: in a VirtualMachineInstance: there is no field runStrategy in spec",
		}},
		"an element without its place": {"enforcement: Deny\nvalidations: [{expression: 'true', message: m, fieldPath: spec.volumes.name}]", []string{
			"spec.validations[0].fieldPath: in a VirtualMachine and a VirtualMachineInstance: spec.volumes is a list: its elements are spec.volumes[0], spec.volumes[1] …",
		}},
		"below a quantity": {"enforcement: Deny\nvalidations: [{expression: 'true', message: m, fieldPath: spec.domain.memory.guest.value}]", []string{
			"spec.validations[0].fieldPath: in a VirtualMachine and a VirtualMachineInstance: spec.domain.memory.guest has no fields",
		}},
		"VMs only": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\nvalidations: [{expression: \"vm.metadata.name != ''\", message: m, fieldPath: spec.domain}]", []string{
			"spec.match.kinds: warning: without VirtualMachineInstance, the policy is not evaluated again when a VM starts: it misses changes of the instancetype and the preference",
		}},
		"VMs only, by a condition": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine], matchConditions: [{name: c, expression: instancetype != null}]}\n" + valid, []string{
			"spec.match.kinds: warning: without VirtualMachineInstance, the policy is not evaluated again when a VM starts: it misses changes of the instancetype and the preference",
		}},
		"VMs only, as they are written": {"enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\nvalidations: [{expression: \"object.metadata.name != ''\", message: m, fieldPath: spec.domain}]", nil},
		"an unknown hypervisor": {"enforcement: Deny\nmatch: {hypervisors: [xen]}\n" + valid, []string{
			`spec.match.hypervisors[0]: warning: unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`,
		}},
		"no way to tell a worse violation": {"enforcement: Deny\nvalidations: [{expression: 'true', message: m}]", []string{
			"spec.validations[0]: warning: without a fieldPath and a messageExpression, an update that makes a violation worse is admitted with a warning: it cannot be distinguished from one that does not change it",
		}},
		"values that do not fit": {"enforcement: Deny\nparams: {values: {max: many, mox: 1}, schema: {properties: {max: {type: integer}}}}\n" + valid, []string{
			`spec.params.values: Invalid value: "mox": the schema does not declare this parameter`,
			`spec.params.values.max: Invalid value: "string": max in body must be of type integer: "string"`,
		}},
		"a misspelt parameter": {"enforcement: Deny\nparams: {values: {max: 1}, schema: {properties: {max: {type: integer}}}}\nvalidations: [{expression: 'params.mox > 1', message: m, fieldPath: spec.domain}]", []string{
			"spec.validations[0].expression:1:7: undefined field 'mox'; did you mean 'max'?",
		}},
		"an invalid schema": {"enforcement: Deny\nparams: {values: {}, schema: {proprties: {}}}\n" + valid, []string{
			`spec.params.schema: Invalid value: unknown field "proprties"`,
		}},
		"a schema of something else": {"enforcement: Deny\nparams: {values: {}, schema: {type: string}}\n" + valid, []string{
			`spec.params.schema: Invalid value: the type must be object, not "string"`,
		}},
		"values and a ConfigMap": {"enforcement: Deny\nparams: {values: {}, configMap: {namespace: a, name: b}}\n" + valid, []string{
			"spec.params: Invalid value: exactly one of values and configMap is required",
		}},
		"no params": {"enforcement: Deny\nparams: {parameterNotFoundAction: Allow}\n" + valid, []string{
			"spec.params: Invalid value: exactly one of values and configMap is required",
			"spec.params: Invalid value: a configMap is required for parameterNotFoundAction",
		}},
		"an invalid module": {"enforcement: Deny\nrego: {module: \"package a\\ndeny contains 5 if true\"}", []string{
			"spec.rego.module:2:15: deny contains number, which is neither a message nor an object with msg and field",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := policies.Compile(env(t), read(t, "p", tc.spec), nil)
			if diff := cmp.Diff(tc.want, texts(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBounds tests that a policy beyond a bound is a problem, and does not panic or take long.
func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, tc := range map[string]struct {
		change func(*policyv1alpha1.VirtualMachinePolicy)
		want   string
	}{
		"no name":      {func(p *policyv1alpha1.VirtualMachinePolicy) { p.Name = "" }, "metadata.name: Required value: a policy needs a name"},
		"a long name":  {func(p *policyv1alpha1.VirtualMachinePolicy) { p.Name = long(64) }, "metadata.name: Invalid value: must have at most 63 characters"},
		"a long title": {func(p *policyv1alpha1.VirtualMachinePolicy) { p.Spec.Title = long(121) }, "spec.title: Too long: may not be more than 120"},
		"many validations": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Validations = slices.Repeat(p.Spec.Validations, 65)
		}, "spec.validations: Too many: 65: must have at most 64 items"},
		"a long expression": {func(p *policyv1alpha1.VirtualMachinePolicy) { p.Spec.Validations[0].Expression = long(8193) }, "spec.validations[0].expression: Too long: may not be more than 8192"},
		"long expressions together": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			long := strings.Repeat("vm.metadata.name == 'a' || ", 300) + "true"
			p.Spec.Validations = slices.Repeat([]policyv1alpha1.PolicyValidation{{Expression: "true", MessageExpression: "string(" + long + ")"}}, 3)
			p.Spec.Variables = []policyv1alpha1.PolicyVariable{{Name: "a", Expression: long}, {Name: "b", Expression: long}, {Name: "c", Expression: long}}
			p.Spec.Match.MatchConditions = []policyv1alpha1.PolicyCondition{{Name: "a", Expression: long}, {Name: "b", Expression: long}, {Name: "c", Expression: long}}
		}, "spec: the expressions have 72972 bytes together: at most 65536"},
		"a deep expression": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Validations[0].Expression = strings.Repeat("(", 4000) + "true" + strings.Repeat(")", 4000)
		}, "spec.validations[0].expression"},
		"a long module": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Validations, p.Spec.Rego = nil, &policyv1alpha1.PolicyRego{Module: long(1 << 19)}
		}, "spec.rego.module: Too long: may not be more than 262144"},
		"many exceptions": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Exceptions = slices.Repeat([]policyv1alpha1.PolicyException{{Names: []string{"a"}, Reason: "r"}}, 65)
		}, "spec.exceptions: Too many: 65: must have at most 64 items"},
		"large values": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Params = &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: []byte(`{"a":"` + long(1<<17) + `"}`)}}
		}, "spec.params.values: Invalid value: they have 131080 bytes: at most 65536"},
		"values that are no JSON": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Params = &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: []byte(`{"a":`)}}
		}, "spec: "},
		"many labels": {func(p *policyv1alpha1.VirtualMachinePolicy) {
			p.Spec.Match.ObjectSelector = read(t, "x", "match: {objectSelector: {matchLabels: {a: b}}}").Spec.Match.ObjectSelector
			for i := range 40 {
				p.Spec.Match.ObjectSelector.MatchLabels[fmt.Sprintf("l%d", i)] = "v"
			}
		}, "spec.match.objectSelector: Too many: 41: must have at most 32 items"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := read(t, "p", "enforcement: Deny\n"+valid)
			tc.change(policy)
			p, problems := policies.Compile(env(t), policy, nil)
			found := texts(problems)
			if len(found) == 0 || !strings.HasPrefix(strings.Join(found, "\n"), tc.want) || !diagnostics.Broken(problems) {
				t.Fatalf("problems %q, want one that begins with %q", found, tc.want)
			}
			if p.Broken() == "" {
				t.Error("the policy is not broken")
			}
			for _, problem := range problems {
				if len(problem.Status().Message) > policyv1alpha1.MaxPolicyProblemLength {
					t.Errorf("a message of %d bytes", len(problem.Message))
				}
			}
		})
	}
}

// TestABrokenPolicyCannotBeEvaluated tests the finding of a broken policy, by its failurePolicy, and that the other policies are evaluated.
func TestABrokenPolicyCannotBeEvaluated(t *testing.T) {
	broken := func(extra string) *policies.Policy {
		p, problems := policies.Compile(env(t), read(t, "a-broken", "enforcement: Deny\nvalidations: [{expression: vm.foo, message: m, fieldPath: spec.domain}, {expression: vm.bar, message: m, fieldPath: spec.domain}]\n"+extra), nil)
		if !diagnostics.Broken(problems) {
			t.Fatal("it is valid")
		}
		return p
	}
	const finding = " spec: Internal error: the policy is invalid: spec.validations[0].expression:1:3: undefined field 'foo' (and 1 more problems) [virtward/policy/a-broken] Ask an admin of the cluster to fix the policy."
	const good = "Deny spec.template.spec.domain: Invalid value: never [virtward/policy/good]"
	for name, tc := range map[string]struct {
		extra string
		want  []string
	}{
		"fail":              {"", []string{"Deny" + finding, good}},
		"ignore":            {"failurePolicy: Ignore", []string{"Warn" + finding, good}},
		"it does not match": {"match: {namespaceSelector: {matchLabels: {a: b}}}", []string{good}},
		"it is excepted":    {"exceptions: [{names: [db], reason: r}]", []string{good}},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.NewSet("", broken(tc.extra), compile(t, "good", never))
			wantSaid(t, set.Evaluate(vm(t, build.VMI("db")), noon), tc.want...)
		})
	}
	unreadable, _ := policies.Compile(env(t), read(t, "p", "enforcement: Audit\nmatch: {namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}}\n"+valid), nil)
	if found := policies.NewSet("", unreadable).Evaluate(vm(t, build.VMI("db")), noon); len(found) != 1 || found[0].Severity != "Audit" {
		t.Errorf("a policy whose selector cannot be read says %q", said(found))
	}
}

// unfit is the finding of a policy whose ConfigMap does not fit. It has no value of the ConfigMap.
const unfit = "Deny spec: Internal error: the policy is invalid: spec.params.configMap: its values do not fit spec.params.schema, or are too large: they are not shown here, because others read policies than ConfigMaps; write the policy again to see them [virtward/policy/p] Ask an admin of the cluster to fix the policy."

func TestParams(t *testing.T) {
	resolve := func(data map[string]string) policies.ParamsResolver {
		return func(namespace, name string) (map[string]string, bool) {
			return data, data != nil && namespace == "policies" && name == "limits"
		}
	}
	const configMap = "params: {configMap: {namespace: policies, name: limits}%s}\n"
	const schema = ", schema: {properties: {cores: {type: integer, default: 2}, models: {type: array, items: {type: string}}, note: {type: string}}}"
	const failed = "Deny spec: Internal error: the policy cannot be evaluated: spec.params.configMap: there is no ConfigMap policies/limits [virtward/policy/p] Ask an admin of the cluster to fix the policy."
	for name, tc := range map[string]struct {
		params, expression string
		data               map[string]string
		want               []string
	}{
		"inline":                          {"params: {values: {cores: 4, ratio: 0.5, list: [a]}}\n", "params.cores == 4 && params.ratio < 1.0 && params.list == ['a']", nil, nil},
		"a default of the schema":         {"params: {values: {}, schema: {properties: {cores: {type: integer, default: 2}}}}\n", "params.cores == 2", nil, nil},
		"a ConfigMap":                     {fmt.Sprintf(configMap, ""), "params.cores == '4'", map[string]string{"cores": "4"}, nil},
		"a ConfigMap with a schema":       {fmt.Sprintf(configMap, schema), "params.cores == 4 && params.models == ['a', 'b'] && params.note == '5'", map[string]string{"cores": "4", "models": "[a, b]", "note": "5", "other": "{"}, nil},
		"a ConfigMap without the key":     {fmt.Sprintf(configMap, schema), "params.cores == 2", map[string]string{}, nil},
		"no ConfigMap":                    {fmt.Sprintf(configMap, ""), "false", nil, []string{failed}},
		"no ConfigMap, which denies":      {fmt.Sprintf(configMap, ", parameterNotFoundAction: Deny"), "false", nil, []string{failed}},
		"no ConfigMap, which is ignored":  {fmt.Sprintf(configMap, ", parameterNotFoundAction: Deny") + "failurePolicy: Ignore\n", "false", nil, []string{"Warn" + strings.TrimPrefix(failed, "Deny")}},
		"no ConfigMap, which is allowed":  {fmt.Sprintf(configMap, ", parameterNotFoundAction: Allow"), "false", nil, nil},
		"a ConfigMap that does not fit":   {fmt.Sprintf(configMap, schema), "true", map[string]string{"cores": "many"}, []string{unfit}},
		"a ConfigMap with invalid YAML":   {fmt.Sprintf(configMap, schema), "true", map[string]string{"models": "[a"}, []string{unfit}},
		"no params":                       {"", "params == null", nil, nil},
		"params of the documents' author": {"", "params == null", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			policy := read(t, "p", "enforcement: Deny\n"+tc.params+"validations: [{expression: \""+tc.expression+"\", message: violated, fieldPath: spec.domain}]")
			p, _ := policies.Compile(env(t), policy, resolve(tc.data))
			d := vm(t, build.VMI("db"))
			d.Params = "the parameters before"
			wantSaid(t, policies.NewSet("", p).Evaluate(d, noon), tc.want...)
			if d.Params != "the parameters before" {
				t.Errorf("the documents have the params %v", d.Params)
			}
		})
	}
}

// TestFields tests where a path is found, for every kind.
func TestFields(t *testing.T) {
	machine := build.VMOf(build.VMI("db").Disk("root", v1.DiskBusVirtio).Label("a", "inner")).Obj()
	machine.Labels = map[string]string{"a": "outer"}
	for _, tc := range []struct{ kind, path, want string }{
		{"VirtualMachine", "spec.domain.memory.guest", `spec.template.spec.domain.memory.guest: Invalid value: "1Gi": m`},
		{"VirtualMachine", "spec.template.spec.domain.memory.guest", `spec.template.spec.domain.memory.guest: Invalid value: "1Gi": m`},
		{"VirtualMachine", "spec.template.spec.domain.machine.type", `spec.template.spec.domain.machine.type: Invalid value: "q35": m`},
		{"VirtualMachine", "spec.domain.devices.disks[0].disk.bus", `spec.template.spec.domain.devices.disks[0].disk.bus: Invalid value: "virtio": m`},
		{"VirtualMachine", "spec.domain.devices.disks[7].disk.bus", `spec.template.spec.domain.devices.disks[7].disk.bus: Required value: m`},
		{"VirtualMachine", "spec.runStrategy", `spec.runStrategy: Invalid value: "Halted": m`},
		{"VirtualMachine", "spec.instancetype.name", `spec.instancetype.name: Required value: m`},
		{"VirtualMachine", "metadata.labels[a]", `metadata.labels[a]: Invalid value: "outer": m`},
		{"VirtualMachine", "object.metadata.labels[a]", `metadata.labels[a]: Invalid value: "outer": m`},
		{"VirtualMachine", "vm.metadata.labels[a]", `spec.template.metadata.labels[a]: Invalid value: "inner": m`},
		{"VirtualMachine", "vm.spec.domain.cpu.cores", `spec.template.spec.domain.cpu.cores: Invalid value: 1: m`},
		{"VirtualMachine", "spec", `spec: Invalid value: m`},
		{"VirtualMachineInstance", "spec.domain.memory.guest", `spec.domain.memory.guest: Invalid value: "1Gi": m`},
		{"VirtualMachineInstance", "vm.metadata.labels[a]", `metadata.labels[a]: Invalid value: "inner": m`},
		{"VirtualMachineInstance", "metadata.name", `metadata.name: Invalid value: "db": m`},
		{"VirtualMachineTemplate", "spec.domain.memory.guest", `spec.virtualMachine.spec.template.spec.domain.memory.guest: Invalid value: "1Gi": m`},
		{"VirtualMachineTemplate", "spec.runStrategy", `spec.virtualMachine.spec.runStrategy: Invalid value: "Halted": m`},
		{"VirtualMachineTemplate", "spec.parameters[0].name", `spec.parameters[0].name: Invalid value: "NAME": m`},
		{"VirtualMachinePool", "spec.domain.memory.guest", `spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest: Invalid value: "1Gi": m`},
		{"VirtualMachinePool", "spec.template.spec.hostname", `spec.virtualMachineTemplate.spec.template.spec.hostname: Required value: m`},
		{"VirtualMachinePool", "spec.replicas", `spec.replicas: Invalid value: 3: m`},
	} {
		t.Run(tc.kind+" "+tc.path, func(t *testing.T) {
			d := documents(t, effective.Input{VM: machine})
			if tc.kind == "VirtualMachineInstance" {
				d = documents(t, effective.Input{VMI: build.VMI("db").Label("a", "inner").Obj()})
			}
			if d.Kind = tc.kind; tc.kind == "VirtualMachineTemplate" || tc.kind == "VirtualMachinePool" {
				d.Object = around(t, tc.kind, machine)
			}
			p := compile(t, "p", fmt.Sprintf("enforcement: Deny\nmatch: {kinds: [%s]}\nvalidations: [{expression: 'false', message: m, fieldPath: '%s'}]", tc.kind, tc.path))
			found := policies.NewSet("", p).Evaluate(d, noon)
			if len(found) != 1 || found[0].Error.Field+": "+found[0].Text() != tc.want {
				t.Errorf("found %q, want %q", said(found), tc.want)
			}
		})
	}
}

// TestNoNameIsOfTwo tests that no first field is in both vm and an object, so that a path is of one of them.
func TestNoNameIsOfTwo(t *testing.T) {
	fields := func(of reflect.Type) []string {
		var names []string
		for f := range of.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				names = append(names, name)
			}
		}
		return names
	}
	all := map[string]string{}
	for owner, names := range map[string][]string{
		"vm": fields(reflect.TypeFor[v1.VirtualMachineInstanceSpec]()), "a VirtualMachine": fields(reflect.TypeFor[v1.VirtualMachineSpec]()),
		"a pool": fields(reflect.TypeFor[poolv1beta1.VirtualMachinePoolSpec]()), "a template": {"virtualMachine", "parameters", "message"},
	} {
		for _, name := range names {
			if other := all[name]; other != "" {
				t.Errorf("spec.%s is a field of %s and of %s", name, owner, other)
			}
			all[name] = owner
		}
	}
	if len(all) < 40 {
		t.Errorf("only %d fields", len(all))
	}
}

// around is an object of a kind that makes the machine.
func around(t *testing.T, kind string, machine *v1.VirtualMachine) any {
	t.Helper()
	if kind == "VirtualMachinePool" {
		return &poolv1beta1.VirtualMachinePool{Spec: poolv1beta1.VirtualMachinePoolSpec{
			Replicas:               ptr.To[int32](3),
			VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{ObjectMeta: machine.ObjectMeta, Spec: machine.Spec},
		}}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(machine)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"metadata": map[string]any{"name": "t"}, "spec": map[string]any{
		"virtualMachine": fields, "parameters": []any{map[string]any{"name": "NAME"}},
	}}
}
