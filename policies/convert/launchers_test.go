package convert_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
)

// launcherRules returns a ClusterPolicy with rules in YAML.
func launcherRules(t testing.TB, rules ...string) *unstructured.Unstructured {
	t.Helper()
	object := clusterPolicy(t, nil)
	var all []any
	for _, text := range rules {
		var one map[string]any
		if err := yaml.Unmarshal([]byte(text), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	object.Object["spec"].(map[string]any)["rules"] = all
	return object
}

const launcherMatch = "match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}"

// TestLaunchers rewrites rules about pods of virtual machines, where all that they read is known.
func TestLaunchers(t *testing.T) {
	for _, c := range []struct{ name, match, rule, want, field string }{
		{
			"a label and a node", "", "validate: {pattern: {metadata: {=(labels): {team: '?*'}}, spec: {nodeSelector: {zone: a}}}}",
			"!has(pod.metadata.labels) || pod.metadata.labels[?\"team\"].orValue(\"\") != \"\"; pod.spec.?nodeSelector[?\"zone\"].orValue(\"\") == \"a\"", "spec.nodeSelector",
		},
		{"a default of the API server", "", "validate: {pattern: {spec: {dnsPolicy: ClusterFirst}}}", `pod.spec.?dnsPolicy.orValue("ClusterFirst") == "ClusterFirst"`, "spec.dnsPolicy"},
		{"the namespace", "", "validate: {pattern: {metadata: {namespace: vm-*}}}", `request.namespace.startsWith("vm-")`, ""},
		{
			"containers", "", "validate: {pattern: {spec: {containers: [{resources: {requests: {memory: '<=4Gi'}}}]}}}",
			`pod.spec.containers.all(c, has(c.resources.requests) && quantity(c.resources.requests[?"memory"].orValue("0")).compareTo(quantity("4Gi")) <= 0)`, "",
		},
		{
			"conditions", "", "validate: {deny: {conditions: {all: [{key: \"{{ request.object.spec.schedulerName }}\", operator: NotEquals, value: vms}]}}}",
			`pod.spec.?schedulerName.orValue("default-scheduler") == "vms"`, "spec.schedulerName",
		},
		{
			"a loop", "", "validate: {foreach: [{list: request.object.spec.containers, deny: {conditions: {all: [{key: \"{{ element.name }}\", operator: Equals, value: x}]}}}]}",
			`!pod.spec.containers.exists(c, c.name == "x")`, "",
		},
		{
			"expressions", "", "validate: {cel: {expressions: [{expression: \"object.spec.nodeSelector[?'zone'].orValue('') == 'a'\"}]}}",
			"pod.spec.nodeSelector[?'zone'].orValue('') == 'a'", "spec.nodeSelector",
		},
		{
			"an expression about a field with a default", "", "validate: {cel: {expressions: [{expression: \"object . spec.schedulerName != 'a' || object.spec.dnsPolicy == 'None'\"}]}}",
			`pod.spec.?schedulerName.orValue("default-scheduler") != 'a' || pod.spec.?dnsPolicy.orValue("ClusterFirst") == 'None'`, "",
		},
		{
			"an expression about a field that pods always have", "", "validate: {cel: {expressions: [{expression: \"has(object.metadata) && object.spec.containers.all(c, has(c.resources) && has ( c.resources.requests )) && has(object.spec.schedulerName)\"}]}}",
			"true && pod.spec.containers.all(c, true && has ( c.resources.requests )) && true", "",
		},
		{
			"an expression about the operation", "", "validate: {cel: {expressions: [{expression: \"has(request.operation) && request.operation != 'CREATE' || has(object.spec.hostPID)\"}]}}",
			"true && \"CREATE\" != 'CREATE' || has(pod.spec.hostPID)", "",
		},
		{
			"an expression about all annotations", "", "validate: {cel: {expressions: [{expression: \"object.metadata.?annotations.orValue({}).all(k, k != 'a' || object.metadata.annotations[k] == 'b')\"}]}}",
			"pod.metadata.?annotations.orValue({}).all(k, k != 'a' || pod.metadata.annotations[k] == 'b')", "",
		},
		{
			"an operation in preconditions", "", "preconditions: {all: [{key: \"{{ request.operation || 'BACKGROUND' }}\", operator: NotEquals, value: DELETE}]}, validate: {pattern: {spec: {nodeSelector: {zone: a}}}}",
			`pod.spec.?nodeSelector[?"zone"].orValue("") == "a"`, "spec.nodeSelector",
		},
		{
			"an operation in conditions", "", "preconditions: {all: [{key: \"{{ request.operation }}\", operator: AnyIn, value: [CREATE, UPDATE]}]}, validate: {deny: {conditions: {all: [{key: \"{{ request.object.spec.hostPID }}\", operator: Equals, value: true}]}}}",
			"has(pod.spec.hostPID) && !pod.spec.hostPID", "",
		},
		{
			"several lists", "", "validate: {foreach: [{list: 'request.object.spec.[ephemeralContainers, initContainers, containers][]', deny: {conditions: {all: [{key: \"{{ element.name }}\", operator: Equals, value: x}]}}}]}",
			`!pod.spec.?initContainers.orValue([]).exists(i, i.name == "x"); !pod.spec.containers.exists(c, c.name == "x")`, "",
		},
		{
			"several lists in a condition", "", "validate: {deny: {conditions: {all: [{key: '{{ request.object.spec.[initContainers, containers][].name }}', operator: AnyIn, value: [x]}]}}}",
			`!pod.spec.?initContainers.orValue([]).exists(i, i.name == "x"); !pod.spec.containers.exists(c, c.name == "x")`, "",
		},
		{
			"no element of several lists", "", "validate: {deny: {conditions: {all: [{key: '{{ request.object.spec.[initContainers, containers][].name }}', operator: AllNotIn, value: [x]}]}}}",
			`!(pod.spec.?initContainers.orValue([]).all(i, i.name != "x") && pod.spec.containers.all(c, c.name != "x"))`, "",
		},
		{
			"expressions about the namespace", "", "validate: {cel: {expressions: [{expression: \"object.metadata.namespace == 'a' || request.namespace == 'b'\"}]}}",
			"request.namespace == 'a' || request.namespace == 'b'", "",
		},
		{
			"expressions with macros", "", "validate: {cel: {expressions: [{expression: \"(object.spec.containers + object.spec.?initContainers.orValue([])).filter(c, c.name != 'a').all(c, !has(c.securityContext) || c.ports.map(p, p.hostPort).size() < 2)\"}]}}",
			"(dyn(pod).spec.containers + dyn(pod).spec.?initContainers.orValue([])).filter(c, c.name != 'a').all(c, !has(c.securityContext) || c.ports.map(p, p.hostPort).size() < 2)", "",
		},
		{
			"another label that only these pods have", "match: {any: [{resources: {kinds: [v1/Pod], selector: {matchExpressions: [{key: vm.kubevirt.io/name, operator: Exists}]}}}]}",
			"validate: {pattern: {metadata: {namespace: vm-*}}}", `request.namespace.startsWith("vm-")`, "",
		},
	} {
		match := launcherMatch
		if c.match != "" {
			match = c.match
		}
		results := convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t, "{name: r, "+match+", "+c.rule+"}")}, effective.AlwaysSet())
		r := &results[0]
		if len(results) != 1 || r.Policy == nil || !r.Complete() {
			t.Errorf("%s: %v", c.name, r.Notes)
			continue
		}
		var got []string
		for _, v := range r.Policy.Spec.Validations {
			got = append(got, v.Expression)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s", c.name, text)
		}
		if at := r.Policy.Spec.Validations[len(got)-1].FieldPath; at != c.field {
			t.Errorf("%s: at %s", c.name, at)
		}
		if kinds := r.Policy.Spec.Match; len(kinds.Kinds) != 2 || len(kinds.Operations) != 2 || kinds.ObjectSelector != nil {
			t.Errorf("%s: %v", c.name, kinds)
		}
		if compiled, problems := policies.Compile(environment(t), r.Policy, nil); compiled.Broken() != "" {
			t.Errorf("%s: %v", c.name, problems)
		}
	}
}

