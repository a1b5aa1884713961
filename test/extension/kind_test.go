package extension_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/evaluator"
)

// machinePart is a part of Virtward that each kind with a virtual machine needs.
type machinePart struct {
	name string
	has  func(t *testing.T, m *apikinds.Machine) bool
}

// machineParts are these parts, with the file that a new kind changes.
var machineParts = []machinePart{
	{"functions of the evaluator: evaluator/kinds.go", func(_ *testing.T, m *apikinds.Machine) bool {
		info, known := evaluator.Info(m.GroupKind())
		return known && info.Machine && info.Type == m.Type
	}},
	{"type of expressions: cel/gen", func(t *testing.T, m *apikinds.Machine) bool {
		_, err := os.Stat(fromRoot("cel", "schemas", m.Kind+".json"))
		return slices.Contains(cel.Kinds(), m.Kind) && (m.Parameters || err == nil)
	}},
	{"decision of the guards: admissionpolicies/kinds.go", func(_ *testing.T, m *apikinds.Machine) bool {
		return slices.ContainsFunc(admissionpolicies.GuestKinds(), func(k admissionpolicies.GuestKind) bool {
			return k.GroupKind == m.GroupKind() && k.Resource == m.Plural && k.Guard != ""
		})
	}},
	{"guard of the annotations: admissionpolicies/template-provenance.yaml", func(t *testing.T, m *apikinds.Machine) bool {
		return m.Makes != apikinds.VirtualMachine || m.Parameters || names(t, m.Plural, "admissionpolicies", "template-provenance.yaml")
	}},
	{"kind of policies: api/policy/v1alpha1/virtualmachinepolicy.go", func(t *testing.T, m *apikinds.Machine) bool {
		return !m.Policies || slices.Contains(policyKinds(t), m.Kind)
	}},
	{"rule of the webhook: charts/virtward/templates/_kinds.tpl", func(t *testing.T, m *apikinds.Machine) bool {
		if m.Parameters {
			return names(t, m.Plural, "charts", "virtward", "templates", "validatingwebhookconfiguration.yaml")
		}
		return included(t, "validated", "validatingwebhookconfiguration.yaml", m.Plural) &&
			(!m.Scale || included(t, "scaled", "validatingwebhookconfiguration.yaml", m.Plural+"/scale")) &&
			(!m.Native() || included(t, "deleted", "validatingwebhookconfiguration.yaml", m.Plural))
	}},
	{"rule of the roles: charts/virtward/templates/_kinds.tpl", func(t *testing.T, m *apikinds.Machine) bool {
		return included(t, "audited", "controller-rbac.yaml", m.Plural) && (m.Parameters || included(t, "read", "rbac.yaml", m.Plural))
	}},
	{"line of the guards: docs/template-approval.md", func(t *testing.T, m *apikinds.Machine) bool {
		return names(t, fmt.Sprintf("| %s (`%s`) |", m.Kind, m.Group), "docs", "template-approval.md")
	}},
	{"line of the audit: docs/audit.md", func(t *testing.T, m *apikinds.Machine) bool {
		return names(t, m.Kind, "docs", "audit.md")
	}},
	{"line of the author: docs/policy-requests.md", func(t *testing.T, m *apikinds.Machine) bool {
		return m.Makes == "" || m.Kind == apikinds.VirtualMachine || names(t, fmt.Sprintf("| %s | `%s` |", m.Kind, m.Template), "docs", "policy-requests.md")
	}},
}

// TestKindsAreComplete: each kind that carries a virtual machine has all parts.
func TestKindsAreComplete(t *testing.T) {
	for _, m := range apikinds.Machines() {
		if missing := lacking(t, &m); len(missing) > 0 {
			t.Errorf("%s in api/apikinds/machines.go has no\n  %s", m.Kind, strings.Join(missing, "\n  "))
		}
	}
}

// TestKindsNeedEachPart: a kind that is only in the table lacks every part.
func TestKindsNeedEachPart(t *testing.T) {
	fleet := apikinds.Machine{
		Resource: apikinds.Resource{GroupVersionKind: schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "VirtualMachineFleet"}, Plural: "virtualmachinefleets"},
		Versions: []string{"v1"}, Makes: apikinds.VirtualMachine, Template: "spec.virtualMachineTemplate", Policies: true, Scale: true,
	}
	var all []string
	for _, part := range machineParts {
		all = append(all, part.name)
	}
	if diff := cmp.Diff(all, lacking(t, &fleet)); diff != "" {
		t.Errorf("parts that a new kind lacks (-want +got):\n%s", diff)
	}
}

// lacking returns the parts that a kind does not have.
func lacking(t *testing.T, m *apikinds.Machine) (missing []string) {
	t.Helper()
	for _, part := range machineParts {
		if !part.has(t, m) {
			missing = append(missing, part.name)
		}
	}
	return missing
}

func fromRoot(path ...string) string { return filepath.Join(append([]string{"..", ".."}, path...)...) }

// content returns a file of the tree.
func content(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(fromRoot(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names reports whether a word is in a file.
func names(t *testing.T, word string, path ...string) bool {
	t.Helper()
	isPart := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	for rest := content(t, path...); ; {
		before, after, found := strings.Cut(rest, word)
		if !found {
			return false
		}
		if strings.TrimRightFunc(before, isPart) == before && (after == "" || !isPart(rune(after[0]))) {
			return true
		}
		rest = after
	}
}

// included reports whether the rules of a name, which a template of the chart includes, have a resource.
func included(t *testing.T, name, file, resource string) bool {
	t.Helper()
	if !strings.Contains(content(t, "charts", "virtward", "templates", file), `include "virtward.kinds.`+name+`"`) {
		return false
	}
	_, rest, found := strings.Cut(content(t, "charts", "virtward", "templates", "_kinds.tpl"), `define "virtward.kinds.`+name+`" -}}`)
	rules, _, ended := strings.Cut(rest, "{{- end }}")
	var parsed []struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(rules), &parsed); err != nil || !found || !ended {
		t.Fatalf("the rules %s of the chart cannot be read: %v", name, err)
	}
	for _, rule := range parsed {
		if slices.Contains(rule.Resources, resource) {
			return true
		}
	}
	return false
}

// policyKinds are the kinds that the definition of VirtualMachinePolicies allows.
func policyKinds(t *testing.T) (kinds []string) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(content(t, "api", "policy", "v1alpha1", "definitions", "policy.virtward.io_virtualmachinepolicies.yaml")), definition); err != nil {
		t.Fatal(err)
	}
	match := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["match"]
	for _, value := range match.Properties["kinds"].Items.Schema.Enum {
		kinds = append(kinds, strings.Trim(string(value.Raw), `"`))
	}
	return kinds
}
