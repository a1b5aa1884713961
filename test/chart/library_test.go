package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	creation "github.com/virtward/virtward/controllers/library"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/controlplane"
)

const kindPolicy = "VirtualMachinePolicy"

// everyReference are the kinds of objects that policies can read, if a value enables them.
const everyReference = `["configmaps","datasources","datavolumes","networkattachmentdefinitions","persistentvolumeclaims","storageclasses"]`

// policyKind is what an API server has once the definitions are installed.
var policyKind = []string{"policy.virtward.io/v1alpha1/" + kindPolicy}

// installedPolicies are the policies among objects, by name.
func installedPolicies(t *testing.T, objects []client.Object) map[string]*policyv1alpha1.VirtualMachinePolicy {
	t.Helper()
	found := map[string]*policyv1alpha1.VirtualMachinePolicy{}
	for _, object := range every[*unstructured.Unstructured](objects) {
		if object.GetKind() != kindPolicy {
			continue
		}
		checkLabels(t, object)
		policy := &policyv1alpha1.VirtualMachinePolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, policy, true); err != nil {
			t.Fatalf("%s: %v", object.GetName(), err)
		}
		found[policy.Name] = policy
	}
	return found
}

func checkLabels(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if got := object.GetLabels()["app.kubernetes.io/part-of"]; got != "virtward" || object.GetNamespace() != "" {
		t.Errorf("%s is part of %q, in the namespace %q", object.GetName(), got, object.GetNamespace())
	}
}

// Every policy of the library can be installed; it is the one of the library, but that it only reports.
func TestLibrary(t *testing.T) {
	env, err := cel.NewEnvironment()
	must(t, err)
	chosen := map[string]any{}
	for _, entry := range library.All() {
		chosen[entry.Name] = map[string]any{}
	}
	values, err := json.Marshal(chosen)
	must(t, err)
	got := installedPolicies(t, renderFor(t, policyKind, "library.policies="+string(values), "policies.references="+everyReference))
	if len(got) != len(chosen) {
		t.Errorf("%d policies of %d are installed", len(got), len(chosen))
	}
	for _, entry := range library.All() {
		policy := got[entry.Name]
		if policy == nil {
			t.Errorf("%s is not installed", entry.Name)
			continue
		}
		want := entry.Policy.DeepCopy()
		want.Spec.Enforcement = policyv1alpha1.PolicyAudit
		if diff := cmp.Diff(inJSON(t, want.Spec), inJSON(t, policy.Spec)); diff != "" {
			t.Errorf("%s (-library +chart):\n%s", entry.Name, diff)
		}
		if _, problems := policies.Compile(env, policy, nil); len(problems) > 0 {
			t.Errorf("%s: %v", entry.Name, problems)
		}
	}
}

func inJSON(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	var plain any
	must(t, json.Unmarshal(text, &plain))
	return plain
}

// Policies are installed only on request, and only if the API server has the kind.
func TestLibraryIsOff(t *testing.T) {
	if got := installedPolicies(t, renderFor(t, policyKind)); len(got) != 0 {
		t.Errorf("without a request, %v are installed", got)
	}
	if got := installedPolicies(t, render(t, `library.policies={"memory-cap":{}}`)); len(got) != 0 {
		t.Errorf("without the kind, there is %v", got)
	}
}

// The Job may create SubjectAccessReviews only if a policy uses authorizer: the guard of policies requires it of authors.
func TestLibraryRights(t *testing.T) {
	for chosen, want := range map[string]bool{"memory-cap": false, "mac-address-permission": true} {
		found, asks := false, false
		for _, role := range every[*rbacv1.ClusterRole](render(t, fmt.Sprintf(`library.policies={"%s":{}}`, chosen))) {
			if role.Name != "virtward-library" {
				continue
			}
			found = true
			for _, rule := range role.Rules {
				asks = asks || slices.Contains(rule.Resources, "subjectaccessreviews")
			}
		}
		if !found || asks != want {
			t.Errorf("%s: a role %v, that may create SubjectAccessReviews %v, want %v", chosen, found, asks, want)
		}
	}
}