// TestLauncherMatches rewrites matches of pods of virtual machines.
func TestLauncherMatches(t *testing.T) {
	const rule = ", validate: {pattern: {spec: {nodeSelector: {zone: a}}}}}"
	for match, want := range map[string]string{
		"match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {kubevirt.io: virt-launcher, tier: gold}}}}]}":                                          `"tier" in pod.metadata.?labels.orValue({}) && (pod.metadata.?labels.orValue({})["tier"] == "gold")`,
		"match: {any: [{resources: {kinds: [Pod], names: ['virt-launcher-*'], annotations: {a: b}, selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}":     `"a" in pod.metadata.?annotations.orValue({}) && (pod.metadata.?annotations.orValue({})["a"] == "b")`,
		launcherMatch + ", exclude: {any: [{resources: {selector: {matchLabels: {tier: gold}}}}]}":                                                                `!("tier" in pod.metadata.?labels.orValue({}) && (pod.metadata.?labels.orValue({})["tier"] == "gold"))`,
		launcherMatch + ", exclude: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: tier, operator: Exists}]}}}]}":                          `!("tier" in pod.metadata.?labels.orValue({}))`,
		"match: {any: [{resources: {kinds: [Pod], namespaces: [vms], operations: [CREATE], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}":             "",
		"match: {all: [{resources: {kinds: [Pod], namespaces: ['vms-*'], operations: [CREATE, DELETE], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}": `object.metadata.?namespace.orValue('').startsWith("vms-")`,
	} {
		results := convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t, "{name: r, "+match+rule)}, effective.AlwaysSet())
		r := &results[0]
		if r.Policy == nil || !r.Complete() {
			t.Errorf("%s: %v", match, r.Notes)
			continue
		}
		var got []string
		for _, v := range r.Policy.Spec.Match.MatchConditions {
			got = append(got, v.Expression)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s", match, text)
		}
	}
}

