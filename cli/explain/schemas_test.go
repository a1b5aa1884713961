package explain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
)

// differing are recorded answers of KubeVirt about schemas that explain does not share, and why.
var differing = map[string]string{
	"schema-null-volumes":        "the API server drops null before it calls webhooks",
	"schema-null-cpu":            "the API server drops null before it calls webhooks",
	"schema-vm-template-no-spec": "a VM without memory never starts",
	"schema-vm-template-empty":   "a VM without memory never starts",
}

// TestExplainAgreesWithKubeVirtsSchemas replays the recorded objects that KubeVirt's webhook compares with its schema.
func TestExplainAgreesWithKubeVirtsSchemas(t *testing.T) {
	var different []string
	cases := recorded(t, func(c *recordedCase) bool { return c.Area == "schema" })
	for _, c := range cases {
		got := clitest.Call(t, string(c.Object), "explain", "-f", "-")
		if allowed := got.Code == clitest.ExitOK; allowed != c.Expect.Allowed {
			different = append(different, c.ID)
		}
	}
	if len(cases) < 50 {
		t.Errorf("only %d cases", len(cases))
	}
	var want []string
	for id := range differing {
		want = append(want, id)
	}
	slices.Sort(want)
	slices.Sort(different)
	if diff := cmp.Diff(want, different); diff != "" {
		t.Errorf("(-documented +different):\n%s", diff)
	}
}

// TestObjectsThatAreNotEvaluatedAreValidated covers objects of Virtward in files: an API server rejects an invalid one, so it
// does not apply, and is an entry of the report. The virtual machine is explained nevertheless.
func TestObjectsThatAreNotEvaluatedAreValidated(t *testing.T) {
	document := func(group, kind, spec string) string {
		return "---\napiVersion: " + group + "\nkind: " + kind + "\nmetadata: {name: x}\nspec: " + spec + "\n"
	}
	const policy, rollout, catalog, image = "policy.virtward.io/v1alpha1", "rollout.virtward.io/v1alpha1", "image.virtward.io/v1alpha1", "kupenstack.io/v1alpha1"
	for _, c := range []struct{ name, document, want string }{
		{"a field of a policy", document(policy, "VirtualMachinePolicy", "{enforcment: Deny, validations: [{expression: 'true', message: m}]}"), "VirtualMachinePolicy x: spec.enforcment: Forbidden: is not a field of VirtualMachinePolicy: did you mean enforcement?"},
		{"a value of a policy", document(policy, "VirtualMachinePolicy", "{enforcement: deny, validations: [{expression: 'true', message: m}]}"), `VirtualMachinePolicy x: spec.enforcement: Unsupported value: "deny": supported values: "Deny", "Warn", "Audit"`},
		{"a field of defaults", document(policy, "VirtualMachineDefaults", "{template: {schedulerName: s}, matches: {}}"), "VirtualMachineDefaults x: spec.matches: Forbidden: is not a field of VirtualMachineDefaults: did you mean match?"},
		{"a value of settings", document(policy, "RuleSettings", "{rules: [{rule: arm64-disk-bus, severity: Never}]}"), `RuleSettings x: spec.rules[0].severity: Unsupported value: "Never"`},
		{"a field of an exception", document(policy, "VirtualMachinePolicyException", "{policy: [a]}"), "VirtualMachinePolicyException x: spec.policy: Forbidden: is not a field of VirtualMachinePolicyException: did you mean policies?"},
		{"an exception for no virtual machine", document(policy, "VirtualMachinePolicyException", "{policies: [a], reason: b, expires: '2040-01-01T00:00:00Z'}"), "VirtualMachinePolicyException x: spec: Invalid value: exactly one of virtualMachines and selector is required"},
		{"a field of a rollout", document(rollout, "VirtualMachineRollout", "{slector: {}}"), "VirtualMachineRollout x: spec.slector: Forbidden: is not a field of VirtualMachineRollout: did you mean selector?"},
		{"a field of a catalog", document(catalog, "GoldenImageCatalog", "{multyArch: true}"), "GoldenImageCatalog x: spec.multyArch: Forbidden: is not a field of GoldenImageCatalog: did you mean multiArch?"},
		{"a field of an image", document(image, "VirtualImage", "{srcc: a}"), "VirtualImage x: spec.srcc: Forbidden: is not a field of VirtualImage: did you mean src?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, clitest.VM+c.document, "explain", "-f", "-", "-o", "table")
			if got.Code != clitest.ExitFailed || !strings.Contains(got.Out, c.want) || !strings.Contains(got.Out, "VirtualMachine shop/a on kvm/amd64") {
				t.Errorf("code %d, want %q in\n%s%s", got.Code, c.want, got.Out, got.ErrOut)
			}
			warned := clitest.Call(t, clitest.VM+c.document, "explain", "-f", "-", "-o", "table", "--unknown-fields", "warn")
			if unknown := strings.Contains(c.want, "Forbidden"); unknown && strings.Contains(warned.Out, "unreadable: standard input: document 2: "+c.want) {
				t.Errorf("an error with --unknown-fields=warn:\n%s", warned.Out)
			}
		})
	}
}

