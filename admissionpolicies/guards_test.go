package admissionpolicies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
)

// The chart carries a copy of every guard, and nothing else.
func TestChartCarriesTheGuards(t *testing.T) {
	const chart = "../charts/virtward/guards"
	embedded, charted := files(t, "."), files(t, chart)
	if diff := cmp.Diff(embedded, charted); diff != "" {
		t.Fatalf("the files in %s differ (-here +chart); run: go generate ./admissionpolicies\n%s", chart, diff)
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
	objects, err := admissionpolicies.Objects()
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
		"ValidatingAdmissionPolicy virtward-accounts",
		"ValidatingAdmissionPolicyBinding virtward-accounts of virtward-accounts: Deny",
		"ValidatingAdmissionPolicy virtward-copy-authors",
		"ValidatingAdmissionPolicyBinding virtward-copy-authors of virtward-copy-authors: Deny",
		"ValidatingAdmissionPolicy virtward-exempt-namespaces",
		"ValidatingAdmissionPolicyBinding virtward-exempt-namespaces of virtward-exempt-namespaces: Deny",
		"ValidatingAdmissionPolicy virtward-golden-image-catalogs",
		"ValidatingAdmissionPolicyBinding virtward-golden-image-catalogs of virtward-golden-image-catalogs: Deny",
		"ValidatingAdmissionPolicy virtward-golden-image-deletes",
		"ValidatingAdmissionPolicyBinding virtward-golden-image-deletes of virtward-golden-image-deletes: Deny",
		"ValidatingAdmissionPolicy virtward-golden-image-pointers",
		"ValidatingAdmissionPolicyBinding virtward-golden-image-pointers of virtward-golden-image-pointers: Deny",
		"ValidatingAdmissionPolicy virtward-golden-image-status",
		"ValidatingAdmissionPolicyBinding virtward-golden-image-status of virtward-golden-image-status: Deny",
		"ValidatingAdmissionPolicy virtward-golden-image-templates",
		"ValidatingAdmissionPolicyBinding virtward-golden-image-templates of virtward-golden-image-templates: Deny",
		"ValidatingAdmissionPolicy virtward-kubevirt-hypervisor-effect",
		"ValidatingAdmissionPolicyBinding virtward-kubevirt-hypervisor-effect of virtward-kubevirt-hypervisor-effect: Warn",
		"ValidatingAdmissionPolicy virtward-kubevirt-hypervisor",
		"ValidatingAdmissionPolicyBinding virtward-kubevirt-hypervisor of virtward-kubevirt-hypervisor: Deny",
		"ValidatingAdmissionPolicy virtward-node-labels",
		"ValidatingAdmissionPolicyBinding virtward-node-labels of virtward-node-labels: Deny",
		"ValidatingAdmissionPolicy virtward-policies",
		"ValidatingAdmissionPolicyBinding virtward-policies of virtward-policies: Deny",
		"ValidatingAdmissionPolicy virtward-policy-exceptions",
		"ValidatingAdmissionPolicyBinding virtward-policy-exceptions of virtward-policy-exceptions: Deny",
		"ValidatingAdmissionPolicy virtward-policy-status",
		"ValidatingAdmissionPolicyBinding virtward-policy-status of virtward-policy-status: Deny",
		"ValidatingAdmissionPolicy virtward-rollout-status",
		"ValidatingAdmissionPolicyBinding virtward-rollout-status of virtward-rollout-status: Deny",
		"ValidatingAdmissionPolicy virtward-rollouts",
		"ValidatingAdmissionPolicyBinding virtward-rollouts of virtward-rollouts: Deny",
		"ValidatingAdmissionPolicy virtward-rule-settings",
		"ValidatingAdmissionPolicyBinding virtward-rule-settings of virtward-rule-settings: Deny",
		"ValidatingAdmissionPolicy virtward-snapshot-contents",
		"ValidatingAdmissionPolicyBinding virtward-snapshot-contents of virtward-snapshot-contents: Deny",
		"ValidatingAdmissionPolicy virtward-template-approved-only",
		"ValidatingAdmissionPolicyBinding virtward-template-approved-only of virtward-template-approved-only: Deny",
		"ValidatingAdmissionPolicy virtward-template-capture",
		"ValidatingAdmissionPolicyBinding virtward-template-capture of virtward-template-capture: Deny",
		"ValidatingAdmissionPolicy virtward-template-cluster-kinds",
		"ValidatingAdmissionPolicyBinding virtward-template-cluster-kinds of virtward-template-cluster-kinds: Deny",
		"ValidatingAdmissionPolicy virtward-template-export",
		"ValidatingAdmissionPolicyBinding virtward-template-export of virtward-template-export: Deny",
		"ValidatingAdmissionPolicy virtward-template-export-status",
		"ValidatingAdmissionPolicyBinding virtward-template-export-status of virtward-template-export-status: Deny",
		"ValidatingAdmissionPolicy virtward-template-export-labels",
		"ValidatingAdmissionPolicyBinding virtward-template-export-labels of virtward-template-export-labels: Deny",
		"ValidatingAdmissionPolicy virtward-template-export-pods",
		"ValidatingAdmissionPolicyBinding virtward-template-export-pods of virtward-template-export-pods: Deny",
		"ValidatingAdmissionPolicy virtward-template-export-servers",
		"ValidatingAdmissionPolicyBinding virtward-template-export-servers of virtward-template-export-servers: Deny",
		"ValidatingAdmissionPolicy virtward-template-export-objects",
		"ValidatingAdmissionPolicyBinding virtward-template-export-objects of virtward-template-export-objects: Deny",
		"ValidatingAdmissionPolicy virtward-template-import",
		"ValidatingAdmissionPolicyBinding virtward-template-import of virtward-template-import: Deny",
		"ValidatingAdmissionPolicy virtward-template-import-status",
		"ValidatingAdmissionPolicyBinding virtward-template-import-status of virtward-template-import-status: Deny",
		"ValidatingAdmissionPolicy virtward-template-import-labels",
		"ValidatingAdmissionPolicyBinding virtward-template-import-labels of virtward-template-import-labels: Deny",
		"ValidatingAdmissionPolicy virtward-template-import-pods",
		"ValidatingAdmissionPolicyBinding virtward-template-import-pods of virtward-template-import-pods: Deny",
		"ValidatingAdmissionPolicy virtward-template-import-servers",
		"ValidatingAdmissionPolicyBinding virtward-template-import-servers of virtward-template-import-servers: Deny",
		"ValidatingAdmissionPolicy virtward-template-import-objects",
		"ValidatingAdmissionPolicyBinding virtward-template-import-objects of virtward-template-import-objects: Deny",
		"ValidatingAdmissionPolicy virtward-template-namespaces",
		"ValidatingAdmissionPolicyBinding virtward-template-namespaces of virtward-template-namespaces: Deny",
		"ValidatingAdmissionPolicy virtward-template-provenance",
		"ValidatingAdmissionPolicyBinding virtward-template-provenance of virtward-template-provenance: Deny",
		"ValidatingAdmissionPolicy virtward-template-request-labels",
		"ValidatingAdmissionPolicyBinding virtward-template-request-labels of virtward-template-request-labels: Deny",
		"ValidatingAdmissionPolicy virtward-template-status",
		"ValidatingAdmissionPolicyBinding virtward-template-status of virtward-template-status: Deny",
		"ValidatingAdmissionPolicy virtward-virtual-images",
		"ValidatingAdmissionPolicyBinding virtward-virtual-images of virtward-virtual-images: Deny",
		"ValidatingAdmissionPolicy virtward-virtual-image-status",
		"ValidatingAdmissionPolicyBinding virtward-virtual-image-status of virtward-virtual-image-status: Deny",
		"ValidatingAdmissionPolicy virtward-virtual-image-copies",
		"ValidatingAdmissionPolicyBinding virtward-virtual-image-copies of virtward-virtual-image-copies: Deny",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("guards (-want +got):\n%s", diff)
	}
}