// TestLaunchersLeft says why rules about pods of virtual machines are not rewritten.
func TestLaunchersLeft(t *testing.T) {
	const none, of = "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool", "; it selects pods of virtual machines, and is not rewritten: "
	const zone = "validate: {pattern: {spec: {nodeSelector: {zone: a}}}}"
	selecting := func(more string) string {
		return "match: {any: [{" + more + "resources: {kinds: [Pod], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}"
	}
	for _, c := range []struct{ name, match, rule, want string }{
		{"other kinds, too", "match: {any: [{resources: {kinds: [Pod, Service], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}", zone, ""},
		{"a subresource", "match: {any: [{resources: {kinds: [Pod/exec], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}", zone, ""},
		{
			"an image", "", "validate: {pattern: {spec: {containers: [{image: 'a/*'}], nodeSelector: {zone: a}}}}",
			of + "spec.containers.image: it depends on the release of KubeVirt and on its registry; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{
			"a priority", "", "validate: {deny: {conditions: [{key: \"{{ request.object.spec.priorityClassName || '' }}\", operator: Equals, value: ''}]}}",
			of + "spec.priorityClassName: a PriorityClass with globalDefault sets it where the virtual machine has none; write it for VirtualMachines, with spec.template.spec.priorityClassName for spec.priorityClassName",
		},
		{
			"tolerations", "", "validate: {deny: {conditions: [{key: \"{{ request.object.spec.tolerations[].key }}\", operator: AnyIn, value: [x]}]}}",
			of + "spec.tolerations: the API server adds tolerations for nodes that are not ready; write it for VirtualMachines, with spec.template.spec.tolerations for spec.tolerations",
		},
		{
			"the number of volumes", "", "validate: {deny: {conditions: [{key: \"{{ length(request.object.spec.volumes) }}\", operator: GreaterThan, value: 5}]}}",
			of + "deny.conditions.all[0]: the length of spec.volumes: the API server can add a volume with the token of the ServiceAccount; write it for VirtualMachines",
		},
		{
			"all labels", "", "validate: {pattern: {metadata: {labels: {'*': x}}}}",
			of + "metadata.labels.*: KubeVirt sets keys below kubevirt.io/ that have the UID of the instance or its node; write it for VirtualMachines, with spec.template.metadata.labels for metadata.labels",
		},
		{
			"the user", "", "validate: {deny: {conditions: [{key: \"{{ request.userInfo.username }}\", operator: Equals, value: ann}]}}",
			of + "deny.conditions.all[0]: request.userInfo.username is that of KubeVirt's request for the pod; write it for VirtualMachines",
		},
		{
			"an operation that pods do not have", "", "preconditions: {all: [{key: \"{{ request.operation }}\", operator: Equals, value: UPDATE}]}, " + zone,
			of + "preconditions: they skip each new pod, so the rule has no effect; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{
			"the number of the elements of several lists", "", "validate: {deny: {conditions: [{key: \"{{ request.object.spec.[initContainers, containers][].name }}\", operator: Equals, value: x}]}}",
			of + "deny.conditions.all[0]: the operator does not compare the elements of a list: use AnyIn, AllIn, AnyNotIn or AllNotIn; write it for VirtualMachines",
		},
		{
			"users", selecting("subjects: [{kind: User, name: ann}], "), zone,
			of + "its match names users, and KubeVirt creates all pods of virtual machines; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{
			"deletions", "match: {any: [{resources: {kinds: [Pod], operations: [DELETE], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}", zone,
			of + "its operations are others than the creation of pods; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{
			"names", "match: {any: [{resources: {kinds: [Pod], names: [a], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}", zone,
			of + "its match names pods, and those of virtual machines have random names; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{
			"a label of the node", "match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {kubevirt.io: virt-launcher, kubevirt.io/nodeName: a}}}}]}", zone,
			of + "its match has the label kubevirt.io/nodeName: KubeVirt sets keys below kubevirt.io/ that have the UID of the instance or its node; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
		{
			"an exclusion of another kind", launcherMatch + ", exclude: {any: [{resources: {kinds: [Service]}}]}", zone,
			of + "its exclude has other kinds; write it for VirtualMachines, with spec.template.spec.nodeSelector for spec.nodeSelector",
		},
	} {
		match := launcherMatch
		if c.match != "" {
			match = c.match
		}
		rule := "{name: r, " + match + ", " + c.rule + "}"
		results := convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t, rule)}, effective.AlwaysSet())
		if n := results[0].Notes[0]; results[0].Policy != nil || n.Reason != convert.NoVirtualMachine || n.Message != none+c.want {
			t.Errorf("%s: %q", c.name, n.Message)
		}
		results = convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t, rule, "{name: other, match: {any: [{resources: {kinds: [Pod]}}]}, "+c.rule+"}")}, effective.AlwaysSet())
		if n := results[0].Notes[0]; results[0].Policy != nil || n.Reason != convert.NoVirtualMachine || n.Message != none+strings.Replace(c.want, "; it selects", "; the rule r selects", 1) {
			t.Errorf("%s: with another rule: %q", c.name, n.Message)
		}
	}
}

