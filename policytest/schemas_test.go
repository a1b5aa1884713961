package policytest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/validators"
)

// TestSchemas covers what an API server rejects in the objects of a suite, before a policy is evaluated.
func TestSchemas(t *testing.T) {
	for _, c := range []struct {
		name, one string
		files     map[string]string
		options   policytest.Options
		want      []string
	}{
		{
			name: "a value that the schema excludes", one: "patches: [{op: add, path: /spec/template/spec/tolerations, value: [{tolerationSeconds: 1.5}]}]\nexpect: {verdict: allowed}",
			want: []string{"broken", "vm.yaml:7:5: spec.template.spec.tolerations[0].tolerationSeconds: is the number 1.5 where a whole number is expected"},
		},
		{
			name: "a CEL rule", one: "patches: [{op: add, path: /spec/template/spec/volumes, value: [{name: a, containerPath: {path: etc}}]}]\nexpect: {verdict: allowed}",
			want: []string{"failed", `vm.yaml:7:5: spec.template.spec.volumes[0].containerPath.path: Invalid value: "etc": path must be absolute (start with '/') [virtward/schema]`},
		},
		{
			name: "a required object", one: "patches: [{op: remove, path: /spec/template/spec/domain/devices}]\nexpect: {verdict: allowed}",
			want: []string{"failed", "vm.yaml:10:9: spec.template.spec.domain.devices: Required value: KubeVirt's webhook rejects an object without it [virtward/schema]"},
		},
		{
			name: "a name", one: "patches: [{op: replace, path: /metadata/name, value: My_VM}]\nexpect: {verdict: allowed}",
			want: []string{"failed", `vm.yaml:3:12: metadata.name: Invalid value: "My_VM": a lowercase RFC 1123 subdomain must consist of`},
		},
		{name: "a deletion is not validated", one: "operation: DELETE\npatches: [{op: remove, path: /spec/template/spec/domain/devices}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{
			name: "an unknown field warns", one: "patches: [{op: add, path: /spec/templat, value: {}}]\nexpect: {verdict: allowed}", options: policytest.Options{UnknownFields: validators.Warn},
			want: []string{"passed", "note: vm.yaml:4:1: spec.templat: Forbidden: is not a field of VirtualMachine: did you mean template? [virtward/unknown-field]"},
		},
		{
			name: "an unknown field of the old object", one: "oldPatches: [{op: add, path: /spec/templat, value: {}}]\nexpect: {verdict: allowed}",
			want: []string{"failed", "vm.yaml:4:1: spec.templat: Forbidden: is not a field of VirtualMachine: did you mean template? [virtward/unknown-field]"},
		},
		{
			name: "an unknown field of another object", one: "objects: [{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: a}, spec: {cpu: {gest: 1, guest: 1}, memory: {guest: 1Gi}}}]\nexpect: {verdict: allowed}",
			want: []string{"failed", "s.yaml:10:137: spec.cpu.gest: Forbidden: is not a field of VirtualMachineClusterInstancetype: did you mean guest? [virtward/unknown-field]"},
		},
		{
			name: "a required field of another object", one: "objects: [{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterInstancetype, metadata: {name: a}, spec: {cpu: {guest: 1}}}]\nexpect: {verdict: allowed}",
			want: []string{"failed", "s.yaml:10:124: spec.memory: Required value [virtward/schema]"},
		},
		{name: "an instance that runs is written in part", one: "objects: [{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: a}, status: {phase: Running}}]\nexpect: {verdict: allowed}", want: []string{"passed"}},
		{
			name: "a kind without a schema warns", one: "objects: [{kind: Namespace, apiVersion: v1, metadata: {name: a, lables: {}}}]\nexpect: {verdict: allowed}", options: policytest.Options{UnknownFields: validators.Warn},
			want: []string{"passed", "note: s.yaml:10:69: metadata.lables: unknown field: did you mean labels?"},
		},
		{
			name: "a field of a later version", one: "objects: [{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: k, namespace: kubevirt}, status: {observedKubeVirtVersion: v1.6.0}}]\npatches: [{op: add, path: /spec/template/spec/utilityVolumes, value: [{name: a, claimName: b}]}]\nexpect: {verdict: allowed}",
			want: []string{"passed", "note: vm.yaml:7:5: spec.template.spec.utilityVolumes: Forbidden: is not a field of VirtualMachine in KubeVirt 1.6; KubeVirt"},
		},
		{
			name: "a field of a virtual machine in a template", one: "object: template.yaml\nexpect: {verdict: allowed}", files: map[string]string{"template.yaml": strings.Replace(templateOf16, "runStrategy:", "runStrat: a, runStrategy:", 1)},
			want: []string{"failed", "template.yaml:7:12: spec.virtualMachine.spec.runStrat: Forbidden: is not a field of VirtualMachine: did you mean runStrategy? [virtward/unknown-field]"},
		},
		{
			name: "what is unknown", one: "patches: [{op: add, path: /spec/preference, value: {name: x}}, {op: add, path: /spec/template/spec/networks, value: [{name: lan, multus: {networkName: lan}}]}, {op: add, path: /spec/dataVolumeTemplates, value: [{metadata: {name: d}, spec: {storage: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}, source: {blank: {}}}}]}]\nexpect: {verdict: allowed}", options: policytest.Options{Strict: true},
			want: []string{
				"failed", "vm.yaml:4:1: spec.preference: VirtualMachineClusterPreference x is not among the objects",
				"vm.yaml:4:1: spec.dataVolumeTemplates[0].spec.storage.storageClassName: StorageClass fast is not among the objects",
				"vm.yaml:7:5: spec.template.spec.networks[0].multus.networkName: NetworkAttachmentDefinition lan is not among the objects",
				"note: spec.preference: there is no VirtualMachineClusterPreference x; the VM is evaluated without it",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := map[string]string{"policy.yaml": asking("true", ""), "vm.yaml": vmOf4Gi}
			maps.Copy(texts, c.files)
			texts["s.yaml"] = head + "  cases:\n  - name: c\n    " + strings.ReplaceAll(c.one, "\n", "\n    ") + "\n"
			got := only(t, texts, c.options)
			said := append([]string{string(got.Status)}, got.Reasons...)
			for _, note := range got.Notes {
				said = append(said, "note: "+note)
			}
			if !slices.EqualFunc(c.want, said, func(want, got string) bool { return strings.HasPrefix(got, want) }) {
				t.Errorf("(-want +got):\n%s\n%s", cmp.Diff(c.want, said), texts["s.yaml"])
			}
		})
	}
}

