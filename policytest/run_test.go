package policytest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/validators"
)

const (
	vmi      = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: i}\nspec:\n  domain: {memory: {guest: 16Gi}, devices: {}}\n"
	poolOf16 = "apiVersion: pool.kubevirt.io/v1beta1\nkind: VirtualMachinePool\nmetadata: {name: p}\nspec:\n  replicas: 2\n  selector: {matchLabels: {a: b}}\n" +
		"  virtualMachineTemplate:\n    metadata: {labels: {a: b}}\n    spec:\n      runStrategy: Always\n      template: {metadata: {labels: {a: b}}, spec: {domain: {memory: {guest: 16Gi}, devices: {}}}}\n"
	templateOf16 = "apiVersion: template.kubevirt.io/v1beta1\nkind: VirtualMachineTemplate\nmetadata: {name: t}\nspec:\n  virtualMachine:\n    metadata: {name: \"${NAME}\"}\n    spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: \"${MEMORY}\"}, devices: {}}}}}\n  parameters: [{name: NAME, required: true}, {name: MEMORY, value: 16Gi}]\n"
	large        = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: large}\nspec: {cpu: {guest: 4}, memory: {guest: 16Gi}}\n"
)

// asking is a policy with one validation, or a condition and one that never holds.
func asking(expression, more string) string {
	return "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: asks}\nspec:\n  enforcement: Deny\n" + more +
		"  validations:\n  - {expression: " + fmt.Sprintf("%q", expression) + ", message: not so}\n"
}

// only runs the one case of a suite.
func only(t testing.TB, texts map[string]string, options policytest.Options) policytest.CaseOutcome {
	t.Helper()
	report := evaluate(t).Run(t.Context(), load(t, texts), options)
	if len(report.Suites) != 1 || len(report.Suites[0].Tests) != 1 || len(report.Suites[0].Tests[0].Cases) != 1 {
		t.Fatalf("there is not one case in %+v", report)
	}
	return report.Suites[0].Tests[0].Cases[0]
}

// siteDefault are objects with one.
const siteDefault = "objects: [{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachineDefaults, metadata: {name: d}, spec: {template: {schedulerName: house}}}]"

// except is an exception from the policy memory, in the namespace default.
func except(spec string) string {
	return "objects: [{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicyException, metadata: {name: granted, namespace: default}, spec: {policies: [memory], reason: reports, " + spec + "}}]"
}

var machinePolicy = strings.Replace(asking("vm.spec.domain.machine.type != 'pc'", ""), "message: not so", "message: not so, fieldPath: spec.domain.machine.type", 1)

const grown = `patches: [{op: replace, path: /spec/template/spec/domain/memory/guest, value: 16Gi}]`