// TestLauncherExpressionsLeft says why rules in CEL about pods of virtual machines are not rewritten.
func TestLauncherExpressionsLeft(t *testing.T) {
	const none = "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool; it selects pods of virtual machines, and is not rewritten: "
	const image = "spec.containers[].image: it depends on the release of KubeVirt and on its registry"
	for expression, want := range map[string]string{
		"object.spec.containers.all(c, c.image == 'a')":                                      image,
		"object.spec.containers[0].image == 'a'":                                             image,
		"object.spec.containers.filter(c, c.name == 'a').exists(d, d.image == 'b')":          image,
		"object.spec.containers.map(c, c).exists(d, d.image == 'b')":                         image,
		"(true ? object.spec.containers : []).exists(d, d.image == 'b')":                     image,
		"(object.spec.containers + object.spec.initContainers).exists(d, d['image'] == 'b')": image,
		"variables.all.exists(d, d.image == 'b')":                                            image,
		"object.spec.?containers.optMap(all, all[0].image == 'a').orValue(true)":             "it has optMap or optFlatMap, which not all engines evaluate alike: test the value with hasValue()",
		"dyn(object).spec.containers.exists(c, has(c.image))":                                image,
		"object.spec.containers.exists(c, c == 'a')":                                         "it reads spec.containers[] as a whole",
		"object.spec.containers == []":                                                       "it reads spec.containers as a whole",
		"string(object) == ''":                                                               "it reads the whole pod",
		"oldObject == null":                                                                  "it reads oldObject, which is not about the pod",
		"request.userInfo.username == 'a'":                                                   "request.userInfo is that of KubeVirt's request for the pod",
		"images.containers.all(i, true)":                                                     "it reads images, which is not about the pod",
		"object.spec.containers[0].resources.requests.all(k, k != '')":                       "it reads all fields of spec.containers[].resources.requests",
		"request.namespace in object.spec.containers[0].resources.requests":                  "it reads all keys of spec.containers[].resources.requests",
		"object.spec.containers.exists(c, c.image in [] || c.image == 'a')":                  image,
		"object.spec.containers.exists(c, c.name in [] || c.image in ['a'])":                 image,
		"object.spec.containers.exists(c, c.livenessProbe in [])":                            "spec.containers[].livenessProbe: KubeVirt sets it from the field of this name of the virtual machine",
		"object.metadata.labels['kubevirt.io/created-by'] == ''":                             "metadata.labels.kubevirt.io/created-by: KubeVirt sets keys below kubevirt.io/ that have the UID of the instance or its node",
		"object.spec.volumes.size() > 5":                                                     "the length of spec.volumes: the API server can add a volume with the token of the ServiceAccount",
		"object.spec.?schedulerName.hasValue()":                                              "it reads spec.schedulerName indirectly: write object.spec.schedulerName",
		"object.spec.containers.all(c, c.?resources.hasValue())":                             "it reads whether spec.containers[].resources is set, and pods always have it",
		"object.spec.domain == 1":                                                            "it reads spec.domain, and pods have no such field",
		"object.spec.?schedulerName.orValue('') == ''":                                       "it reads spec.schedulerName indirectly: write object.spec.schedulerName",
		"object.spec.containers.all(pod, object.spec.hostPID)":                               "it reads object where a macro declares pod: give the macro's variable another name",
	} {
		results := convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t,
			"{name: r, "+launcherMatch+", validate: {cel: {variables: [{name: all, expression: object.spec.containers}], expressions: [{expression: "+strconv.Quote(expression)+"}]}}}",
		)}, effective.AlwaysSet())
		if n := results[0].Notes[0]; results[0].Policy != nil || n.Reason != convert.NoVirtualMachine || !strings.HasPrefix(n.Message, none+want+"; write it for VirtualMachines") {
			t.Errorf("%s: %q", expression, n.Message)
		}
	}
}

// TestLauncherFields holds that each known field of the table is one of Pods, and that the documentation names it.
func TestLauncherFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy-convert.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range convert.KnownPodPaths() {
		typ := reflect.TypeFor[corev1.Pod]()
		for _, step := range strings.Split(strings.TrimSuffix(strings.TrimSuffix(path, ".**"), ".*"), ".") {
			for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			if typ = fieldpath.Below(typ, step); typ == nil {
				t.Errorf("%s: pods have no %s", path, step)
				break
			}
		}
		named := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(path, ".**"), ".*"), "spec.volumes.", "spec.volumes[].")
		for _, list := range []string{"spec.containers.", "spec.initContainers."} {
			below, ok := strings.CutPrefix(path, list)
			if ok {
				named = strings.TrimSuffix(strings.TrimPrefix(below, "ports."), ".**")
			}
		}
		if !bytes.Contains(page, []byte("`"+named+"`")) {
			t.Errorf("docs/policy-convert.md does not name %s", named)
		}
	}
}

// podConstraint returns a template with a body of violation, and its constraint about pods of virtual machines.
func podConstraint(t testing.TB, labels map[string]any, body, rest string) []*unstructured.Unstructured {
	t.Helper()
	r := regoTemplate{Name: "X", Rego: "package x\nviolation[{\"msg\": msg}] { " + body + "; msg := \"x\" }\n" + rest}
	return aboutPods(t, r.objects(t), labels)
}