// TestErrorsOfOneDocumentAreCounted: each is an entry, and the summary names the document once.
func TestErrorsOfOneDocumentAreCounted(t *testing.T) {
	policy := strings.Replace(clitest.MemoryPolicy("Deny", ""), "enforcement:", "enforcment: a, remedi: b, enforcement:", 1)
	got := clitest.Call(t, clitest.VM+policy, "explain", "-f", "-", "-o", "table")
	const want = "standard input: document 2: VirtualMachinePolicy cap: spec.enforcment: Forbidden: is not a field of VirtualMachinePolicy: did you mean enforcement?"
	if got.ErrOut != "error: "+want+", and 1 more\n" || strings.Count(got.Out, "unreadable: ") != 2 {
		t.Errorf("errors %q in\n%s", got.ErrOut, got.Out)
	}
}

// TestTheSameObjectTwice: an equal object is a note.
func TestTheSameObjectTwice(t *testing.T) {
	for _, text := range []string{
		"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x}\n",
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
		"---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: x}\nspec: {template: {schedulerName: s}}\n",
	} {
		got := clitest.Call(t, clitest.VM+text+text, "explain", "-f", "-", "-o", "table")
		if want := "x: standard input: document 2 has the same"; got.Code != clitest.ExitOK || strings.Count(got.Out+got.ErrOut, want) != 1 {
			t.Errorf("code %d, want the note %q in\n%s%s", got.Code, want, got.Out, got.ErrOut)
		}
	}
}

// TestUnknownFieldsOfVirtualMachinesInOtherObjects covers the virtual machines that templates and pools create.
func TestUnknownFieldsOfVirtualMachinesInOtherObjects(t *testing.T) {
	const spec = "{runStrategy: Halted, template: {metadata: {labels: {a: b}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}, volumes: [{name: a, containerDisk: {image: registry.example/a, pullPolicy: Always}}]}}}"
	for text, path := range map[string]string{
		"apiVersion: template.kubevirt.io/v1beta1\nkind: VirtualMachineTemplate\nmetadata: {name: x}\nspec: {virtualMachine: {metadata: {name: y}, spec: " + spec + "}}\n":                                                                            "spec.virtualMachine.spec.template.spec.",
		"apiVersion: pool.kubevirt.io/v1beta1\nkind: VirtualMachinePool\nmetadata: {name: x}\nspec: {selector: {matchLabels: {a: b}}, virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: " + spec + "}}\n":                                    "spec.virtualMachineTemplate.spec.template.spec.",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstanceReplicaSet\nmetadata: {name: x}\nspec: {selector: {matchLabels: {a: b}}, template: " + strings.TrimSuffix(strings.TrimPrefix(spec, "{runStrategy: Halted, template: "), "}") + "}\n": "spec.template.spec.",
	} {
		want := path + "volumes[0].containerDisk.pullPolicy"
		got := clitest.Call(t, text, "explain", "-f", "-", "-o", "json")
		if got.Code != clitest.ExitFailed || !strings.Contains(got.Out, `"field": "`+want+`"`) || strings.Count(got.Out, "did you mean imagePullPolicy?") != 1 {
			t.Errorf("code %d, want one finding at %s in\n%s%s", got.Code, want, got.Out, got.ErrOut)
		}
	}
}
