package policy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/inspect"
)

const evalVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: shop, labels: {app: db}}
spec:
  runStrategy: Always
  template: {spec: {domain: {memory: {guest: 4Gi}, cpu: {cores: 2}, devices: {interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}]}}
`

const evalPolicy = `---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: cap}
spec:
  enforcement: Deny
  params: {values: {limit: 2Gi}}
  variables: [{name: memory, expression: vm.spec.domain.memory.guest}]
  validations: [{expression: "true", message: m, fieldPath: spec.domain.memory.guest}]
`

// evalNodes can both run the virtual machine.
const evalNodes = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a, labels: &labels {kubernetes.io/arch: amd64, kubevirt.io/schedulable: "true", machine-type.node.kubevirt.io/q35: "true", host-model-cpu.node.kubevirt.io/Skylake: "true", cpu-model.node.kubevirt.io/Skylake: "true", cpu-model-migration.node.kubevirt.io/Skylake: "true"}}
  status: &status {allocatable: {cpu: "8", memory: 16Gi, pods: "110", ephemeral-storage: 100Gi, devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k, devices.kubevirt.io/vhost-net: 1k}}
- apiVersion: v1
  kind: Node
  metadata: {name: b, labels: *labels}
  status: *status
`

// costs are those of expressions, which are calibrated. Those of Rego depend on the size of the documents.
var costs = regexp.MustCompile(`cost: [1-9][0-9]* (steps|units)`)