// The values choose the enforcement, and replace single parameters.
func TestLibraryValues(t *testing.T) {
	got := installedPolicies(t, renderFor(t, policyKind, `library.policies={
		"vcpu-cap": {"enforcement": "Deny", "params": {"max": 1000000}},
		"network-bindings-allowed": {"enforcement": "Warn", "params": {"pod": []}},
		"uefi-secure-boot": {"params": {"secureBoot": false}}}`))
	for name, want := range map[string]struct {
		enforcement policyv1alpha1.PolicyEnforcement
		values      string
	}{
		"vcpu-cap":                 {policyv1alpha1.PolicyDeny, `{"max":1000000}`},
		"network-bindings-allowed": {policyv1alpha1.PolicyWarn, `{"others":["bridge","sriov"],"pod":[]}`},
		"uefi-secure-boot":         {policyv1alpha1.PolicyAudit, `{"secureBoot":false}`},
	} {
		policy := got[name]
		if policy == nil {
			t.Errorf("%s is not installed", name)
			continue
		}
		if policy.Spec.Enforcement != want.enforcement || string(policy.Spec.Params.Values.Raw) != want.values {
			t.Errorf("%s: %s with %s, want %s with %s", name, policy.Spec.Enforcement, policy.Spec.Params.Values.Raw, want.enforcement, want.values)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d policies are installed, not 3", len(got))
	}
}

// What is not in the library, or not a parameter, is rejected before anything is changed.
func TestLibraryRejects(t *testing.T) {
	for value, want := range map[string]string{
		`{"memory":{}}`:                                     "at '/library/policies': additional properties 'memory' not allowed",
		`{"memory-cap":{"enforce":true}}`:                   "at '/library/policies/memory-cap': additional properties 'enforce' not allowed",
		`{"memory-cap":{"enforcement":"deny"}}`:             "at '/library/policies/memory-cap/enforcement': value must be one of 'Audit', 'Warn', 'Deny'",
		`{"memory-cap":{"params":{"maximum":"8Gi"}}}`:       "at '/library/policies/memory-cap/params': additional properties 'maximum' not allowed",
		`{"memory-cap":{"params":{"max":8}}}`:               "at '/library/policies/memory-cap/params/max': got number, want string",
		`{"memory-cap":{"params":{"max":"8 GB"}}}`:          "at '/library/policies/memory-cap/params/max': '8 GB' does not match pattern",
		`{"disk-bus-virtio":{"params":{"buses":["ide"]}}}`:  "at '/library/policies/disk-bus-virtio/params/buses/0': value must be one of 'virtio', 'sata', 'scsi', 'usb'",
		`{"mac-address-permission":{"params":{}}}`:          "at '/library/policies/mac-address-permission': additional properties 'params' not allowed",
		`{"labels-required":{"params":{"labels":[{}]}}}`:    "at '/library/policies/labels-required/params/labels/0': missing property 'key'",
		`{"vcpu-cap":{"params":{"max":0}}}`:                 "at '/library/policies/vcpu-cap/params/max': minimum: got 0, want 1",
		`{"disk-bus-virtio":{"params":{"buses":"virtio"}}}`: "at '/library/policies/disk-bus-virtio/params/buses': got string, want array",
		`{"storage-class-tier":{}}`:                         "library.policies.storage-class-tier: this policy reads storageclasses: add storageclasses to policies.references",
	} {
		output, err := helm(t, "template", release, folder, "--namespace", namespace, "--set-json", "library.policies="+value)
		if err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: %v, want %q in\n%s", value, err, want, output)
		}
	}
}