// TestKubeSystem holds that guards of the objects of Kubernetes do not match those of kube-system, so that the cluster starts whatever is wrong
// with them.
func TestKubeSystem(t *testing.T) {
	unselected := map[string]string{
		admissionpolicies.TemplateApprovedOnly: "it selects the namespaces with its label",
		admissionpolicies.TemplateImportLabels: "the condition matches the label only, and a controller trusts no guard that leaves out a namespace",
		admissionpolicies.TemplateExportLabels: "as above",
	}
	var selected []string
	for name, object := range policies(t) {
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			t.Fatal(err)
		}
		of := slices.ContainsFunc(policy.Spec.MatchConstraints.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
			clusterWide := slices.Contains([]string{"namespaces", "nodes"}, r.Resources[0])
			return slices.ContainsFunc(r.APIGroups, func(group string) bool {
				return slices.Contains([]string{"", "apps", "discovery.k8s.io", "networking.k8s.io"}, group)
			}) && !clusterWide
		})
		account := slices.ContainsFunc(policy.Spec.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == "own-account" })
		if !of || account || unselected[name] != "" {
			continue
		}
		selected = append(selected, name)
		want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}}
		if diff := cmp.Diff(want, policy.Spec.MatchConstraints.NamespaceSelector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	slices.Sort(selected)
	want := []string{admissionpolicies.TemplateExportPods, admissionpolicies.TemplateExportServers, admissionpolicies.TemplateImportPods, admissionpolicies.TemplateImportServers}
	if diff := cmp.Diff(want, selected); diff != "" {
		t.Errorf("guards of objects of Kubernetes (-want +got):\n%s", diff)
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
	for _, name := range []string{admissionpolicies.KubeVirtHypervisor, admissionpolicies.KubeVirtHypervisorEffect} {
		policy := policies(t)[name]
		t.Run(policy.GetName(), func(t *testing.T) {
			var known []string
			literal(t, variable(t, policy, "known"), &known)
			if diff := cmp.Diff(platform.HypervisorNames(), known); diff != "" {
				t.Errorf("variable known (-platform +policy):\n%s", diff)
			}
			if policy.GetName() != admissionpolicies.KubeVirtHypervisor {
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
	for _, name := range []string{admissionpolicies.KubeVirtHypervisor, admissionpolicies.KubeVirtHypervisorEffect} {
		policy := policies(t)[name]
		gate := variable(t, policy, "gateOpen")
		if n := strings.Count(gate, "'"+platform.GateConfigurableHypervisor+"'"); n != 1 {
			t.Errorf("%s: variable gateOpen names the gate %s %d times, not once", policy.GetName(), platform.GateConfigurableHypervisor, n)
		}
	}
	deny := policies(t)[admissionpolicies.KubeVirtHypervisor]
	if confirmation := variable(t, deny, "confirmation"); !strings.Contains(confirmation, "'"+admissionpolicies.AnnotationConfirmHypervisor+"'") {
		t.Errorf("variable confirmation does not read %s: %s", admissionpolicies.AnnotationConfirmHypervisor, confirmation)
	}
}

// The guard of the RuleSettings knows the rules that are marked security-relevant, and asks for the verb.
func TestSecurityRelevantRules(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	var marked, known []string
	for _, rule := range registry.Rules() {
		if rule.Security {
			marked = append(marked, rule.ID)
		}
	}
	slices.Sort(marked)
	policy := policies(t)[admissionpolicies.RuleSettings]
	literal(t, variable(t, policy, "security"), &known)
	if diff := cmp.Diff(marked, known); diff != "" || len(known) == 0 {
		t.Errorf("variable security (-rules +policy); run: go generate ./admissionpolicies\n%s", diff)
	}
	asked := fmt.Sprintf("group('%s').resource('rulesettings').name(variables.name).check('%s')", policyv1alpha1.GroupVersion.Group, policyv1alpha1.VerbWeaken)
	if right := variable(t, policy, "mayWeaken"); !strings.Contains(right, asked) {
		t.Errorf("variable mayWeaken does not ask for %s: %s", asked, right)
	}
	if failure, _, _ := unstructured.NestedString(policy.Object, "spec", "failurePolicy"); failure != "Fail" {
		t.Errorf("the failure policy is %s: a guard that fails must not let anything pass", failure)
	}
}

// Every kind of request and of user is allowed once and denied once, where that can be.
func TestRuleSettingsCases(t *testing.T) {
	cases, err := admissionpolicies.RuleSettingsCases()
	if err != nil {
		t.Fatal(err)
	}
	seen, asked := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("case %q: the name is missing or taken", c.Name)
		}
		seen[c.Name] = true
		operation := "update"
		switch {
		case c.Old == nil && c.New == nil:
			t.Errorf("case %q: nothing is requested", c.Name)
		case c.Old == nil:
			operation = "create"
		case c.New == nil:
			operation = "delete"
		}
		asked[fmt.Sprintf("%s %s denied=%t", operation, c.User, c.Denied != "")] = true
	}
	for _, operation := range []string{"create", "update", "delete"} {
		for _, want := range []string{"editor denied=false", "editor denied=true", "weakener denied=false"} {
			if !asked[operation+" "+want] {
				t.Errorf("there is no case of %s %s", operation, want)
			}
		}
	}
	for _, want := range []string{"create weakener-of-exceptions denied=false", "create weakener-of-exceptions denied=true"} {
		if !asked[want] {
			t.Errorf("there is no case of %s", want)
		}
	}
}

// The guard of the policies asks for the verb and knows the words that its kind has.
func TestPolicyWords(t *testing.T) {
	policy := policies(t)[admissionpolicies.Policies]
	if failure, _, _ := unstructured.NestedString(policy.Object, "spec", "failurePolicy"); failure != "Fail" {
		t.Errorf("the failure policy is %s: a guard that fails must not let anything pass", failure)
	}
	validations, _, err := unstructured.NestedSlice(policy.Object, "spec", "validations")
	if err != nil || len(validations) != 3 {
		t.Fatalf("%d validations, %v", len(validations), err)
	}
	expression := validations[0].(map[string]any)["expression"].(string)
	asked := fmt.Sprintf("group('%s').resource('virtualmachinepolicies').name(variables.name).check('%s')", policyv1alpha1.GroupVersion.Group, policyv1alpha1.VerbEnforce)
	if !strings.Contains(expression, asked) {
		t.Errorf("the first validation does not ask for %s: %s", asked, expression)
	}
	word := fmt.Sprintf("== '%s'", policyv1alpha1.PolicyDeny)
	for _, name := range []string{"denies", "denied"} {
		if text := variable(t, policy, name); !strings.Contains(text, word) {
			t.Errorf("variable %s does not know the enforcement %s: %s", name, policyv1alpha1.PolicyDeny, text)
		}
	}
}

// Every kind of request is allowed and denied to an author, and allowed to an enforcer.
func TestPolicyCases(t *testing.T) {
	cases, err := admissionpolicies.PolicyCases()
	if err != nil {
		t.Fatal(err)
	}
	seen, asked := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("case %q: the name is missing or taken", c.Name)
		}
		seen[c.Name] = true
		operation := "update"
		switch {
		case c.Old == nil && c.New == nil:
			t.Errorf("case %q: nothing is requested", c.Name)
		case c.Old == nil:
			operation = "create"
		case c.New == nil:
			operation = "delete"
		}
		asked[fmt.Sprintf("%s %s denied=%t", operation, c.User, c.Denied != "")] = true
	}
	for _, operation := range []string{"create", "update", "delete"} {
		for _, want := range []string{"author denied=false", "author denied=true", "enforcer denied=false"} {
			if !asked[operation+" "+want] {
				t.Errorf("there is no case of %s %s", operation, want)
			}
		}
	}
	for _, want := range []string{
		"create enforcer-of-caps denied=false", "create enforcer-of-caps denied=true",
		"create reader denied=false", "create reader denied=true",
	} {
		if !asked[want] {
			t.Errorf("there is no case of %s", want)
		}
	}
}

// What is switched off stays so when its conditions change, and nothing else is taken over.
func TestKeepDisabled(t *testing.T) {
	condition := func(name string) admissionregistrationv1.MatchCondition {
		return admissionregistrationv1.MatchCondition{Name: name, Expression: "false"}
	}
	list := func(names ...string) []admissionregistrationv1.MatchCondition {
		var all []admissionregistrationv1.MatchCondition
		for _, name := range names {
			all = append(all, condition(name))
		}
		return all
	}
	for _, c := range []struct {
		wanted, there, want []admissionregistrationv1.MatchCondition
	}{
		{nil, nil, nil},
		{list("a"), list("b"), list("a")},
		{list("a"), list("b", admissionpolicies.Disabled), list("a", admissionpolicies.Disabled)},
		{list("a"), list(admissionpolicies.Disabled, "b"), list("a", admissionpolicies.Disabled)},
		{nil, list(admissionpolicies.Disabled), list(admissionpolicies.Disabled)},
	} {
		shared := append(make([]admissionregistrationv1.MatchCondition, 0, 8), c.wanted...)
		if diff := cmp.Diff(c.want, admissionpolicies.KeepDisabled(shared, c.there), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v and %v (-want +got):\n%s", c.wanted, c.there, diff)
		}
		if rest := shared[:len(shared)+1]; rest[len(shared)].Name != "" {
			t.Errorf("the list that was given is written into: %v", rest)
		}
	}
}

// Every rule of the guards is the subject of a case that fails it and of one that passes.
func TestCases(t *testing.T) {
	cases, err := admissionpolicies.Cases()
	if err != nil {
		t.Fatal(err)
	}
	schemas := []admissionpolicies.Schema{admissionpolicies.SchemaKubeVirt, admissionpolicies.SchemaVEP97, admissionpolicies.SchemaOpen, admissionpolicies.SchemaOld}
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
	objects, err := admissionpolicies.Objects()
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

// TestExpressionsOfPolicies lists the fields of a policy that are expressions in CEL. The guard of policies searches each for authorizer,
// and cases/policies.yaml has a case for each: a new one needs both.
func TestExpressionsOfPolicies(t *testing.T) {
	var expressions []string
	var walk func(of reflect.Type, path string)
	walk = func(of reflect.Type, path string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || !strings.HasPrefix(of.PkgPath(), "github.com/virtward/") {
			return
		}
		for _, f := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Type.Kind() == reflect.String && strings.HasSuffix(strings.ToLower(name), "expression") {
				expressions = append(expressions, path+"."+name)
			}
			walk(f.Type, path+"."+name)
		}
	}
	walk(reflect.TypeFor[policyv1alpha1.VirtualMachinePolicySpec](), "spec")
	slices.Sort(expressions)
	want := []string{"spec.match.matchConditions.expression", "spec.validations.expression", "spec.validations.messageExpression", "spec.variables.expression"}
	if diff := cmp.Diff(want, expressions); diff != "" {
		t.Errorf("expressions (-want +got):\n%s", diff)
	}
}
