package guards_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/cel/guards"
	"github.com/virtward/virtward/platform"
)

// The chart carries a copy of every guard, and nothing else.
func TestChartCarriesTheGuards(t *testing.T) {
	const chart = "../../charts/virtward/guards"
	ours, theirs := files(t, "."), files(t, chart)
	if diff := cmp.Diff(ours, theirs); diff != "" {
		t.Fatalf("the files in %s differ (-here +chart); run: go generate ./cel/guards\n%s", chart, diff)
	}
}

func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		contents[filepath.Base(name)] = string(content)
	}
	return contents
}

// Each policy has a binding of its name, and says who it is by that name.
func TestObjects(t *testing.T) {
	objects, err := guards.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range objects {
		action := ""
		if object.GetKind() == "ValidatingAdmissionPolicyBinding" {
			policy, _, _ := unstructured.NestedString(object.Object, "spec", "policyName")
			actions, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "validationActions")
			action = fmt.Sprintf(" of %s: %s", policy, strings.Join(actions, ","))
		}
		got = append(got, object.GetKind()+" "+object.GetName()+action)
	}
	want := []string{
		"ValidatingAdmissionPolicy virtward-kubevirt-hypervisor-effect",
		"ValidatingAdmissionPolicyBinding virtward-kubevirt-hypervisor-effect of virtward-kubevirt-hypervisor-effect: Warn",
		"ValidatingAdmissionPolicy virtward-kubevirt-hypervisor",
		"ValidatingAdmissionPolicyBinding virtward-kubevirt-hypervisor of virtward-kubevirt-hypervisor: Deny",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("guards (-want +got):\n%s", diff)
	}
}

// The guards know the hypervisors that the platform knows, and nothing else about them.
func TestKnownHypervisors(t *testing.T) {
	engines := map[string]string{}
	for _, name := range platform.HypervisorNames() {
		hypervisor, err := platform.HypervisorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		engines[name] = hypervisor.Name
	}
	for _, policy := range policies(t) {
		t.Run(policy.GetName(), func(t *testing.T) {
			var known []string
			literal(t, variable(t, policy, "known"), &known)
			if diff := cmp.Diff(platform.HypervisorNames(), known); diff != "" {
				t.Errorf("variable known (-platform +policy):\n%s", diff)
			}
			if policy.GetName() != guards.KubeVirtHypervisor {
				return
			}
			var got map[string]string
			literal(t, variable(t, policy, "engines"), &got)
			if diff := cmp.Diff(engines, got); diff != "" {
				t.Errorf("variable engines (-platform +policy):\n%s", diff)
			}
		})
	}
}

// The gate and the annotation have one spelling.
func TestNames(t *testing.T) {
	for _, policy := range policies(t) {
		gate := variable(t, policy, "gateOpen")
		if n := strings.Count(gate, "'"+platform.GateConfigurableHypervisor+"'"); n != 1 {
			t.Errorf("%s: variable gateOpen names the gate %s %d times, not once", policy.GetName(), platform.GateConfigurableHypervisor, n)
		}
	}
	deny := policies(t)[guards.KubeVirtHypervisor]
	if confirmation := variable(t, deny, "confirmation"); !strings.Contains(confirmation, "'"+guards.AnnotationConfirmHypervisor+"'") {
		t.Errorf("variable confirmation does not read %s: %s", guards.AnnotationConfirmHypervisor, confirmation)
	}
}

// Every rule of the guards is the subject of a case that fails it and of one that passes.
func TestCases(t *testing.T) {
	cases, err := guards.Cases()
	if err != nil {
		t.Fatal(err)
	}
	schemas := []guards.Schema{guards.SchemaKubeVirt, guards.SchemaVEP97, guards.SchemaOpen, guards.SchemaOld}
	seen, said := map[string]bool{}, &bytes.Buffer{}
	for _, c := range cases {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("case %q: the name is missing or taken", c.Name)
		}
		seen[c.Name] = true
		if !slices.Contains(schemas, c.Schema) {
			t.Errorf("case %q: unknown schema %q", c.Name, c.Schema)
		}
		if c.Old == nil && (c.Status || c.Deleting) {
			t.Errorf("case %q: status and deleting need an old object", c.Name)
		}
		fmt.Fprintln(said, c.Denied, c.Warnings)
	}
	for _, rule := range []string{"hypervisor-single", "hypervisor-known", "hypervisor-change", "hypervisor-gate"} {
		if !bytes.Contains(said.Bytes(), []byte(rule+": ")) {
			t.Errorf("no case fails the rule %s", rule)
		}
	}
}

func policies(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := guards.Objects()
	if err != nil {
		t.Fatal(err)
	}
	policies := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		if object.GetKind() == "ValidatingAdmissionPolicy" {
			policies[object.GetName()] = object
		}
	}
	return policies
}

func variable(t *testing.T, policy *unstructured.Unstructured, name string) string {
	t.Helper()
	variables, _, err := unstructured.NestedSlice(policy.Object, "spec", "variables")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		if fields, ok := v.(map[string]any); ok && fields["name"] == name {
			return fields["expression"].(string)
		}
	}
	t.Fatalf("policy %s has no variable %s", policy.GetName(), name)
	return ""
}

// literal reads a CEL list or map of strings, which is JSON but for its quotes.
func literal(t *testing.T, expression string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(strings.ReplaceAll(expression, "'", `"`)), into); err != nil {
		t.Fatalf("%s is not a literal: %v", expression, err)
	}
}