// aboutPods gives a constraint the match of pods with labels.
func aboutPods(t testing.TB, objects []*unstructured.Unstructured, labels map[string]any) []*unstructured.Unstructured {
	t.Helper()
	if err := unstructured.SetNestedField(objects[1].Object, map[string]any{
		"kinds": []any{map[string]any{"apiGroups": []any{""}, "kinds": []any{"Pod"}}}, "labelSelector": map[string]any{"matchLabels": labels},
	}, "spec", "match"); err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestLauncherModules rewrites modules about pods of virtual machines, if they read only known fields.
func TestLauncherModules(t *testing.T) {
	of := map[string]any{"kubevirt.io": "virt-launcher"}
	const pod = "input.review.object"
	for _, c := range []struct {
		name       string
		labels     map[string]any
		body, rest string
		want       string
	}{
		{"a field", of, pod + `.spec.hostNetwork`, "", ""},
		{"a name", of, `p := ` + pod + `; c := p.spec.containers[_]; c.securityContext.privileged`, "", ""},
		{"a function", of, `bad(` + pod + `.spec)`, `bad(spec) { spec.hostPID }`, ""},
		{"a rule", of, `c := all[_]; c.name == "x"`, `all[c] { c := ` + pod + `.spec.containers[_] }`, ""},
		{"the namespace", of, pod + `.metadata.namespace == "a"`, "", ""},
		{"the operation", of, `input.review.operation == "CREATE"`, "", ""},
		{"the kind", of, `input.review.kind.kind == "Pod"; ` + pod + `.spec.hostPID`, "", ""},
		{"a part without an effect", of, `c := ` + pod + `.spec.containers[_]; not exempt(c); c.securityContext.privileged`, `exempt(c) { c.image == input.parameters.images[_] }`, ""},
		{"a part without an effect by a name", of, `c := ` + pod + `.spec.containers[_]; not exempt(c)`, `exempt(c) { images := object.get(object.get(input, "parameters", {}), "images", []); image := c.image; one := images[_]; like(image, one) } like(a, b) { startswith(a, b) }`, ""},
		{"a part without an effect with some", of, `c := ` + pod + `.spec.containers[_]; not exempt(c)`, `import future.keywords.in
exempt(c) { images := object.get(input, ["parameters", "images"], []); some one in images; c.image == one }`, ""},
		{"a tier", map[string]any{"kubevirt.io": "virt-launcher", "tier": "gold"}, pod + `.spec.hostIPC`, "", ""},
		{"an image", of, pod + `.spec.containers[_].image == "x"`, "", "spec.containers[].image: it depends on the release of KubeVirt and on its registry"},
		{"an image by a name", of, `c := ` + pod + `.spec.containers[_]; c.image == "x"`, "", "spec.containers[].image: it depends on the release of KubeVirt and on its registry"},
		{"an image by a function", of, `bad(` + pod + `.spec.containers[_])`, `bad(c) { c.image == "x" }`, "spec.containers[].image: it depends on the release of KubeVirt and on its registry"},
		{"an image by a pattern", of, `bad(` + pod + `.spec.containers[_])`, `bad({"image": "x"}) = true`, "it reads spec.containers[] as a whole"},
		{"a container", of, `sprintf("%v", [` + pod + `.spec.containers[0]]) == "x"`, "", "it reads spec.containers[] as a whole"},
		{"two containers", of, `a := ` + pod + `.spec.containers[0]; b := ` + pod + `.spec.containers[1]; a == b`, "", "it reads spec.containers[] as a whole"},
		{"the pod", of, `json.marshal(` + pod + `) == "x"`, "", "it reads the whole pod"},
		{"a walk", of, `walk(` + pod + `, [["x"], 1])`, "", "it reads the whole pod"},
		{"a computed field", of, `f := "image"; ` + pod + `.spec[f]`, "", "it reads fields of spec by a variable"},
		{"an object as a pattern", of, `{"spec": s} = ` + pod + `; s`, "", "it reads the whole pod"},
		{"the number of volumes", of, `count(` + pod + `.spec.volumes) > 3`, "", "the length of spec.volumes: the API server can add a volume with the token of the ServiceAccount"},
		{"a limit by any name", of, pod + `.spec.containers[_].resources.requests[x] == "1"`, "", "it reads fields of spec.containers[].resources.requests by a variable"},
		{"a default", of, pod + `.spec.schedulerName == "x"`, "", "spec.schedulerName: the API server sets it to default-scheduler where KubeVirt sets none"},
		{"the namespace by a name", of, `m := ` + pod + `.metadata; m.namespace == "a"`, "", "it reads metadata.namespace by a variable: write input.review.object.metadata.namespace"},
		{"the user", of, `input.review.userInfo.username == "a"`, "", "it reads input.review.userInfo.username, which is about KubeVirt's request for the pod"},
		{"the old pod", of, `input.review.oldObject.spec.hostPID`, "", "it reads input.review.oldObject.spec.hostPID, which is about KubeVirt's request for the pod"},
		{"the review", of, `json.marshal(input.review) == "x"`, "", "it reads input.review as a whole, which has the request for the pod"},
		{"the review by a name", of, `r := input.review; r.object.spec.containers[_].image == "x"`, "", "spec.containers[].image: it depends on the release of KubeVirt and on its registry"},
		{"the user by a name", of, `r := input.review; r.userInfo.username == "x"`, "", "it reads input.review.userInfo, which is about KubeVirt's request for the pod"},
		{"a parameter", of, `c := ` + pod + `.spec.containers[_]; not input.parameters.images[c.image]`, "", "spec.containers[].image: it depends on the release of KubeVirt and on its registry"},
		{"the name", of, pod + `.metadata.name == "x"`, "", "metadata.name: it has a random suffix: generateName has the rest"},
		{"a replaced input", of, `bad with input as {"review": ` + pod + `}`, `bad { input.review.x }`, ""},
		{"a field that pods do not have", of, pod + `.spec.domain.cpu`, "", "it reads input.review.object.spec.domain.cpu, and pods have no such field"},
		{
			"a label of the node",
			map[string]any{"kubevirt.io": "virt-launcher", "kubevirt.io/nodeName": "a"},
			pod + `.spec.hostIPC`, "",
			"its match has the label kubevirt.io/nodeName: KubeVirt sets keys below kubevirt.io/ that have the UID of the instance or its node",
		},
	} {
		results := convert.Convert(environment(t), podConstraint(t, c.labels, c.body, c.rest), effective.AlwaysSet())
		r := &results[len(results)-1]
		if c.name == "a replaced input" { // any reason will do
			if r.Policy != nil {
				t.Errorf("%s: %s", c.name, r.Policy.Spec.Rego.Module)
			}
			continue
		}
		if c.want == "" {
			if r.Policy == nil || !r.Complete() || strings.Contains(r.Policy.Spec.Rego.Module, "input.review") {
				t.Errorf("%s: %v", c.name, r.Notes)
			} else if compiled, problems := policies.Compile(environment(t), r.Policy, nil); compiled.Broken() != "" {
				t.Errorf("%s: %v", c.name, problems)
			}
			continue
		}
		want := "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool; it selects pods of virtual machines, and is not rewritten: " + c.want + "; write it for VirtualMachines"
		if n := r.Notes[0]; r.Policy != nil || n.Reason != convert.NoVirtualMachine || n.Message != want {
			t.Errorf("%s: %q", c.name, n.Message)
		}
	}
}

// TestLauncherReviews writes what modules read of the review of a pod.
func TestLauncherReviews(t *testing.T) {
	for _, c := range []struct{ name, body, rest, want string }{
		{"the review", `not changes(input.review); input.review.object.spec.hostPID`, `changes(of) { of.operation == "UPDATE" }`, "review.operation := \"CREATE\""},
		{"the kind", `input.review.kind.kind == "Pod"`, "", `review.kind := {"group": "", "kind": "Pod", "version": "v1"}`},
		{"the parameters", `object.get(input, "parameters", {}) == {}`, "", "input.params == {}"},
		{"a parameter", `object.get(input, ["parameters", "a", "b"], 1) == 1`, "", `object.get(input.params, ["a", "b"], 1) == 1`},
	} {
		results := convert.Convert(environment(t), podConstraint(t, map[string]any{"kubevirt.io": "virt-launcher"}, c.body, c.rest), effective.AlwaysSet())
		r := &results[len(results)-1]
		if r.Policy == nil || !r.Complete() || !strings.Contains(r.Policy.Spec.Rego.Module, c.want) {
			t.Errorf("%s: %v", c.name, r)
		}
	}
	objects := podConstraint(t, map[string]any{"kubevirt.io": "virt-launcher"}, "", "")
	const message = "package x\nviolation[{\"msg\": msg}] { input.review.object.spec.hostPID; msg := sprintf(\"%v\", [input.review.object.metadata.name]) }"
	for rego, want := range map[string]bool{
		message: true,
		strings.Replace(message, "hostPID;", "hostPID; msg != \"a\";", 1):             false, // it decides, too
		"package x\nviolation[{\"msg\": input.review.object.metadata.name}] { true }": true,
		// The name is the message, or a part of a text.
		strings.Replace(message, "sprintf(\"%v\", [input.review.object.metadata.name])", "input.review.object.metadata.name", 1):                                            true,
		strings.Replace(message, "sprintf(\"%v\", [", "sprintf(\"%v %v\", [[c.name | c := input.review.object.spec.containers[_]], ", 1):                                    true,
		strings.Replace(message, "sprintf(\"%v\", [input.review.object.metadata.name])", "concat(\" \", [\"a\", sprintf(\"%v\", [input.review.object.metadata.name])])", 1): true,
		// It decides whether there is a message.
		strings.Replace(message, "sprintf(\"%v\", [input.review.object.metadata.name])", "{\"x\": \"bad\"}[input.review.object.metadata.name]", 1):                false,
		strings.Replace(message, "[input.review.object.metadata.name]", "[{\"x\": \"bad\"}[input.review.object.metadata.name]]", 1):                               false,
		strings.Replace(message, "[input.review.object.metadata.name]", "[f(input.review.object.metadata.name)]", 1) + "\nf(x) = x { x == \"a\" }":                false,
		strings.Replace(message, "[input.review.object.metadata.name]", "[trim_prefix(input.review.object.metadata.name, \"a\")]", 1):                             false,
		strings.Replace(message, "[input.review.object.metadata.name]", "[[x | x := input.review.object.metadata.name; x == \"a\"]]", 1):                          false,
		"package x\nviolation[{\"msg\": {\"x\": \"bad\"}[input.review.object.metadata.name]}] { true }":                                                           false,
		"package x\nviolation[{\"msg\": concat(\" \", [n | n := input.review.object.metadata.name; n != \"a\"])}] { true }":                                       false,
		strings.Replace(message, "[input.review.object.metadata.name])", "[input.review.object.metadata.name]) with input.review.object.spec.hostPID as true", 1): false,
	} {
		if err := unstructured.SetNestedSlice(objects[0].Object, []any{map[string]any{"target": "admission.k8s.gatekeeper.sh", "rego": rego}}, "spec", "targets"); err != nil {
			t.Fatal(err)
		}
		results := convert.Convert(environment(t), objects, effective.AlwaysSet())
		if r := &results[len(results)-1]; (r.Policy != nil) != want || want && !strings.Contains(r.Policy.Spec.Rego.Module, "input.pod.metadata.generateName") {
			t.Errorf("%s: %v", rego, r.Notes)
		}
	}
}

// TestLauncherTemplates rewrites templates in CEL about pods of virtual machines. Parameters decide which parts have an effect.
func TestLauncherTemplates(t *testing.T) {
	const exempt = "object.spec.containers.all(c, c.image in variables.exempt || c.name != 'a')"
	for _, c := range []struct {
		name, expression string
		parameters       map[string]any
		want             string
	}{
		{"a list without elements", exempt, map[string]any{"exempt": []any{}}, ""},
		{"a list that is missing", exempt, map[string]any{}, ""},
		{"a list with an element", exempt, map[string]any{"exempt": []any{"a"}}, "spec.containers[].image: "},
		{"a loop over a list without elements", "!params.exempt.exists(e, e == object.spec.containers[0].image)", map[string]any{"exempt": []any{}}, ""},
		{"a list that has no elements after a filter", "object.spec.containers.filter(c, c.image in params.exempt).map(c, c.image).size() == 0", map[string]any{"exempt": []any{}}, ""},
		{"a condition that is false", "params.strict && object.spec.containers[0].image == 'a' || has(object.spec.hostPID)", map[string]any{"strict": false}, ""},
		{"a condition that is true", "params.strict && object.spec.containers[0].image == 'a' || has(object.spec.hostPID)", map[string]any{"strict": true}, "spec.containers[].image: "},
		{"an alternative", "params.strict ? has(object.spec.hostPID) : object.spec.containers[0].image == 'a'", map[string]any{"strict": true}, ""},
		{"the other alternative", "params.strict ? has(object.spec.hostPID) : object.spec.containers[0].image == 'a'", map[string]any{"strict": false}, "spec.containers[].image: "},
		{"the operation", "request.operation == 'UPDATE' && object.spec.containers[0].image == 'a' || has(object.spec.hostPID)", nil, ""},
		{"the number of elements", "size(params.exempt) > 0 && object.spec.containers[0].image == 'a' || has(object.spec.hostPID)", map[string]any{"exempt": []any{}}, ""},
		{"a name of a macro", "[true].all(params, params && object.spec.containers[0].image == 'a')", map[string]any{}, "spec.containers[].image: "},
	} {
		objects := podConstraint(t, map[string]any{"kubevirt.io": "virt-launcher"}, "", "")
		source := map[string]any{
			"variables":   []any{map[string]any{"name": "exempt", "expression": "!has(variables.params.exempt) ? [] : variables.params.exempt"}},
			"validations": []any{map[string]any{"expression": strings.NewReplacer("object.", "variables.anyObject.", "params.", "variables.params.").Replace(c.expression), "message": "x"}},
		}
		code := []any{map[string]any{"engine": "K8sNativeValidation", "source": source}}
		if err := unstructured.SetNestedSlice(objects[0].Object, []any{map[string]any{"target": "admission.k8s.gatekeeper.sh", "code": code}}, "spec", "targets"); err != nil {
			t.Fatal(err)
		}
		if c.parameters != nil {
			if err := unstructured.SetNestedMap(objects[1].Object, c.parameters, "spec", "parameters"); err != nil {
				t.Fatal(err)
			}
		}
		results := convert.Convert(environment(t), objects, effective.AlwaysSet())
		r := &results[len(results)-1]
		others := "with its parameters, a part that reads fields that are not known has no effect"
		switch {
		case c.want == "" && (r.Policy == nil || !r.Complete()):
			t.Errorf("%s: %v", c.name, r.Notes)
		case c.want == "" && (c.parameters != nil) != slices.ContainsFunc(r.Notes, func(n convert.Note) bool { return strings.Contains(n.Message, others) }):
			t.Errorf("%s does not say what depends on the parameters: %v", c.name, r.Notes)
		case c.want != "" && (r.Policy != nil || !strings.Contains(r.Notes[0].Message, "is not rewritten: "+c.want)):
			t.Errorf("%s: %v", c.name, r.Notes)
		}
	}
}

// TestLauncherArguments: the parser accepts functions without arguments, and so does the conversion.
func TestLauncherArguments(t *testing.T) {
	for _, expression := range []string{
		"size() == 0", "size() > 0 || object.spec.hostPID", "dyn()", "object.spec.orValue()", "object.spec.or()", "optional.of()", "object.spec.hasValue()",
		"object.spec.value()", "hasValue()", "orValue(object)", "_in_()", "_in_(object)", "of()", "value()", "or()",
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: x}, spec: {matchConstraints: {objectSelector: {matchLabels: {kubevirt.io: virt-launcher}}, resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}, validations: [{message: x}]}}"), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(object.Object, []any{map[string]any{"expression": expression, "message": "x"}}, "spec", "validations"); err != nil {
			t.Fatal(err)
		}
		r := convert.Convert(environment(t), []*unstructured.Unstructured{object}, effective.AlwaysSet())[0]
		if r.Policy != nil && r.Complete() {
			t.Errorf("%s is converted completely: %v", expression, r.Notes)
		}
	}
}