// TestOtherCasesAreEvaluated: an object with an error fails its case, and no other.
func TestOtherCasesAreEvaluated(t *testing.T) {
	report := evaluate(t).Run(t.Context(), load(t, map[string]string{"policy.yaml": memoryPolicy, "vm.yaml": vmOf4Gi, "s.yaml": head + `  cases:
  - {name: wrong, patches: [{op: add, path: /spec/templat, value: {}}], expect: {verdict: allowed}}
  - {name: right, expect: {verdict: allowed}}
`}), policytest.Options{})
	if got := fmt.Sprint(report.Counts()); got != "1 passed, 1 failed" {
		t.Error(got)
	}
}

// TestSelectByLabels runs the tests of policies with a label.
func TestSelectByLabels(t *testing.T) {
	labelled := strings.Replace(memoryPolicy, "{name: memory}", "{name: labelled, labels: {team: a}}", 1)
	suites := load(t, map[string]string{"policy.yaml": memoryPolicy, "labelled.yaml": labelled, "vm.yaml": vmOf4Gi, "s.yaml": head + `  cases: [{name: a, expect: {verdict: allowed}}]
- name: u
  policies: [labelled.yaml]
  base: vm.yaml
  cases: [{name: b, expect: {verdict: allowed}}]
`})
	for selector, want := range map[string]int{"": 2, "team=a": 1, "team!=a": 1, "team=b": 0} {
		parsed, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := evaluate(t).Run(t.Context(), suites, policytest.Options{Policies: parsed}).Counts().Total(); got != want {
			t.Errorf("%q: %d cases, want %d", selector, got, want)
		}
	}
}
