package explain_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

func TestPoliciesOfFiles(t *testing.T) {
	const shop = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}, annotations: {ceiling: low}}\n"
	const caps = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: caps, namespace: lab}\ndata: {memory: 1Gi}\n"
	for _, c := range []struct {
		name, objects string
		// word is that of the finding; empty if there is none.
		word string
		// note is the expected note; empty without one about policies.
		note string
	}{
		{name: "deny", objects: clitest.MemoryPolicy("Deny", ""), word: "rejected"},
		{name: "warn", objects: clitest.MemoryPolicy("Warn", ""), word: "warning"},
		{name: "audit", objects: clitest.MemoryPolicy("Audit", ""), word: "audit"},
		{name: "for another kind", objects: clitest.MemoryPolicy("Deny", "match: {kinds: [VirtualMachineInstance]}, ")},
		{name: "for mshv", objects: clitest.MemoryPolicy("Deny", "match: {hypervisors: [mshv]}, ")},
		{name: "an exception", objects: clitest.MemoryPolicy("Deny", "exceptions: [{namespaces: [shop], reason: r}], ")},
		{name: "an expired exception", objects: clitest.MemoryPolicy("Deny", "exceptions: [{namespaces: [shop], reason: r, expires: '2020-01-01T00:00:00Z'}], "), word: "rejected"},
		{name: "by a label", objects: clitest.MemoryPolicy("Deny", clitest.ForTeamA) + shop, word: "rejected"},
		{name: "by a label that is not known", objects: clitest.MemoryPolicy("Deny", clitest.ForTeamA)},
		{name: "by its name", objects: clitest.MemoryPolicy("Deny", "match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}, "), word: "rejected"},
		{name: "an annotation of the namespace", objects: clitest.MemoryPolicy("Deny", `match: {matchConditions: [{name: low, expression: "namespaceObject.metadata.annotations['ceiling'] == 'low'"}]}, `) + shop, word: "rejected"},
		{name: "with parameters", objects: clitest.MemoryPolicy("Deny", clitest.ParamsFromConfigMap) + caps, word: "rejected"},
		{name: "parameters that no file holds", objects: clitest.MemoryPolicy("Deny", clitest.ParamsFromConfigMap), note: "VirtualMachinePolicy cap is not considered: its parameters are not known: ConfigMap lab/caps is not among the files"},
		{name: "parameters that cannot be read", objects: clitest.MemoryPolicy("Deny", clitest.ParamsFromConfigMap) + strings.Replace(caps, "1Gi", "[1]", 1), note: "VirtualMachinePolicy cap is not considered: its parameters are not known: standard input: document 3: ConfigMap caps: data.memory: is a list where a text is expected"},
		{name: "for updates", objects: clitest.MemoryPolicy("Deny", "match: {operations: [UPDATE]}, "), note: "document 2: VirtualMachinePolicy cap was not evaluated: spec.match.operations: the audit evaluates objects as if they were created"},
		{name: "broken", objects: strings.Replace(clitest.MemoryPolicy("Deny", ""), "vm.spec.domain", "vm.spec.domian", 1), note: "document 2: VirtualMachinePolicy cap is broken and was not evaluated; a cluster denies every request that it matches"},
		{name: "broken, where", objects: strings.Replace(clitest.MemoryPolicy("Warn", ""), "vm.spec.domain", "vm.spec.domian", 1), note: "VirtualMachinePolicy cap: line 15: spec.validations[0].expression:1:17: undefined field 'domian'; did you mean 'domain'?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, clitest.VM+c.objects, "explain", "-f", "-")
			wantCode := clitest.ExitOK
			if c.word == "rejected" {
				wantCode = clitest.ExitFailed
			}
			if word, _ := wordOf(got.Out, "policy/cap"); got.Code != wantCode || word != c.word {
				t.Errorf("code %d, the finding is %q, want %q; errors %q\n%s", got.Code, word, c.word, got.ErrOut, got.Out)
			}
			if found := strings.Contains(got.Out, "# note: "); found != (c.note != "") || !strings.Contains(got.Out, c.note) {
				t.Errorf("want the note %q in\n%s", c.note, got.Out)
			}
		})
	}
}

// TestUnreadablePolicy names the field at which a policy cannot be decoded.
func TestUnreadablePolicy(t *testing.T) {
	got := clitest.Call(t, clitest.VM+clitest.Policy("cap", "enforcement: [Deny]"), "explain", "-f", "-")
	if want := "error: standard input: document 2: VirtualMachinePolicy cap: spec.enforcement: is a list where a text is expected\n"; got.Code != clitest.ExitFailed || got.ErrOut != want {
		t.Errorf("code %d, errors %q, want %q", got.Code, got.ErrOut, want)
	}
	got = clitest.Call(t, clitest.VM+strings.Replace(clitest.MemoryPolicy("Deny", ""), "v1alpha1", "v1", 1), "explain", "-f", "-")
	if want := `apiVersion: no matches for kind "VirtualMachinePolicy" in version "policy.virtward.io/v1": use policy.virtward.io/v1alpha1`; got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, want) {
		t.Errorf("code %d, errors %q, want %q", got.Code, got.ErrOut, want)
	}
}