// TestLauncherNatives rewrites policies in the form of native ones about pods of virtual machines.
func TestLauncherNatives(t *testing.T) {
	const left = "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool; it selects pods of virtual machines, and is not rewritten: "
	for _, c := range []struct{ name, match, want string }{
		{"pods", "{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}", ""},
		{"names", "{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods], resourceNames: [a]}", left + "its match names pods, and those of virtual machines have random names; write it for VirtualMachines"},
		{"deletions", "{apiGroups: [''], apiVersions: [v1], operations: [DELETE], resources: [pods]}", left + "its operations are others than the creation of pods; write it for VirtualMachines"},
		{"others", "{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods, services]}", "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool"},
	} {
		for _, kind := range []string{"policies.kyverno.io/v1, kind: ValidatingPolicy", "admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy"} {
			text := "{apiVersion: " + kind + ", metadata: {name: x}, spec: {matchConstraints: {objectSelector: {matchLabels: {kubevirt.io: virt-launcher}}, resourceRules: [" + c.match + "]}, validations: [{expression: '!object.spec.hostPID', message: x}]}}"
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			r := convert.Convert(environment(t), []*unstructured.Unstructured{object}, effective.AlwaysSet())[0]
			switch {
			case c.want != "" && (r.Policy != nil || r.Notes[0].Message != c.want):
				t.Errorf("%s: %v", c.name, r.Notes)
			case c.want == "" && (r.Policy == nil || r.Policy.Spec.Validations[0].Expression != "!pod.spec.hostPID" || r.Policy.Spec.Match.ObjectSelector != nil):
				t.Errorf("%s: %v", c.name, r)
			}
		}
	}
}