// TestPolicyEval shows values, parts and errors.
func TestPolicyEval(t *testing.T) {
	failed := "error: the expression has no value\n"
	for _, c := range []struct {
		name string
		args []string
		want clitest.Result
	}{
		{"a value", []string{"vm.spec.domain.memory.guest"}, clitest.Result{Out: "\"4Gi\" (string, cost: N units)\n"}},
		{"parts", []string{"quantity(variables.memory).compareTo(quantity(params.limit)) <= 0", "--policy", "cap"}, clitest.Result{Out: `false (bool, cost: N units)
  quantity(variables.memory).compareTo(quantity(params.limit)) = 1
    quantity(variables.memory) = "4Gi"
      variables.memory = "4Gi"
    quantity(params.limit) = "2Gi"
      params.limit = "2Gi"
`}},
		{"no parts", []string{"params.a[0]", "--params", "{a: [x]}", "--trace=false"}, clitest.Result{Out: "\"x\" (dyn, cost: N units)\n"}},
		{"params", []string{"params.a[0]", "--params", "{a: [x]}"}, clitest.Result{Out: "\"x\" (dyn, cost: N units)\n  params.a = [\"x\"]\n"}},
		{"the requester", []string{"request.userInfo.groups + [requester]", "--requester", "ann", "--requester-group", "a,b"}, clitest.Result{Out: "[\"a\",\"b\",\"ann\"] (list(string), cost: N units)\n  request.userInfo.groups = [\"a\",\"b\"]\n"}},
		{"an update", []string{"oldObject.spec.runStrategy + request.operation", "--old-filename", "old.yaml"}, clitest.Result{Out: "\"HaltedUPDATE\" (string, cost: N units)\n  oldObject.spec.runStrategy = \"Halted\"\n  request.operation = \"UPDATE\"\n"}},
		{"migration targets", []string{"migrationTargets > 0", "-f", "nodes.yaml"}, clitest.Result{Out: "true (bool, cost: N units)\n"}},
		{"the pod", []string{"pod.spec.containers[0].name + domain.name"}, clitest.Result{Out: `"computeshop_db" (string, cost: N units)
  pod.spec.containers[0].name = "compute"
    pod.spec.containers[0] = (too long to be shown)
      pod.spec.containers = (too long to be shown)
  domain.name = "shop_db"
`}},
		{"migration targets without nodes", []string{"migrationTargets > 0"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: failed,
			Out: "error: migrationTargets cannot be previewed: the nodes of the cluster are not known: set the chart's value checks.nodes; outside of a cluster, add Nodes to the files\n    migrationTargets > 0\n    ^\n",
		}},
		{"an error of the compiler", []string{"vm.spec.domain.memory.gest"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: failed,
			Out: "error: undefined field 'gest'; did you mean 'guest'?\n    vm.spec.domain.memory.gest\n                         ^\n",
		}},
		{"an error of the evaluation", []string{"1 == 1 && object.metadata.labels['x'] == ''"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: failed,
			Out: "error: no such key: x\n    1 == 1 && object.metadata.labels['x'] == ''\n                                    ^\n  1 == 1 = true\n  object.metadata.labels[\"x\"] == \"\" = error: no such key: x\n    object.metadata.labels[\"x\"] = error: no such key: x\n      object.metadata.labels = {\"app\":\"db\"}\n",
		}},
		{"a budget", []string{"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: failed, Out: "error: the expression is too expensive: it costs more than 1000000 units\n",
		}},
		{"Rego", []string{"--language", "rego", `units.parse_bytes(input.vm.spec.domain.memory.guest) > units.parse_bytes(input.params.limit)`, "--policy", "cap"}, clitest.Result{Out: `true (boolean, cost: N steps)
  units.parse_bytes(input.vm.spec.domain.memory.guest) = 4294967296
    input.vm.spec.domain.memory.guest = "4Gi"
  units.parse_bytes(input.params.limit) = 2147483648
    input.params.limit = "2Gi"
`}},
		{"undefined", []string{"--language", "rego", "input.object.metadata.labels.nothing"}, clitest.Result{Out: "undefined (cost: N steps)\n"}},
		{"an error of Rego", []string{"--language", "rego", "input.vm.spec.domain.memory.gest > 1"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: failed,
			Out: "error: input.vm.spec.domain.memory has no gest; it has guest, hugepages, maxGuest, reservedOverhead\n    input.vm.spec.domain.memory.gest > 1\n    ^\n  input.vm.spec.domain.memory.gest = error: input.vm.spec.domain.memory has no gest; it has guest, hugepages, maxGuest, reservedOverhead\n",
		}},
		{"a policy that does not exist", []string{"1", "--policy", "other"}, clitest.Result{Code: clitest.ExitFailed, ErrOut: "error: there is no valid policy \"other\" in the files, nor in the cluster with --from-cluster\n"}},
		{"two expressions", []string{"1", "2"}, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: write the expression as one argument, in quotes: see kubectl virtward policy eval --help\n"}},
		{"an unknown language", []string{"1", "--language", "go"}, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: unknown language \"go\": the known ones are cel, rego\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFolder(t, map[string]string{"vm.yaml": evalVM + evalPolicy, "old.yaml": strings.Replace(evalVM, "Always", "Halted", 1), "nodes.yaml": evalNodes})
			got := clitest.Call(t, "", append([]string{"policy", "eval", "-f", "vm.yaml"}, c.args...)...)
			got.Out = costs.ReplaceAllString(got.Out, "cost: N $1")
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("lines", func(t *testing.T) {
		inFolder(t, map[string]string{"vm.yaml": evalVM})
		got := clitest.Call(t, "vm.metadata.name\n\n1 +\nplatform.hypervisor\n", "policy", "eval", "-f", "vm.yaml", "-o", "json")
		var values []string
		for decoder := json.NewDecoder(strings.NewReader(got.Out)); decoder.More(); {
			var r inspect.Result
			if err := decoder.Decode(&r); err != nil {
				t.Fatal(err)
			}
			values = append(values, string(r.Value))
		}
		if diff := cmp.Diff([]string{`"db"`, "", `"kvm"`}, values); diff != "" || got.Code != clitest.ExitFailed {
			t.Errorf("code %d (-want +got):\n%s", got.Code, diff)
		}
		got = clitest.Call(t, "1 +\n1\n2 +\n", "policy", "eval", "-f", "vm.yaml")
		if want := "error: 2 expressions have no value\n"; got.ErrOut != want || got.Code != clitest.ExitFailed {
			t.Errorf("code %d, %q", got.Code, got.ErrOut)
		}
	})
	t.Run("fields that are never absent", func(t *testing.T) {
		inFolder(t, map[string]string{"vm.yaml": evalVM})
		got := clitest.Call(t, "vm.spec."+strings.Join(effective.AlwaysSet(), "\nvm.spec.")+"\n", "policy", "eval", "-f", "vm.yaml")
		if values := strings.Count(got.Out, ", cost: "); got.Code != clitest.ExitOK || values != len(effective.AlwaysSet()) {
			t.Errorf("%d of %d fields have a value: code %d, %s%s", values, len(effective.AlwaysSet()), got.Code, got.Out, got.ErrOut)
		}
	})
	t.Run("several virtual machines", func(t *testing.T) {
		inFolder(t, map[string]string{"vm.yaml": evalVM + "---\n" + strings.Replace(evalVM, "name: db", "name: web", 1)})
		got := clitest.Call(t, "", "policy", "eval", "-f", "vm.yaml", "vm.metadata.name")
		if got.Code != clitest.ExitUsage || got.ErrOut != "error: vm.yaml: there are 2 virtual machines: choose one with --name: db, web\n" {
			t.Errorf("%+v", got)
		}
		if got = clitest.Call(t, "", "policy", "eval", "-f", "vm.yaml", "--name", "web", "vm.metadata.name"); costs.ReplaceAllString(got.Out, "cost: N $1") != "\"web\" (string, cost: N units)\n" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a document that cannot be read", func(t *testing.T) {
		inFolder(t, map[string]string{"vm.yaml": evalVM + "---\n[\n", "broken.yaml": "["})
		got := clitest.Call(t, "", "policy", "eval", "-f", "vm.yaml", "vm.metadata.name")
		if got.Code != clitest.ExitFailed || costs.ReplaceAllString(got.Out, "cost: N $1") != "\"db\" (string, cost: N units)\n" || !strings.Contains(got.ErrOut, "vm.yaml: document 2: ") {
			t.Errorf("%+v", got)
		}
		if got = clitest.Call(t, "", "policy", "eval", "-f", "broken.yaml", "1"); got.Code != clitest.ExitFailed || !strings.HasPrefix(got.ErrOut, "error: broken.yaml: no virtual machine; broken.yaml: ") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a kustomization", func(t *testing.T) {
		inFolder(t, map[string]string{"vm.yaml": evalVM, "kustomization.yaml": "resources: [vm.yaml]\nnamePrefix: test-\n"})
		if got := clitest.Call(t, "", "policy", "eval", "-k", ".", "vm.metadata.name"); costs.ReplaceAllString(got.Out, "cost: N $1") != "\"test-db\" (string, cost: N units)\n" {
			t.Errorf("%+v", got)
		}
		want := "error: -f and -k exclude each other: see kubectl virtward policy eval --help\n"
		if got := clitest.Call(t, "", "policy", "eval", "-k", ".", "-f", "vm.yaml", "1"); got.Code != clitest.ExitUsage || got.ErrOut != want {
			t.Errorf("%+v", got)
		}
	})
}

const breakPolicies = `---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: twice}
spec:
  enforcement: Deny
  params: {values: {limit: 2Gi}}
  variables:
    - {name: memory, expression: quantity(vm.spec.domain.memory.guest)}
    - {name: twice, expression: variables.memory.add(quantity(params.limit))}
    - {name: unread, expression: "1"}
  validations:
    - {expression: "vm.metadata.name != ''", message: m, fieldPath: spec}
    - {expression: "variables.twice.isLessThan(quantity('5Gi'))", message: m, fieldPath: spec.domain.memory.guest}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: module}
spec:
  enforcement: Deny
  params: {values: {names: [a, db]}}
  rego:
    module: |
      package module

      deny contains msg if {
        some name in input.params.names
        full := concat("/", [input.vm.metadata.namespace, name])
        name == input.vm.metadata.name
        msg := sprintf("%s is taken", [full])
      }
`

// TestBreak stops at variables of policies in both languages.
func TestBreak(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want clitest.Result
	}{
		{"CEL", []string{"--policy", "twice", "--break", "twice"}, clitest.Result{Out: `stop: spec.validations[1].expression of policy twice reads variables.twice
  twice = "6Gi"
  expression: variables.memory.add(quantity(params.limit))
    variables.memory = "4Gi"
    quantity(params.limit) = "2Gi"
      params.limit = "2Gi"
`}},
		{"CEL with other params", []string{"--policy", "twice", "--break", "twice", "--params", "{limit: 1Gi}"}, clitest.Result{Out: `stop: spec.validations[1].expression of policy twice reads variables.twice
  twice = "5Gi"
  expression: variables.memory.add(quantity(params.limit))
    variables.memory = "4Gi"
    quantity(params.limit) = "1Gi"
      params.limit = "1Gi"
`}},
		{"not reached", []string{"--policy", "twice", "--break", "unread"}, clitest.Result{Out: "The evaluation of policy twice does not reach unread.\n"}},
		{"an error", []string{"--policy", "twice", "--break", "twice", "--params", "{limit: [1]}"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "error: variable twice has no value\n", Out: `stop: spec.validations[1].expression of policy twice reads variables.twice
  twice = error: no such overload: quantity(list)
  expression: variables.memory.add(quantity(params.limit))
    variables.memory = "4Gi"
    quantity(params.limit) = error: no such overload: quantity(list)
      params.limit = [1]
`,
		}},
		{"Rego", []string{"--policy", "module", "--break", "full"}, clitest.Result{Out: `stop 1: line 5 of the module of policy module: full := concat("/", [input.vm.metadata.namespace, name])
  full = "shop/a"
    input.vm.metadata.namespace = "shop"
    name = "a"
stop 2: line 5 of the module of policy module: full := concat("/", [input.vm.metadata.namespace, name])
  full = "shop/db"
    input.vm.metadata.namespace = "shop"
    name = "db"
`}},
		{"an unknown variable", []string{"--policy", "twice", "--break", "memry"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "error: --break: policy twice has no variable \"memry\": it has memory, twice, unread\n",
		}},
		{"an unknown variable in Rego", []string{"--policy", "module", "--break", "nam"}, clitest.Result{
			Code: clitest.ExitFailed, ErrOut: "error: --break: policy module has no variable \"nam\": it has deny, full, msg, name\n",
		}},
		{"no policy", []string{"--break", "memory"}, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: --break needs the name of a policy: add --policy: see kubectl virtward policy eval --help\n"}},
		{"with an expression", []string{"1", "--policy", "twice", "--break", "memory"}, clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: --break stops in the policy: leave out the expression: see kubectl virtward policy eval --help\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFolder(t, map[string]string{"vm.yaml": evalVM + breakPolicies})
			if diff := cmp.Diff(c.want, clitest.Call(t, "", append([]string{"policy", "eval", "-f", "vm.yaml"}, c.args...)...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	inFolder(t, map[string]string{"vm.yaml": evalVM + breakPolicies})
	got := clitest.Call(t, "", "policy", "eval", "-f", "vm.yaml", "--policy", "module", "--break", "full", "-o", "json")
	var b inspect.Break
	if err := json.Unmarshal([]byte(got.Out), &b); err != nil || len(b.Stops) != 2 || b.Stops[1].Line != 5 || string(b.Stops[1].Value) != `"shop/db"` || len(b.Stops[1].Inputs) != 2 {
		t.Errorf("%v %+v", err, got)
	}
}