// TestRun holds one case each to its outcome, on a VM of 4Gi and a policy that allows 8Gi, unless files say otherwise.
func TestRun(t *testing.T) {
	tooMuch := `deny: spec.template.spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi [virtward/policy/memory]`
	tooMuchOfTemplate := strings.Replace(tooMuch, "spec.template", "spec.virtualMachine.spec.template", 1)
	ofTemplates := strings.Replace(memoryPolicy, "spec:\n", "spec:\n  match: {kinds: [VirtualMachineTemplate]}\n", 1)
	no := "deny: spec: Forbidden: not so [virtward/policy/asks]"
	for _, c := range []struct {
		name string
		// test are fields of the test, on lines of their own, and one those of the case.
		test, one string
		files     map[string]string
		want      []string
	}{
		{name: "what is allowed", one: "expect: {verdict: allowed, violations: 0}", want: []string{"passed"}},
		{name: "what is denied", one: grown + "\nexpect: {verdict: denied, violations: 1, message: may have 8Gi, field: spec.template.spec.domain.memory.guest}", want: []string{"passed", tooMuch}},
		{name: "what was there before", one: strings.Replace(grown, "}]", "}, {op: add, path: /metadata/labels, value: {a: b}}]", 1) + "\noldP" + grown[1:] + "\nexpect: {verdict: warned}", want: []string{"passed", strings.Replace(strings.Replace(tooMuch, "deny", "warn", 1), " [", " (pre-existing: tolerated on update, denied on create) [", 1)}},
		{name: "what grows", one: grown + "\noldPatches: [{op: replace, path: /spec/template/spec/domain/memory/guest, value: 12Gi}]\noperation: UPDATE\nexpect: {verdict: denied}", want: []string{"passed", tooMuch}},
		{name: "an old object", one: grown + "\noldObject: vm.yaml\nexpect: {verdict: denied}", want: []string{"passed", tooMuch}},
		{name: "a parameter of the test", test: "params: {max: 2Gi}", one: "expect: {message: may have 2Gi}", want: []string{"passed", `deny: spec.template.spec.domain.memory.guest: Invalid value: "4Gi": a VM may have 2Gi [virtward/policy/memory]`}},
		{name: "a parameter of the case", test: "params: {max: 2Gi}", one: "params: {max: 4Gi}\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "no parameter", one: "params: {max: null}\nexpect: {error: true}", want: []string{"passed", "deny: spec: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:64: no such key: max [virtward/policy/memory]"}},
		{name: "an unknown parameter", one: "params: {mex: 1}\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:14: tests[0].cases[0].params.mex: no policy of this test has this parameter: did you mean max?"}},
		{name: "a parameter that does not fit", one: "params: {max: 1}\nexpect: {error: true}", want: []string{"broken", `policy.yaml:6:21: spec.params.values.max: Invalid value: "integer": max in body must be of type string: "integer"`}},
		{name: "an instance", one: "object: vmi.yaml\nexpect: {field: spec.domain.memory.guest}", want: []string{"passed", `deny: spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi [virtward/policy/memory]`}},
		{name: "an instance is completed", files: map[string]string{"policy.yaml": asking("vm.spec.domain.?machine.?type.hasValue()", "")}, one: "object: vmi.yaml\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "unless it arrived", files: map[string]string{"policy.yaml": asking("vm.spec.domain.?machine.?type.hasValue()", "")}, one: "object: vmi.yaml\npostMutation: true\nexpect: {verdict: denied}", want: []string{"passed", no}},
		{name: "what is persisted in a VM is its author's", files: map[string]string{"policy.yaml": asking("object.spec.template.spec.domain.machine.type == 'q35' && !('spec.domain.machine.type' in provenance) && provenance['spec.domain.cpu.cores'] == 'base'", "")}, one: "expect: {verdict: allowed}", want: []string{"passed"}},
		{name: "so is what the site says", files: map[string]string{"policy.yaml": asking("object.spec.template.spec.schedulerName == 'house' && !('spec.schedulerName' in provenance)", "")}, one: siteDefault + "\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "but not of one that is there", files: map[string]string{"policy.yaml": asking("!has(object.spec.template.spec.schedulerName) && !has(oldObject.spec.template.spec.schedulerName) && object.spec.template.spec.architecture == 'amd64' && provenance['spec.schedulerName'] == 'site/d'", "")}, one: siteDefault + "\n" + grown + "\noldObject: vm.yaml\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an instance arrives with everything", files: map[string]string{"policy.yaml": asking("has(object.spec.domain.cpu.cores) && provenance.size() == 0", "")}, one: "object: vmi.yaml\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "what is persisted is named where it is", files: map[string]string{"policy.yaml": machinePolicy}, one: "objects: [{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterPreference, metadata: {name: old}, spec: {machine: {preferredMachineType: pc}}}]\npatches: [{op: add, path: /spec/preference, value: {name: old}}]\nexpect: {verdict: denied}", want: []string{"passed", `deny: spec.template.spec.domain.machine.type: Invalid value: "pc": not so [virtward/policy/asks]`}},
		{name: "a VM without a template", one: "checks: true\npatches: [{op: remove, path: /spec/template}]\nexpect: {verdict: denied, field: spec.template}", want: []string{"passed", "deny: spec.template: Required value: a VM needs a template [virtward/vm-template-required]"}},
		{name: "an update that changes nothing that counts", files: map[string]string{"policy.yaml": asking("false", "")}, one: "patches: [{op: add, path: /metadata/finalizers, value: [a/b]}]\noldObject: vm.yaml\nexpect: {verdict: allowed, violations: 0}", want: []string{"passed", "note: the update changes neither the spec nor labels, annotations or owners: the API server does not call the webhooks"}},
		{name: "an update without a patch", files: map[string]string{"policy.yaml": asking("false", "")}, one: "oldPatches: []\nexpect: {verdict: allowed, violations: 0}", want: []string{"passed", "note: the update changes neither the spec nor labels, annotations or owners: the API server does not call the webhooks"}},
		{name: "an update of annotations", files: map[string]string{"policy.yaml": asking("false", "")}, one: "patches: [{op: add, path: /metadata/annotations, value: {a: b}}]\noldObject: vm.yaml\nexpect: {verdict: warned}", want: []string{"passed", strings.Replace(no, "deny: spec: Forbidden: not so", "warn: spec: Forbidden: not so (pre-existing: tolerated on update, denied on create)", 1)}},
		{name: "a generated name", files: map[string]string{"policy.yaml": asking("object.metadata.name == 'web-xxxxx' && request.name == 'web-xxxxx'", "")}, one: "patches: [{op: remove, path: /metadata/name}, {op: add, path: /metadata/generateName, value: web-}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "a generated name that is as long as can be", files: map[string]string{"policy.yaml": asking("object.metadata.name.matches('^a{58}xxxxx$')", "")}, one: "patches: [{op: remove, path: /metadata/name}, {op: add, path: /metadata/generateName, value: " + strings.Repeat("a", 70) + "}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "a pool", files: map[string]string{"policy.yaml": strings.Replace(memoryPolicy, "spec:\n", "spec:\n  match: {kinds: [VirtualMachinePool]}\n", 1)}, one: "object: pool.yaml\nexpect: {verdict: denied}", want: []string{"passed", `deny: spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi [virtward/policy/memory]`}},
		{name: "a pool that had it", files: map[string]string{"policy.yaml": strings.Replace(memoryPolicy, "spec:\n", "spec:\n  match: {kinds: [VirtualMachinePool]}\n", 1)}, one: "object: pool.yaml\npatches: [{op: replace, path: /spec/replicas, value: 3}]\noldPatches: [{op: test, path: /spec/replicas, value: 2}]\nexpect: {verdict: warned}", want: []string{"passed", `warn: spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi (pre-existing: tolerated on update, denied on create) [virtward/policy/memory]`}},
		{name: "an instancetype", one: "object: vm.yaml\nobjects: [large.yaml]\npatches: [{op: remove, path: /spec/template/spec/domain/memory}, {op: add, path: /spec/instancetype, value: {name: large}}]\nexpect: {field: spec.instancetype.name}", want: []string{"passed", `deny: spec.instancetype.name: Invalid value: "16Gi": a VM may have 8Gi (VirtualMachineClusterInstancetype large sets domain.memory.guest by its spec.memory.guest) [virtward/policy/memory]`}},
		{name: "an instancetype of the case over that of the test", test: "objects: [large.yaml]", one: "objects: [{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: large}, spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}]\npatches: [{op: remove, path: /spec/template/spec/domain/memory}, {op: add, path: /spec/instancetype, value: {name: large}}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an instancetype of the object's namespace", one: "namespace: {name: shop}\nobjects: [{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: own}, spec: {cpu: {guest: 1}, memory: {guest: 9Gi}}}]\npatches: [{op: remove, path: /spec/template/spec/domain/memory}, {op: add, path: /spec/instancetype, value: {kind: VirtualMachineInstancetype, name: own}}]\nexpect: {verdict: denied}", want: []string{"passed", `deny: spec.instancetype.name: Invalid value: "9Gi": a VM may have 8Gi (VirtualMachineInstancetype own sets domain.memory.guest by its spec.memory.guest) [virtward/policy/memory]`}},
		{name: "a note about what is missing", files: map[string]string{"policy.yaml": asking("true", "")}, one: "patches: [{op: add, path: /spec/preference, value: {name: x}}]\nexpect: {verdict: allowed}", want: []string{"passed", "note: spec.preference: there is no VirtualMachineClusterPreference x; the VM is evaluated without it, and what it determines is checked when the VM starts"}},
		{name: "who sends it", files: map[string]string{"policy.yaml": asking("request.userInfo.username == 'jane' && 'devs' in request.userInfo.groups && request.operation == 'CREATE' && request.resource.resource == 'virtualmachines'", "")}, one: "userInfo: {username: jane, groups: [devs]}\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "the default user sends it", files: map[string]string{"policy.yaml": asking("request.userInfo.username == '"+policytest.DefaultUser+"'", "")}, one: "expect: {verdict: allowed}", want: []string{"passed"}},
		{name: "who is excluded", files: map[string]string{"policy.yaml": asking("false", "  match: {excludedUsers: [jane]}\n")}, one: "userInfo: {username: jane}\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "what the requester may", files: map[string]string{"policy.yaml": asking("authorizer.group('g').resource('r').namespace('ns').check('use').allowed()", "")}, one: "may: [{verb: use, group: g, resource: r, namespace: ns}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "what the requester may not", files: map[string]string{"policy.yaml": asking("authorizer.group('g').resource('r').namespace('ns').check('use').allowed()", "")}, one: "may: [{verb: use, group: g, resource: r, namespace: m}, {user: other, verb: '*'}, {verb: get, path: /x}]\nexpect: {verdict: denied}", want: []string{"passed", no}},
		{name: "what is no resource", files: map[string]string{"policy.yaml": asking("authorizer.path('/x').check('get').allowed() && !authorizer.path('/y').check('get').allowed()", "")}, one: "may: [{verb: get, path: /x}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "the labels of a namespace", files: map[string]string{"policy.yaml": asking("false", "  match: {namespaceSelector: {matchLabels: {tier: prod}}}\n")}, one: "namespace: {name: shop, labels: {tier: prod}}\nexpect: {verdict: denied}", want: []string{"passed", no}},
		{name: "the labels of a Namespace", files: map[string]string{"policy.yaml": asking("namespaceObject.metadata.labels['tier'] == 'prod' && namespaceObject.metadata.annotations['a'] == 'b'", "")}, one: "namespace: {name: shop, annotations: {a: b}}\nobjects: [{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tier: prod}}}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "the label that every namespace has", files: map[string]string{"policy.yaml": asking("false", "  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}\n")}, one: "expect: {verdict: denied}", want: []string{"passed", no}},
		{name: "another namespace", one: "namespace: {name: a}\npatches: [{op: add, path: /metadata/namespace, value: b}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:17: tests[0].cases[0].namespace.name: must be the namespace of the object, b"}},
		{name: "an object does not move", one: "patches: [{op: add, path: /metadata/namespace, value: b}]\noldPatches: [{op: add, path: /metadata/namespace, value: c}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:9:5: tests[0].cases[0]: object and old object must be in one namespace, and are in b and c"}},
		{name: "an exception", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: "now: 2026-05-01T00:00:00Z\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an exception at a date", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: `now: 2026-05-01` + "\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an exception at a fraction and an offset", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: `now: 2026-05-01T02:00:00.123+02:00` + "\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an exception at lower case", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: `now: 2026-05-01t00:00:00z` + "\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an exception at a space", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: `now: "2026-05-01 00:00:00Z"` + "\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "an expired exception", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: "now: 2026-07-01T00:00:00Z\nexpect: {verdict: denied}", want: []string{"passed", no}},
		{name: "an exception at no time", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [db], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: "expect: {error: true}", want: []string{"broken", "s.yaml:9:5: tests[0].cases[0]: an exception of the policy asks expires: set now, the time of the case"}},
		{name: "an exception for others, at no time", files: map[string]string{"policy.yaml": asking("false", "  exceptions: [{names: [other], reason: x, expires: 2026-06-01T00:00:00Z}]\n")}, one: "expect: {verdict: denied}", want: []string{"passed", "deny: spec: Forbidden: not so [virtward/policy/asks]"}},
		{name: "an exempted VM", test: except("expires: 2026-06-01T00:00:00Z, virtualMachines: [db]"), one: grown + "\nnow: 2026-05-01\nexpect: {verdict: allowed, exempted: [memory]}", want: []string{"passed", strings.Replace(strings.Replace(tooMuch, "deny", "exempted", 1), " [", " (exempted until 2026-06-01T00:00:00Z by VirtualMachinePolicyException granted: reports) [", 1)}},
		{name: "an exempted VM without a finding", test: except("expires: 2026-06-01T00:00:00Z, virtualMachines: [db]"), one: "now: 2026-05-01\nexpect: {verdict: allowed, exempted: []}", want: []string{"passed"}},
		{name: "another VM is exempted", test: except("expires: 2026-06-01T00:00:00Z, virtualMachines: [other]"), one: grown + "\nnow: 2026-05-01\nexpect: {verdict: allowed, exempted: [memory]}", want: []string{"failed", "verdict: expected allowed, got denied", "exempted: expected memory, got none", tooMuch}},
		{name: "an exception that has ended", test: except("expires: 2026-06-01T00:00:00Z, virtualMachines: [db]"), one: grown + "\nnow: 2026-06-01\nexpect: {verdict: denied}", want: []string{"passed", tooMuch, "note: VirtualMachinePolicyException granted is not active: expired at 2026-06-01T00:00:00Z"}},
		{name: "an exempted VM at no time", test: except("expires: 2026-06-01T00:00:00Z, virtualMachines: [db]"), one: "expect: {verdict: allowed}", want: []string{"broken", "s.yaml:10:5: tests[0].cases[0]: VirtualMachinePolicyException granted expires: set now, the time of the case"}},
		{name: "an exception of another namespace, at no time", test: except("expires: 2026-06-01T00:00:00Z, virtualMachines: [db]"), one: "namespace: {name: shop}\n" + grown + "\nexpect: {verdict: denied, exempted: []}", want: []string{"passed", tooMuch}},
		{name: "an exception for nothing", test: except("expires: 2026-06-01T00:00:00Z"), one: "now: 2026-05-01\nexpect: {verdict: allowed}", want: []string{"broken", "s.yaml:10:5: tests[0].cases[0]: VirtualMachinePolicyException granted is not active: exactly one of spec.virtualMachines and spec.selector is required"}},
		{name: "a ConfigMap", files: map[string]string{"policy.yaml": asking("params.max == '3'", "  params: {configMap: {namespace: policies, name: p}}\n")}, one: "objects: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: policies, name: p}, data: {max: '3'}}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "no ConfigMap", files: map[string]string{"policy.yaml": asking("params.max == '3'", "  params: {configMap: {namespace: policies, name: p}}\n")}, one: "expect: {error: true, message: policies/p}", want: []string{"passed", "deny: spec: Internal error: the policy cannot be evaluated: spec.params.configMap: there is no ConfigMap policies/p [virtward/policy/asks]"}},
		{name: "facts", test: "facts: {hypervisor: kvm, architecture: s390x, featureGates: [Sidecar]}", files: map[string]string{"policy.yaml": asking("platform.hypervisor == 'mshv' && platform.architecture == 's390x' && 'Sidecar' in platform.featureGates", "")}, one: "facts: {hypervisor: hyperv-direct}\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "facts of a KubeVirt object", files: map[string]string{"policy.yaml": asking("'Sidecar' in platform.featureGates && 'Root' in platform.featureGates && platform.defaultArchitecture == 'arm64'", "")}, one: "facts: {featureGates: [Root]}\nobjects: [{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: k, namespace: k}, spec: {configuration: {developerConfiguration: {featureGates: [Sidecar]}}}, status: {defaultArchitecture: arm64}}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "two KubeVirt objects", one: "objects: [{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: k}}, {apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: l}}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:111: kind: there must be one KubeVirt object, and this is the second"}},
		{name: "defaults of the site", files: map[string]string{"policy.yaml": asking("vm.spec.domain.cpu.cores == 3", "")}, one: "objects: [{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachineDefaults, metadata: {name: d}, spec: {template: {domain: {cpu: {cores: 3}}}}}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "the checks", one: "checks: true\npatches: [{op: remove, path: /spec/runStrategy}]\nexpect: {verdict: denied}", want: []string{"passed", "deny: spec.runStrategy: not set: a VM must have a run strategy [virtward/vm-run-strategy-one]"}},
		{name: "a VM that runs", files: map[string]string{"policy.yaml": asking("rollout.restart == ['spec.template.spec.hostname'] && !rollout.unknown", "")}, one: "running: true\npatches: [{op: add, path: /spec/template/spec/hostname, value: other}]\noldPatches: [{op: test, path: /metadata/name, value: db}]\nexpect: {verdict: allowed}", want: []string{"passed", "note: spec.template.spec.hostname: takes effect when the VM restarts. KubeVirt applies this field only when the VM starts."}},
		{name: "an instance does not run again", one: "object: vmi.yaml\nrunning: true\noldPatches: [{op: test, path: /kind, value: VirtualMachineInstance}]\nexpect: {verdict: allowed}", want: []string{"broken", "s.yaml:11:5: tests[0].cases[0].running: only a VirtualMachine runs, and the old object is a VirtualMachineInstance"}},
		{name: "a VM without a template cannot run", one: "running: true\noldPatches: [{op: remove, path: /spec/template}]\nexpect: {verdict: allowed}", want: []string{"broken", "s.yaml:9:5: tests[0].cases[0]: the old object cannot run: it cannot be completed"}},
		{name: "the checks do not count", one: "patches: [{op: remove, path: /spec/runStrategy}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{name: "severities of checks", one: "checks: true\npatches: [{op: remove, path: /spec/runStrategy}]\nobjects: [{apiVersion: policy.virtward.io/v1alpha1, kind: RuleSettings, metadata: {name: r}, spec: {rules: [{rule: vm-run-strategy-one, severity: Warn}]}}]\nexpect: {verdict: warned}", want: []string{"passed", "warn: spec.runStrategy: not set: a VM must have a run strategy [virtward/vm-run-strategy-one]"}},
		{name: "severities of no check", one: "objects: [{apiVersion: policy.virtward.io/v1alpha1, kind: RuleSettings, metadata: {name: r}, spec: {rules: [{rule: nothing, severity: Warn}]}}]\nexpect: {verdict: warned}", want: []string{"broken", `s.yaml:9:5: tests[0].cases[0]: RuleSettings r: spec.rules[0] has no effect: this version of Virtward has no rule "nothing"`}},
		{name: "a skipped case", one: "skip: true\nobject: nowhere.yaml\nexpect: {error: true}", want: []string{"skipped"}},
		{name: "no file", one: "object: nowhere.yaml\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:5: tests[0].cases[0].object: nowhere.yaml: file does not exist"}},
		{name: "two objects", files: map[string]string{"vm.yaml": vmOf4Gi + "---\n" + vmOf4Gi}, one: "expect: {error: true}", want: []string{"broken", "s.yaml:7:3: tests[0].base: vm.yaml must have one object, and has 2"}},
		{name: "no policy", files: map[string]string{"policy.yaml": vmOf4Gi}, one: "expect: {error: true}", want: []string{"broken", "s.yaml:6:14: tests[0].policies[0]: has no VirtualMachinePolicy"}},
		{name: "a policy twice", files: map[string]string{"policy.yaml": memoryPolicy + "---\n" + memoryPolicy}, one: "expect: {error: true}", want: []string{"broken", `policy.yaml:15:12: metadata.name: another policy of this test has the name "memory"`}},
		{name: "a policy with a misspelt field", files: map[string]string{"policy.yaml": strings.Replace(memoryPolicy, "fieldPath", "fieldpath", 1)}, one: "expect: {error: true}", want: []string{"broken", "policy.yaml:11:5: spec.validations[0].fieldpath: unknown field: did you mean fieldPath?"}},
		{name: "a policy that does not compile", files: map[string]string{"policy.yaml": strings.Replace(memoryPolicy, "domain.memory.guest)", "domain.memory.gest)", 1)}, one: "expect: {error: true}", want: []string{"broken", "policy.yaml:8:47: spec.validations[0].expression: undefined field 'gest'; did you mean 'guest'?"}},
		{name: "a policy of another version", files: map[string]string{"policy.yaml": strings.Replace(memoryPolicy, "v1alpha1", "v1", 1)}, one: "expect: {error: true}", want: []string{"broken", `policy.yaml:1:1: apiVersion: no matches for kind "VirtualMachinePolicy" in version "policy.virtward.io/v1": use policy.virtward.io/v1alpha1`}},
		{name: "a virtual machine with a misspelt field", files: map[string]string{"vm.yaml": strings.Replace(vmOf4Gi, "guest:", "gues:", 1)}, one: "expect: {error: true}", want: []string{"failed", "vm.yaml:9:18: spec.template.spec.domain.memory.gues: Forbidden: is not a field of VirtualMachine: did you mean guest? [virtward/unknown-field]", "deny: spec: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:31: no such key: guest [virtward/policy/memory]"}},
		{name: "a patch that makes such a field", one: "patches: [{op: add, path: /spec/templat, value: {}}]\nexpect: {verdict: allowed}", want: []string{"failed", "vm.yaml:4:1: spec.templat: Forbidden: is not a field of VirtualMachine: did you mean template? [virtward/unknown-field]"}},
		{name: "a virtual machine of another version", files: map[string]string{"vm.yaml": strings.Replace(vmOf4Gi, "kubevirt.io/v1", "kubevirt.io/v9", 1)}, one: "expect: {error: true}", want: []string{"broken", `vm.yaml:1:1: apiVersion: no matches for kind "VirtualMachine" in version "kubevirt.io/v9": use kubevirt.io/v1`}},
		{name: "a template", files: map[string]string{"policy.yaml": ofTemplates}, one: "object: template.yaml\nexpect: {verdict: denied}", want: []string{"passed", tooMuchOfTemplate}},
		{name: "a template with another default", files: map[string]string{"policy.yaml": ofTemplates}, one: "object: template.yaml\npatches: [{op: replace, path: /spec/parameters/1/value, value: 4Gi}]\nexpect: {verdict: allowed, violations: 0}", want: []string{"passed"}},
		{name: "a template without a default", files: map[string]string{"policy.yaml": ofTemplates}, one: "object: template.yaml\npatches: [{op: replace, path: /spec/parameters/1, value: {name: MEMORY, required: true}}]\nexpect: {verdict: allowed, violations: 0}", want: []string{"passed"}},
		{name: "a template that had it", files: map[string]string{"policy.yaml": ofTemplates}, one: "object: template.yaml\npatches: [{op: add, path: /spec/message, value: hello}]\noldObject: template.yaml\nexpect: {verdict: warned}", want: []string{"passed", strings.Replace(strings.Replace(tooMuchOfTemplate, "deny", "warn", 1), " [", " (pre-existing: tolerated on update, denied on create) [", 1)}},
		{name: "a template that cannot be rendered", files: map[string]string{"policy.yaml": ofTemplates}, one: "object: template.yaml\nchecks: true\npatches: [{op: remove, path: /spec/parameters/1}]\nexpect: {verdict: denied, message: no parameter MEMORY}", want: []string{"passed", `warn: spec.parameters[0].value: Invalid value: "": what depends on the required parameter NAME is not validated, since it has no default [virtward/template-not-validated]`, `deny: spec.virtualMachine.spec.template.spec.domain.memory.guest: Invalid value: "${MEMORY}": the template has no parameter MEMORY [virtward/template-undefined-parameter]`}},
		{name: "something else", one: "object: policy.yaml\nexpect: {error: true}", want: []string{"broken", "policy.yaml:2:1: kind: the kind VirtualMachinePolicy of policy.virtward.io/v1alpha1 is not evaluated: the object of a case is a VirtualMachine, a VirtualMachineInstance, a VirtualMachinePool, a VirtualMachineTemplate, or of another kind that a VirtualMachine uses"}},
		{name: "an instancetype itself", one: "object: large.yaml\npatches: [{op: add, path: /spec/memory/overcommitPercent, value: 200}]\nchecks: true\nexpect: {verdict: denied, field: spec.memory.overcommitPercent}", want: []string{"passed", "deny: spec.memory.overcommitPercent: Invalid value: 200: must be from 0 to 100 [virtward/instancetype-overcommit-range]"}},
		{name: "something else around", one: "objects: [{kind: Pod, apiVersion: v1}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:16: kind: the kind Pod of v1 does not influence the evaluation of a virtual machine"}},
		{name: "something without a kind", one: "objects: [{a: b}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:15: kind: an object without a kind does not influence the evaluation of a virtual machine"}},
		{name: "something without a name", one: "objects: [{kind: Namespace, apiVersion: v1}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:15: metadata: must have a name"}},
		{name: "something with a misspelt field", one: "objects: [{kind: Namespace, apiVersion: v1, metadata: {name: a, lables: {}}}]\nexpect: {verdict: allowed}", want: []string{"failed", "s.yaml:10:69: metadata.lables: unknown field: did you mean labels?"}},
		{name: "something twice", one: "objects: [large.yaml, large.yaml]\nexpect: {error: true}", want: []string{"broken", "s.yaml:9:5: tests[0].cases[0]: VirtualMachineClusterInstancetype large is given twice"}},
		{name: "a patch that does not apply", one: "patches: [{op: remove, path: /spec/nothing}]\nexpect: {error: true}", want: []string{"broken", "s.yaml:10:15: tests[0].cases[0].patches[0]: error in remove for path: '/spec/nothing': unable to remove nonexistent key: nothing: missing value"}},
		{name: "another kind before", one: "oldObject: vmi.yaml\nexpect: {error: true}", want: []string{"broken", "s.yaml:9:5: tests[0].cases[0]: object and old object must be of one kind, and are VirtualMachine and VirtualMachineInstance"}},
		{name: "a pool without a template", one: "object: pool.yaml\npatches: [{op: remove, path: /spec/virtualMachineTemplate}]\nchecks: true\nexpect: {verdict: denied, field: spec.virtualMachineTemplate}", want: []string{"passed", "deny: spec.virtualMachineTemplate: Required value: there is no template for VMs [virtward/set-template-required]"}},
		{name: "an unexpected error", files: map[string]string{"policy.yaml": asking("int(vm.metadata.name) == 1", "")}, one: "expect: {verdict: denied}", want: []string{"failed", "error: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:4: type conversion error from 'string' to 'int'", "deny: spec: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:4: type conversion error from 'string' to 'int' [virtward/policy/asks]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := map[string]string{"policy.yaml": memoryPolicy, "vm.yaml": vmOf4Gi, "vmi.yaml": vmi, "pool.yaml": poolOf16, "template.yaml": templateOf16, "large.yaml": large}
			maps.Copy(texts, c.files)
			suite := head
			if c.test != "" {
				suite += "  " + c.test + "\n"
			}
			texts["s.yaml"] = suite + "  cases:\n  - name: c\n    " + strings.ReplaceAll(c.one, "\n", "\n    ") + "\n"
			got := only(t, texts, policytest.Options{})
			said := append([]string{string(got.Status)}, got.Reasons...)
			said = append(said, got.Findings.Lines()...)
			for _, note := range got.Notes {
				said = append(said, "note: "+note)
			}
			if diff := cmp.Diff(c.want, said); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, texts["s.yaml"])
			}
		})
	}
}