// TestPodsOfAll says how to convert what is about all pods.
func TestPodsOfAll(t *testing.T) {
	const advice = "; it is about pods: to convert it for those of virtual machines, select the label kubevirt.io: virt-launcher in a copy"
	zone := ", validate: {pattern: {spec: {nodeSelector: {zone: a}}}}}"
	for match, want := range map[string]bool{
		"match: {any: [{resources: {kinds: [Pod]}}]}":            true,
		"match: {any: [{resources: {kinds: [Pod, Service]}}]}":   false,
		"match: {any: [{resources: {kinds: [Deployment]}}]}":     false,
		"match: {any: [{subjects: [{kind: User, name: ann}]}]}":  false,
		"match: {resources: {kinds: [v1/Pod], namespaces: [a]}}": true,
	} {
		r := convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t, "{name: r, "+match+zone)}, effective.AlwaysSet())[0]
		if strings.Contains(r.Notes[0].Message, advice) != want {
			t.Errorf("%s: %s", match, r.Notes[0].Message)
		}
	}
	results := convert.Convert(environment(t), podConstraint(t, map[string]any{"app": "a"}, "true", ""), effective.AlwaysSet())
	if !strings.Contains(results[0].Notes[0].Message, advice) {
		t.Errorf("a constraint: %s", results[0].Notes[0].Message)
	}
}