const (
	policiesPath = "/apis/policy.virtward.io/v1alpha1/virtualmachinepolicies"
	capsPath     = "/api/v1/namespaces/lab/configmaps/caps"
	shopPath     = "/api/v1/namespaces/shop"
)

// listedPolicy is a list of the cluster with one policy, which rejects more memory than its parameters allow, for
// some namespaces.
const listedPolicy = `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyList","items":[{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicy","metadata":{"name":"cap"},
	"spec":{"enforcement":"Deny","match":{"namespaceSelector":{"matchLabels":{"team":"a"}}},"params":{"configMap":{"namespace":"lab","name":"caps"}},
	"validations":[{"expression":"quantity(vm.spec.domain.memory.guest).isLessThan(quantity(params.memory))","message":"too much","fieldPath":"spec.domain.memory.guest"}]}}]}`

// suspendedPolicy is that list with a status that suspends the policy.
func suspendedPolicy(enforcement string) string {
	return strings.NewReplacer(`"Deny"`, `"`+enforcement+`"`, `"metadata":{"name":"cap"}`, `"metadata":{"name":"cap","generation":2},
		"status":{"conditions":[{"type":"Suspended","status":"True","reason":"ExceedsLimits","message":"m","observedGeneration":2,"lastTransitionTime":"2026-03-04T05:06:07Z"}]}`).Replace(listedPolicy)
}

func TestPoliciesOfTheCluster(t *testing.T) {
	whole := map[string]string{
		policiesPath: listedPolicy,
		capsPath:     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"caps","namespace":"lab"},"data":{"memory":"1Gi"}}`,
		shopPath:     `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{"team":"a"}}}`,
	}
	for _, c := range []struct {
		name        string
		path, body  string
		stdin, word string
		note        string
	}{
		{name: "all of it", word: "rejected"},
		{name: "without the kind", path: policiesPath},
		{name: "the policy of the files", stdin: clitest.MemoryPolicy("Warn", ""), word: "warning"},
		{name: "the parameters of the files", stdin: "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: caps, namespace: lab}\ndata: {memory: 9Gi}\n"},
		{name: "without parameters", path: capsPath, word: "rejected"},
		{name: "parameters that may not be read", path: capsPath, body: clitest.Forbidden, note: "# note: VirtualMachinePolicy cap: not considered: you may not read the ConfigMaps with their parameters\n"},
		{name: "policies that may not be read", path: policiesPath, body: clitest.Forbidden, note: "# note: VirtualMachinePolicy of the cluster are not considered: you may not list them: an admin can grant the ClusterRole virtward-policies-view, or set policies.readers of the chart\n"},
		{name: "a policy of another form", path: policiesPath, body: strings.Replace(listedPolicy, `"Deny"`, "7", 1), note: "# note: VirtualMachinePolicy cap is not considered: spec.enforcement: is the number 7 where a text is expected\n"},
		{name: "a suspended policy", path: policiesPath, body: suspendedPolicy("Warn"), word: "warning", note: "# note: VirtualMachinePolicy cap is suspended: the cluster does not evaluate it\n"},
		{name: "a policy that denies is not suspended", path: policiesPath, body: suspendedPolicy("Deny"), word: "rejected"},
		{name: "a namespace that does not exist yet", path: shopPath},
		{name: "a namespace that may not be read", path: shopPath, body: clitest.Forbidden, note: "# warning: policies can read only the name of the namespace shop: you may not\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := clitest.ClusterObjects()
			maps.Copy(objects, whole)
			if c.path != "" {
				delete(objects, c.path)
			}
			if c.body != "" {
				objects[c.path] = c.body
			}
			got := clitest.Call(t, clitest.VM+c.stdin, "explain", "-f", "-", "--from-cluster", "--kubeconfig", clitest.APIServer(t, objects))
			if word, _ := wordOf(got.Out, "policy/cap"); word != c.word {
				t.Errorf("the finding is %q, want %q; errors %q", word, c.word, got.ErrOut)
			}
			if found := strings.Contains(got.Out, "considered: ") || strings.Contains(got.Out, "policies can read only") || strings.Contains(got.Out, "is suspended"); found != (c.note != "") || !strings.Contains(got.Out, c.note) {
				t.Errorf("want %q in\n%s", c.note, got.Out)
			}
		})
	}
}