// TestCompare shows of each assertion what is said if it does not hold.
func TestCompare(t *testing.T) {
	finding := func(severity validators.Severity, at, message string) validators.Finding {
		return validators.Finding{Rule: "policy/p", Severity: severity, Error: field.Forbidden(field.NewPath("spec", at), message)}
	}
	one := policytest.Findings{finding(validators.Warn, "a", "too much")}
	two := append(slices.Clone(one), finding(validators.Deny, "b", "too little"))
	audit := policytest.Findings{finding(validators.Audit, "a", "too much")}
	failed := finding(validators.Deny, "c", "cannot be evaluated")
	failed.EvaluationError = policies.ReasonFailed
	broken := policytest.Findings{failed}
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		name     string
		expect   policytest.Expect
		findings policytest.Findings
		want     []string
	}{
		{"a verdict", policytest.Expect{Verdict: policytest.Denied}, one, []string{"verdict: expected denied, got warned"}},
		{"another verdict", policytest.Expect{Verdict: policytest.Warned}, two, []string{"verdict: expected warned, got denied"}},
		{"a report is no verdict", policytest.Expect{Verdict: policytest.Allowed}, audit, nil},
		{"a number", policytest.Expect{Violations: number(1)}, two, []string{"violations: expected 1, got 2"}},
		{"no number", policytest.Expect{Violations: number(0)}, audit, []string{"violations: expected 0, got 1"}},
		{"a message", policytest.Expect{Message: "^much$"}, two, []string{`message: expected one that matches "^much$", got none`}},
		{"a field", policytest.Expect{Field: "spec.c"}, two, []string{"field: expected a finding at spec.c, got none"}},
		{"a message at a field", policytest.Expect{Message: "much", Field: "spec.a"}, two, nil},
		{"a message at the field of another", policytest.Expect{Message: "much", Field: "spec.b"}, two, []string{`message and field: expected "much" at spec.b, but it is at another field`}},
		{"a message at no field", policytest.Expect{Message: "much", Field: "spec.c"}, two, []string{`field: expected "much" at spec.c, but it is at another field`}},
		{"no message at a field", policytest.Expect{Message: "none", Field: "spec.a"}, two, []string{`message: expected one that matches "none" at spec.a, got none`}},
		{"an error", policytest.Expect{Error: true}, two, []string{"error: expected an evaluation error, got none"}},
		{"no error", policytest.Expect{Verdict: policytest.Denied}, broken, []string{"error: Forbidden: cannot be evaluated"}},
		{"the error", policytest.Expect{Verdict: policytest.Denied, Error: true, Message: "cannot"}, broken, nil},
		{"everything", policytest.Expect{Verdict: policytest.Denied, Violations: number(1), Message: "x", Error: true}, nil, []string{
			"verdict: expected denied, got allowed", "violations: expected 1, got 0",
			"error: expected an evaluation error, got none", `message: expected one that matches "x", got none`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.expect.Compare(c.findings)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// several is a suite of which some cases pass and some do not.
func several() map[string]string {
	return map[string]string{
		"policy.yaml": memoryPolicy, "vm.yaml": vmOf4Gi, "large.yaml": large,
		"s.yaml": head + `  cases:
  - name: small
    expect: {verdict: allowed}
  - name: large
    ` + grown + `
    expect: {verdict: denied, message: "16Gi"}
  - name: wrong | one
    ` + grown + `
    expect: {verdict: allowed, violations: 0}
  - name: 'later #1'
    skip: true
    expect: {verdict: allowed}
- name: u
  policies: [rego.yaml, policy.yaml]
  base: vm.yaml
  cases:
  - name: both
    ` + grown + `
    expect: {verdict: denied, violations: 2}
  - name: nowhere
    object: nowhere.yaml
    expect: {verdict: denied}
`,
		"rego.yaml": `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: in-rego}
spec:
  enforcement: Warn
  match:
    kinds: [VirtualMachine]
    matchConditions:
    - {name: running, expression: has(object.spec.runStrategy)}
  rego:
    module: |
      package memory
      deny contains msg if {
        guest := input.vm.spec.domain.memory.guest
        guest != "4Gi"
        msg := sprintf("%s is not 4Gi", [guest])
        print("found", guest)
      }
      deny contains "on arm64" if {
        input.vm.spec.architecture == "arm64"
        input.vm.spec.domain.devices
      }
`,
	}
}

func TestOutputs(t *testing.T) {
	report := evaluate(t).Run(t.Context(), load(t, several()), policytest.Options{Coverage: true})
	report.Untested = []policytest.Problem{{File: "other.yaml", Problem: diagnostics.Problem{Line: 3, Column: 12, Message: "no case was run for the policy other"}}}
	for name, write := range map[string]func(*strings.Builder) error{
		"table.txt":   func(b *strings.Builder) error { return policytest.WriteTable(b, report, false) },
		"verbose.txt": func(b *strings.Builder) error { return policytest.WriteTable(b, report, true) },
		"report.json": func(b *strings.Builder) error { return policytest.WriteJSON(b, report) },
		"report.xml":  func(b *strings.Builder) error { return policytest.WriteJUnit(b, report) },
		"report.md":   func(b *strings.Builder) error { return policytest.WriteMarkdown(b, report) },
		"report.tap":  func(b *strings.Builder) error { return policytest.WriteTAP(b, report) },
	} {
		var text strings.Builder
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, "outputs/"+name, text.String())
	}
	traced := evaluate(t).Run(t.Context(), load(t, several()), policytest.Options{Trace: true, Select: func(_, name string) bool { return name == "both" }})
	var text strings.Builder
	if err := policytest.WriteTable(&text, traced, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "outputs/trace.txt", text.String())
}

// TestOutputsEscapeTexts: texts of a suite do not change the form of a report.
func TestOutputsEscapeTexts(t *testing.T) {
	evil := "a\x1b[31m|`<b>*]]>\n# b"
	report := &policytest.Report{Suites: []policytest.SuiteOutcome{{Name: evil, File: evil, Tests: []policytest.TestOutcome{{Name: evil, Cases: []policytest.CaseOutcome{
		{Name: evil, Status: policytest.Failed, Reasons: []string{evil}, Findings: policytest.Findings{{Error: field.Forbidden(nil, evil)}}, Traces: []policytest.Trace{{Policy: evil, Evaluated: true, Rego: evil}}},
	}}}}}}
	for name, want := range map[string]string{"table": "--- FAILED: a [31m|`<b>*]]> # b/", "markdown": "| a \\[31m\\|\\`&lt;b>\\*]]> # b | `a [31m\\|'<b>*]]> # b` |", "tap": "not ok 1 - a [31m|`<b>*]]> \\# b/", "junit": `name="a [31m|` + "`&lt;b&gt;*]]&gt; # b/"} {
		var text strings.Builder
		var err error
		switch name {
		case "table":
			err = policytest.WriteTable(&text, report, false)
		case "markdown":
			err = policytest.WriteMarkdown(&text, report)
		case "tap":
			err = policytest.WriteTAP(&text, report)
		default:
			err = policytest.WriteJUnit(&text, report)
		}
		if err != nil || strings.ContainsRune(text.String(), '\x1b') || !strings.Contains(text.String(), want) {
			t.Errorf("%s: error %v, %q is not in\n%s", name, err, want, text.String())
		}
	}
}

func TestSelection(t *testing.T) {
	all := load(t, several())
	names := func(options policytest.Options) []string {
		var got []string
		for _, s := range evaluate(t).Run(t.Context(), all, options).Suites {
			for _, test := range s.Tests {
				for _, c := range test.Cases {
					got = append(got, fmt.Sprintf("%s/%s %s", test.Name, c.Name, c.Status))
				}
			}
		}
		return got
	}
	if diff := cmp.Diff([]string{"t/small passed", "t/large passed", "t/wrong | one failed"}, names(policytest.Options{FailFast: true})); diff != "" {
		t.Errorf("the first failure (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"u/both passed", "u/nowhere broken"}, names(policytest.Options{FailFast: true, Select: func(test, _ string) bool { return test == "u" }})); diff != "" {
		t.Errorf("one test (-want +got):\n%s", diff)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if report := evaluate(t).Run(ended, all, policytest.Options{}); len(report.Suites) != 0 {
		t.Errorf("%d suites ran after the end", len(report.Suites))
	}
}

// TestRepeatable runs the same twice.
func TestRepeatable(t *testing.T) {
	var texts []string
	for range 2 {
		var text strings.Builder
		if err := policytest.WriteJSON(&text, evaluate(t).Run(t.Context(), load(t, several()), policytest.Options{Trace: true, Coverage: true})); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text.String())
	}
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Error(diff)
	}
}