// The second release writes policies. Later ones change and remove them. No webhook is served here, so the checks are
// switched off while policies are written.
func TestLibraryInstallation(t *testing.T) {
	started := pool.Take(t)
	i := &installation{ctx: t.Context(), controlPlane: started, client: started.Client()}
	with := func(checks bool, chosen map[string]any) {
		t.Helper()
		i.install(t, map[string]any{"checks": map[string]any{"enabled": checks}, "library": map[string]any{"policies": chosen}})
	}
	says := func(want string) {
		t.Helper()
		if notes := i.helm(t, "get", "notes", release, "--namespace", namespace); !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q, but:\n%s", want, notes)
		}
	}
	two := map[string]any{"memory-cap": map[string]any{}, "disk-bus-virtio": map[string]any{"enforcement": "Warn"}}

	with(true, two)
	says("The Job virtward-library creates these policies of the library when the webhooks answer: disk-bus-virtio, memory-cap.")
	i.hasPolicies(t)

	with(false, map[string]any{}) // what a release takes away goes last
	with(false, two)
	says("disk-bus-virtio (Warn)\n  memory-cap (Audit)\n")
	i.hasPolicies(t, `disk-bus-virtio Warn {"buses":["virtio"]}`, `memory-cap Audit {"max":"64Gi"}`)

	with(false, map[string]any{"memory-cap": map[string]any{"enforcement": "Deny", "params": map[string]any{"max": "32Gi"}}})
	i.hasPolicies(t, `memory-cap Deny {"max":"32Gi"}`)

	must(t, i.controlPlane.UninstallChart(i.ctx, controlplane.Chart{Release: release, Namespace: namespace}))
	i.hasPolicies(t)

	// The kind still exists, but no webhook answers yet: with a policy, the installation would fail.
	with(true, two)
	says("The Job virtward-library creates")
	i.hasPolicies(t)
	policy := untyped("policy.virtward.io/v1alpha1", kindPolicy, "by-hand")
	policy.Object["spec"] = map[string]any{"enforcement": "Audit", "validations": []any{map[string]any{"expression": "true", "message": "never"}}}
	i.eventually(t, "the webhook is called for a policy", func() error {
		if err := i.client.Create(context.WithoutCancel(i.ctx), policy.DeepCopy(), client.DryRunAll); !apierrors.IsInternalError(err) {
			return fmt.Errorf("want a denial because no webhook answers, got: %w", err)
		}
		return nil
	})
}

// hasPolicies fails unless the policies of the cluster are these, each with its enforcement and its parameters.
func (i *installation) hasPolicies(t *testing.T, want ...string) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("policy.virtward.io/v1alpha1")
	list.SetKind(kindPolicy + "List")
	must(t, i.client.List(i.ctx, list))
	var got []string
	for n := range list.Items {
		checkLabels(t, &list.Items[n])
		enforcement, _, err := unstructured.NestedString(list.Items[n].Object, "spec", "enforcement")
		must(t, err)
		params, _, err := unstructured.NestedMap(list.Items[n].Object, "spec", "params", "values")
		must(t, err)
		text, err := json.Marshal(params)
		must(t, err)
		got = append(got, fmt.Sprintf("%s %s %s", list.Items[n].GetName(), enforcement, text))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}

// The first release cannot create policies, so its Job gets them: with the owner that the next release expects. Its account
// may enforce only those that deny.
func TestLibraryJob(t *testing.T) {
	objects := render(t, `library.policies={"memory-cap":{"enforcement":"Deny","params":{"max":"32Gi"}},"vcpu-cap":{}}`)
	later := installedPolicies(t, renderFor(t, policyKind, `library.policies={"memory-cap":{"enforcement":"Deny","params":{"max":"32Gi"}},"vcpu-cap":{}}`))
	files := fstest.MapFS{}
	for _, m := range every[*corev1.ConfigMap](objects) {
		if m.Name == "virtward-library" {
			for name, content := range m.Data {
				files[name] = &fstest.MapFile{Data: []byte(content)}
			}
		}
	}
	first, err := creation.Read(files)
	must(t, err)
	if len(first) != 2 {
		t.Fatalf("the Job gets %d policies, want 2", len(first))
	}
	for _, policy := range first {
		want := later[policy.GetName()]
		if diff := cmp.Diff(inJSON(t, want.Spec), policy.Object["spec"]); diff != "" {
			t.Errorf("%s (-later release +Job):\n%s", policy.GetName(), diff)
		}
		owner := map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
		if diff := cmp.Diff(owner, policy.GetAnnotations()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", policy.GetName(), diff)
		}
	}
	enforced := map[string]bool{}
	for _, role := range every[*rbacv1.ClusterRole](objects) {
		for _, rule := range role.Rules {
			if role.Name == "virtward-library" && slices.Contains(rule.Verbs, "enforce") {
				for _, name := range rule.ResourceNames {
					enforced[name] = true
				}
			}
		}
	}
	if !maps.Equal(enforced, map[string]bool{"memory-cap": true}) {
		t.Errorf("the account may enforce %v", enforced)
	}
	for _, job := range every[*batchv1.Job](renderFor(t, policyKind, `library.policies={"memory-cap":{}}`)) {
		if job.Name != "virtward-uninstall" {
			t.Errorf("the second release has the Job %s", job.Name)
		}
	}
}