// TestManyVariables: variables that are used twice in the next one do not double what is followed.
func TestManyVariables(t *testing.T) {
	const n = 40
	variables := func(first, next string) string {
		all := []string{"{name: v0, expression: \"" + first + "\"}"}
		for i := range n {
			all = append(all, fmt.Sprintf("{name: v%d, expression: \"%s\"}", i+1, strings.ReplaceAll(next, "$", fmt.Sprintf("variables.v%d", i))))
		}
		return strings.Join(all, ", ")
	}
	const rule = "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: x}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [%s], operations: [CREATE]%s}}]}, validate: {cel: {variables: [%s], expressions: [{expression: \"%s\"}]}}}]}}"
	const launcher = ", selector: {matchLabels: {kubevirt.io: virt-launcher}}"
	var chain strings.Builder
	for i := range 101 {
		fmt.Fprintf(&chain, "object.metadata.labels['l%d'] == 'a' ? object.metadata.labels['m%d'] : (", i, i)
	}
	for _, c := range []struct{ name, kind, selector, variables, expression, want string }{
		{"a pod", "Pod", launcher, variables("object.spec.containers", "$ + $"), fmt.Sprintf("variables.v%d.all(c, c.name != 'a')", n), "c.name != 'a'"},
		{"alternatives of a pod", "Pod", launcher, variables("object.spec.containers", "has(object.spec.hostPID) ? $ : $"), fmt.Sprintf("variables.v%d.all(c, c.name != 'a')", n), "c.name != 'a'"},
		{"a virtual machine", "VirtualMachine", "", variables("object.spec.template.spec.volumes", "$ + $"), fmt.Sprintf("variables.v%d.all(v, v.name != 'a')", n), "fieldPath: spec.template.spec.volumes"},
		{"other fields each time", "VirtualMachine", "", variables("dyn(object).spec", "$.a || $.b ? $.a : $.b"), fmt.Sprintf("variables.v%d.name != 'a'", n), "enforcement: Audit"},
		{"too many fields", "Pod", launcher, "", "(" + chain.String() + "'a'" + strings.Repeat(")", 102) + " != ''", "one of its values can be more than 100 fields of the pod: read fewer fields in one expression"},
	} {
		text := fmt.Sprintf(rule, c.kind, c.selector, c.variables, c.expression)
		results := convert.Convert(environment(t), []*unstructured.Unstructured{parsed(t, text)}, effective.AlwaysSet())
		if got := inOneLine(t, results); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%s", c.name, got[:min(len(got), 2000)])
		}
	}
}
