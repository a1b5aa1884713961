package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/soak"
)

// kubeVirtMutator is the name of KubeVirt's own configuration.
const kubeVirtMutator = "virt-api-mutator"

const certManager = `certificates.provider="cert-manager"`

// Golden lists of the objects of the chart: all of them by default, and for other values what is added and what is removed. The
// specs are not in them: the definitions and the guards are copies of other files, and tests of their own verify the rest.
func TestObjects(t *testing.T) {
	defaults := objects(t)
	compare(t, "defaults", strings.Join(defaults, "\n")+"\n")
	for name, values := range map[string][]string{
		"cert-manager-with-the-charts-ca": {certManager},
		"cert-manager-with-an-issuer":     {certManager, `certificates.certManager.issuerRef={"name":"corporate","kind":"ClusterIssuer"}`},
		"one-replica":                     {"replicas=1"},
		"no-network-policy":               {"networkPolicy.enabled=false"},
		"service-monitor":                 {"metrics.serviceMonitor.enabled=true"},
		"no-checks":                       {"checks.enabled=false"},
		"templates-are-observed":          {`templates.mode="observe"`},
		"templates-are-managed":           {`templates.mode="manage"`},
		"no-guards-of-templates":          {"guards.templates.enabled=false"},
		"no-guard-of-the-rule-settings":   {"guards.ruleSettings.enabled=false"},
		"no-guards-of-the-policies":       {"guards.policies.enabled=false"},
		"no-guard-of-the-accounts":        {"guards.accounts.enabled=false"},
		"no-guards-of-golden-images":      {"guards.goldenImages.enabled=false"},
		"no-guards-of-virtualimages":      {"guards.virtualImages.enabled=false"},
		"no-guards-of-kubevirt":           {"guards.kubevirt.enabled=false"},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, name, changes(defaults, objects(t, values...)))
		})
	}
}

// objects returns the kinds and names of all objects, sorted.
func objects(t *testing.T, values ...string) []string {
	t.Helper()
	all := identities(renderFor(t, nil, values...))
	slices.Sort(all)
	return all
}

// changes has a line for each object that is removed (-) or added (+). Both lists are sorted.
func changes(before, after []string) string {
	var out strings.Builder
	for _, object := range before {
		if !slices.Contains(after, object) {
			fmt.Fprintln(&out, "- "+object)
		}
	}
	for _, object := range after {
		if !slices.Contains(before, object) {
			fmt.Fprintln(&out, "+ "+object)
		}
	}
	return out.String()
}

// compare compares a text with a golden file, or writes it with -update.
func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "objects", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// Combinations of the values that switch something lint, decode and are labelled: every one in a soak, few in short runs, and
// otherwise so many that any three values have all their combinations.
func TestCombinations(t *testing.T) {
	t.Parallel()
	switches := [8][2]string{
		{`certificates.provider="self"`, certManager},
		{`certificates.certManager.issuerRef={}`, `certificates.certManager.issuerRef={"name":"corporate"}`},
		{"guards.kubevirt.enabled=true", "guards.kubevirt.enabled=false"},
		{"guards.ruleSettings.enabled=true", "guards.ruleSettings.enabled=false"},
		{"checks.enabled=true", "checks.enabled=false"},
		{"networkPolicy.enabled=true", "networkPolicy.enabled=false"},
		{"metrics.serviceMonitor.enabled=false", "metrics.serviceMonitor.enabled=true"},
		{"replicas=1", "replicas=3"},
	}
	combinations := [][]string{filled()}
	for n := range 1 << len(switches) {
		if !designed(n) && !soak.On() {
			continue
		}
		var combination []string
		for i, values := range switches {
			combination = append(combination, values[n>>i&1])
		}
		combinations = append(combinations, combination)
	}
	if testing.Short() {
		combinations = combinations[:3]
	}
	for _, values := range combinations {
		t.Run(strings.Join(values, " "), func(t *testing.T) {
			t.Parallel()
			if output, err := helm(t, append([]string{"lint", "--strict", folder}, set(values)...)...); err != nil {
				t.Errorf("helm lint: %v\n%s", err, output)
			}
			for _, object := range render(t, values...) {
				checkObject(t, object)
			}
		})
	}
}

// designed reports whether a combination of eight switches is one of the 16 of a fractional factorial design of resolution IV:
// four switches are free, and each of the other four is the parity of three of these.
func designed(n int) bool {
	bit := func(i int) int { return n >> i & 1 }
	return bit(4) == bit(1)^bit(2)^bit(3) && bit(5) == bit(0)^bit(2)^bit(3) && bit(6) == bit(0)^bit(1)^bit(2) && bit(7) == bit(0)^bit(1)^bit(3)
}

// TestDesign holds the combinations to what is said of them.
func TestDesign(t *testing.T) {
	seen := map[[6]int]bool{}
	for n := range 256 {
		for i := range 8 {
			for j := range i {
				for k := range j {
					if designed(n) {
						seen[[6]int{i, j, k, n >> i & 1, n >> j & 1, n >> k & 1}] = true
					}
				}
			}
		}
	}
	if want := 56 * 8; len(seen) != want {
		t.Errorf("%d of %d combinations of three switches", len(seen), want)
	}
}

// filled sets every value that is empty by default.
func filled() []string {
	return []string{
		`image={"repository":"registry.example/virtward","tag":"v2","digest":"sha256:` + strings.Repeat("a", 64) + `","pullPolicy":"Always"}`,
		`imagePullSecrets=[{"name":"pull"}]`,
		`webhook.exemptNamespaces=["infra","kube-system"]`,
		`checks={"enabled":true,"failurePolicy":"Ignore","timeoutSeconds":10}`,
		`facts={"rolloutStrategy":"Stage","mshvCPUModel":"none"}`,
		`log={"level":"debug","format":"text"}`,
		`metrics.serviceMonitor={"enabled":true,"interval":"1m30s","labels":{"release":"prometheus"}}`,
		`networkPolicy={"apiServerCIDRs":["10.0.0.0/24","fd00::/64"],"metricsNamespaces":[]}`,
		`pod={"annotations":{"a":"b"},"labels":{"c":"d"},"nodeSelector":{"kubernetes.io/os":"linux"},` +
			`"tolerations":[{"key":"x","operator":"Exists"}],"affinity":{"nodeAffinity":{}},"priorityClassName":"high","runAsUser":1000}`,
	}
}

// checkObject checks what holds of every object: the labels, and where it is.
func checkObject(t *testing.T, object client.Object) {
	t.Helper()
	kind := object.GetObjectKind().GroupVersionKind().Kind
	labels := object.GetLabels()
	for key, want := range map[string]string{
		"app.kubernetes.io/name":       "virtward",
		"app.kubernetes.io/instance":   release,
		"app.kubernetes.io/part-of":    "virtward",
		"app.kubernetes.io/managed-by": "Helm",
		"helm.sh/chart":                "virtward-0.1.0",
	} {
		if labels[key] != want {
			t.Errorf("%s %s: label %s is %q, not %q", kind, object.GetName(), key, labels[key], want)
		}
	}
	clusterScoped := []string{
		"APIService", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	}
	want := namespace
	if slices.Contains(clusterScoped, kind) {
		want = ""
	}
	if object.GetNamespace() != want {
		t.Errorf("%s %s: namespace is %q, not %q", kind, object.GetName(), object.GetNamespace(), want)
	}
}

func TestMutator(t *testing.T) {
	got := only[*admissionv1.MutatingWebhookConfiguration](t, render(t, `webhook={"servicePort":8443,"timeoutSeconds":5,"exemptNamespaces":["infra"]}`))
	if got.Name >= kubeVirtMutator {
		t.Errorf("%s does not sort before %s", got.Name, kubeVirtMutator)
	}
	want := []admissionv1.MutatingWebhook{{
		Name: "mutate.virtward.io",
		ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
			Namespace: namespace, Name: "virtward-webhook", Port: new(int32(8443)),
		}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups:   []string{"kubevirt.io"},
				APIVersions: []string{"v1", "v1alpha3"},
				Resources:   []string{"virtualmachines", "virtualmachineinstances"},
				Scope:       new(admissionv1.NamespacedScope),
			},
		}, {
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups:   []string{"rollout.virtward.io"},
				APIVersions: []string{"v1alpha1"},
				Resources:   []string{"virtualmachinerollouts"},
				Scope:       new(admissionv1.NamespacedScope),
			},
		}, {
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups:   []string{"policy.virtward.io"},
				APIVersions: []string{"v1alpha1"},
				Resources:   []string{"virtualmachinepolicyexceptions"},
				Scope:       new(admissionv1.NamespacedScope),
			},
		}, {
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups:   []string{"snapshot.kubevirt.io"},
				APIVersions: []string{"v1beta1", "v1alpha1"},
				Resources:   []string{"virtualmachinerestores"},
				Scope:       new(admissionv1.NamespacedScope),
			},
		}, {
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups:   []string{"clone.kubevirt.io"},
				APIVersions: []string{"v1beta1", "v1alpha1"},
				Resources:   []string{"virtualmachineclones"},
				Scope:       new(admissionv1.NamespacedScope),
			},
		}},
		FailurePolicy: new(admissionv1.Ignore),
		MatchPolicy:   new(admissionv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{"kube-system", namespace, "infra"},
		}}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		TimeoutSeconds:          new(int32(5)),
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionv1.IfNeededReinvocationPolicy),
	}}
	if diff := cmp.Diff(want, got.Webhooks); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// By default the timeout is two seconds, and kube-system and Virtward's namespace are exempt, each once.
func TestMutatorDefaults(t *testing.T) {
	for _, values := range [][]string{nil, {`webhook.exemptNamespaces=["kube-system"]`}} {
		webhook := only[*admissionv1.MutatingWebhookConfiguration](t, render(t, values...)).Webhooks[0]
		if *webhook.TimeoutSeconds != 2 || *webhook.ClientConfig.Service.Port != 443 {
			t.Errorf("timeout %d, port %d; not 2, 443", *webhook.TimeoutSeconds, *webhook.ClientConfig.Service.Port)
		}
		exempt := webhook.NamespaceSelector.MatchExpressions[0].Values
		if diff := cmp.Diff([]string{"kube-system", namespace}, exempt); diff != "" {
			t.Errorf("%v: exempt namespaces (-want +got):\n%s", values, diff)
		}
	}
}

// What is checked: everything of KubeVirt that virtual machines are made of, and our own settings. An update is
// looked at when it changes something. Deletions have an entry of their own, which fails open.
func TestValidator(t *testing.T) {
	got := only[*admissionv1.ValidatingWebhookConfiguration](t, render(t, `webhook={"servicePort":8443,"exemptNamespaces":["infra"]}`))
	if got.Name != "validate.virtward.io" {
		t.Errorf("the name is %s", got.Name)
	}
	exempt := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", namespace, "infra"},
	}}}
	alive := admissionv1.MatchCondition{Name: "not-being-deleted", Expression: "request.operation != 'UPDATE' || !has(oldObject.metadata.deletionTimestamp) || object.?spec != oldObject.?spec"}
	const newSpec = "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"
	changed := func(expression string) admissionv1.MatchCondition {
		return admissionv1.MatchCondition{Name: "something-changed", Expression: expression}
	}
	rule := func(scope admissionv1.ScopeType, group string, versions []string, resources ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: versions, Resources: resources, Scope: &scope},
		}
	}
	scaled := func(group string, versions []string, resource string) admissionv1.RuleWithOperations {
		r := rule(admissionv1.NamespacedScope, group, versions, resource)
		r.Operations = []admissionv1.OperationType{admissionv1.Update}
		return r
	}
	deleted := func(group string, versions []string, resources ...string) admissionv1.RuleWithOperations {
		r := rule(admissionv1.NamespacedScope, group, versions, resources...)
		r.Operations = []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete}
		return r
	}
	instancetypes := rule("", "instancetype.kubevirt.io", []string{"v1", "v1beta1"}, "virtualmachineinstancetypes", "virtualmachineclusterinstancetypes",
		"virtualmachinepreferences", "virtualmachineclusterpreferences")
	instancetypes.Scope = nil // both
	want := []admissionv1.ValidatingWebhook{
		{
			Name: "virtualmachines.validate.virtward.io",
			Rules: []admissionv1.RuleWithOperations{
				rule(admissionv1.NamespacedScope, "kubevirt.io", []string{"v1", "v1alpha3"}, "virtualmachines", "virtualmachineinstances", "virtualmachineinstancereplicasets"),
				rule(admissionv1.NamespacedScope, "pool.kubevirt.io", []string{"v1beta1", "v1alpha1"}, "virtualmachinepools"),
				scaled("kubevirt.io", []string{"v1", "v1alpha3"}, "virtualmachineinstancereplicasets/scale"),
				scaled("pool.kubevirt.io", []string{"v1beta1", "v1alpha1"}, "virtualmachinepools/scale"),
			},
			NamespaceSelector: exempt,
			MatchConditions: []admissionv1.MatchCondition{alive, changed("request.operation != 'UPDATE' || object.?spec != oldObject.?spec" +
				" || object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})" +
				" || object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"), {
				Name: "more-than-pending-changes", Expression: "request.operation != 'UPDATE' || request.userInfo.username != 'system:serviceaccount:" + namespace + ":virtward-rollouts'" +
					" || object.?spec != oldObject.?spec || object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})" +
					" || !object.metadata.?annotations.orValue({}).all(key, key == 'rollout.virtward.io/pending'" +
					" || key in oldObject.metadata.?annotations.orValue({}) && oldObject.metadata.annotations[key] == object.metadata.annotations[key])" +
					" || !oldObject.metadata.?annotations.orValue({}).all(key, key == 'rollout.virtward.io/pending' || key in object.metadata.?annotations.orValue({}))",
			}},
		},
		{
			Name: "deletions.validate.virtward.io",
			Rules: []admissionv1.RuleWithOperations{
				deleted("kubevirt.io", []string{"v1", "v1alpha3"}, "virtualmachines", "virtualmachineinstances"),
				deleted("pool.kubevirt.io", []string{"v1beta1", "v1alpha1"}, "virtualmachinepools"),
			},
			NamespaceSelector: exempt,
			MatchConditions: []admissionv1.MatchCondition{
				{Name: "not-the-system", Expression: "!(request.userInfo.username in ['" + strings.Join(policies.SystemDeleters(), "', '") + "'])"},
				{Name: "not-being-deleted", Expression: "!has(oldObject.metadata.deletionTimestamp)"},
				{Name: "deleted-or-owned", Expression: "request.operation == 'DELETE' || object.metadata.?ownerReferences.orValue([]).size() > 0" +
					" && object.metadata.?ownerReferences.orValue([]) != oldObject.metadata.?ownerReferences.orValue([])"},
			},
		},
		{
			Name: "instancetypes.validate.virtward.io",
			Rules: []admissionv1.RuleWithOperations{
				instancetypes, rule(admissionv1.NamespacedScope, "kubevirt.io", []string{"v1", "v1alpha3"}, "virtualmachineinstancepresets"),
			},
			NamespaceSelector: exempt, MatchConditions: []admissionv1.MatchCondition{alive, changed(newSpec)},
		},
		{
			Name: "copies.validate.virtward.io",
			Rules: []admissionv1.RuleWithOperations{
				rule(admissionv1.NamespacedScope, "snapshot.kubevirt.io", []string{"v1beta1", "v1alpha1"}, "virtualmachinerestores"),
				rule(admissionv1.NamespacedScope, "clone.kubevirt.io", []string{"v1beta1", "v1alpha1"}, "virtualmachineclones"),
			},
			NamespaceSelector: exempt, MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
		{
			Name:              "templates.validate.virtward.io",
			Rules:             []admissionv1.RuleWithOperations{rule(admissionv1.NamespacedScope, "template.kubevirt.io", []string{"v1beta1", "v1alpha1"}, "virtualmachinetemplates", "virtualmachinetemplaterequests")},
			NamespaceSelector: exempt, MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
		{
			Name:            "kubevirts.validate.virtward.io",
			Rules:           []admissionv1.RuleWithOperations{rule(admissionv1.NamespacedScope, "kubevirt.io", []string{"v1", "v1alpha3"}, "kubevirts")},
			MatchConditions: []admissionv1.MatchCondition{changed("request.operation != 'UPDATE' || object.?spec.?configuration != oldObject.?spec.?configuration")},
		},
		{
			Name:              "rollouts.validate.virtward.io",
			Rules:             []admissionv1.RuleWithOperations{rule(admissionv1.NamespacedScope, "rollout.virtward.io", []string{"v1alpha1"}, "virtualmachinerollouts")},
			NamespaceSelector: exempt, MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
		{
			Name:              "exceptions.validate.virtward.io",
			Rules:             []admissionv1.RuleWithOperations{rule(admissionv1.NamespacedScope, "policy.virtward.io", []string{"v1alpha1"}, "virtualmachinepolicyexceptions")},
			NamespaceSelector: exempt, MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
		{
			Name:            "images.validate.virtward.io",
			Rules:           []admissionv1.RuleWithOperations{rule(admissionv1.ClusterScope, "image.virtward.io", []string{"v1alpha1"}, "goldenimagecatalogs")},
			MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
		{
			Name:            "plugins.validate.virtward.io",
			Rules:           []admissionv1.RuleWithOperations{rule(admissionv1.ClusterScope, "plugin.kubevirt.io", []string{"v1alpha1"}, "plugins")},
			MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
		{
			Name:            "rulesettings.validate.virtward.io",
			Rules:           []admissionv1.RuleWithOperations{rule(admissionv1.ClusterScope, "policy.virtward.io", []string{"v1alpha1"}, "rulesettings", "virtualmachinedefaults", "virtualmachinepolicies")},
			MatchConditions: []admissionv1.MatchCondition{changed(newSpec)},
		},
	}
	for i := range want { // what they have in common
		want[i].ClientConfig.Service = &admissionv1.ServiceReference{Namespace: namespace, Name: "virtward-webhook", Port: new(int32(8443))}
		if want[i].Name == "deletions.validate.virtward.io" {
			want[i].ClientConfig.Service.Port = new(int32(9444))
		}
		want[i].MatchPolicy, want[i].FailurePolicy = new(admissionv1.Equivalent), new(admissionv1.Fail)
		want[i].TimeoutSeconds, want[i].SideEffects = new(int32(3)), new(admissionv1.SideEffectClassNone)
		want[i].AdmissionReviewVersions = []string{"v1"}
		switch want[i].Name {
		case "kubevirts.validate.virtward.io", "deletions.validate.virtward.io": // the first only warns
			want[i].FailurePolicy = new(admissionv1.Ignore)
		}
	}
	if diff := cmp.Diff(want, got.Webhooks); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// Every check can be made to fail open, and be waited for longer.
func TestValidatorValues(t *testing.T) {
	for _, webhook := range only[*admissionv1.ValidatingWebhookConfiguration](t, render(t, `checks={"failurePolicy":"Ignore","timeoutSeconds":7}`)).Webhooks {
		if *webhook.FailurePolicy != admissionv1.Ignore || *webhook.TimeoutSeconds != 7 {
			t.Errorf("%s: %s after %d seconds; not Ignore after 7", webhook.Name, *webhook.FailurePolicy, *webhook.TimeoutSeconds)
		}
	}
	mutator := only[*admissionv1.MutatingWebhookConfiguration](t, render(t, `checks.timeoutSeconds=7`)).Webhooks[0]
	if *mutator.TimeoutSeconds != 2 {
		t.Errorf("the timeout of the mutator is %d", *mutator.TimeoutSeconds)
	}
}

// Deletions can be made to fail closed, independently of the other checks.
func TestDeletionsValue(t *testing.T) {
	for _, webhook := range only[*admissionv1.ValidatingWebhookConfiguration](t, render(t, `policies.deletions.failurePolicy="Fail"`, `checks.failurePolicy="Ignore"`)).Webhooks {
		want := admissionv1.Ignore
		if webhook.Name == "deletions.validate.virtward.io" {
			want = admissionv1.Fail
		}
		if *webhook.FailurePolicy != want {
			t.Errorf("%s: %s, not %s", webhook.Name, *webhook.FailurePolicy, want)
		}
	}
}

// Policies read only the kinds of the value. Each process that evaluates policies has a role that may read them, and their flags.
func TestPolicyReferences(t *testing.T) {
	objects := everyProcess(t, `policies.references=["storageclasses","networkattachmentdefinitions","configmaps"]`)
	roles, deployments := every[*rbacv1.ClusterRole](objects), every[*appsv1.Deployment](objects)
	for _, p := range processes.All() {
		if !p.Evaluates {
			continue
		}
		var got []string
		for _, role := range roles {
			if role.Name != p.Name {
				continue
			}
			for _, r := range role.Rules {
				if slices.Contains(r.Verbs, "get") && len(r.Resources) == 1 {
					got = append(got, strings.Join(append(slices.Clone(r.APIGroups), r.Resources[0]), "/"))
				}
			}
		}
		for _, want := range []string{"storage.k8s.io/storageclasses", "k8s.cni.cncf.io/network-attachment-definitions", "/configmaps", "/persistentvolumeclaims", "cdi.kubevirt.io/datavolumes"} {
			if !slices.Contains(got, want) {
				t.Errorf("%s cannot read %s: %v", p.Name, want, got)
			}
		}
		var args []string
		for _, deployment := range deployments {
			if deployment.Name == p.Name {
				args = deployment.Spec.Template.Spec.Containers[0].Args
			}
		}
		for _, want := range []string{"--policy-reference=storageclasses", "--policy-reference=networkattachmentdefinitions", "--policy-reference=configmaps"} {
			if !slices.Contains(args, want) {
				t.Errorf("%s has no argument %s: %v", p.Name, want, args)
			}
		}
	}
	for _, role := range every[*rbacv1.ClusterRole](everyProcess(t)) {
		for _, r := range role.Rules {
			if slices.Contains(r.Resources, "storageclasses") || slices.Contains(r.Resources, "network-attachment-definitions") {
				t.Errorf("by default, %s can read %v", role.Name, r.Resources)
			}
		}
	}
}

// cert-manager finds the configurations by an annotation, and the certificate is for the Service.
func TestCertManager(t *testing.T) {
	objects := render(t, certManager)
	for _, configuration := range []client.Object{
		only[*admissionv1.MutatingWebhookConfiguration](t, objects), only[*admissionv1.ValidatingWebhookConfiguration](t, objects),
	} {
		if diff := cmp.Diff(map[string]string{"cert-manager.io/inject-ca-from": namespace + "/virtward-webhook"}, configuration.GetAnnotations()); diff != "" {
			t.Errorf("annotations of %s (-want +got):\n%s", configuration.GetName(), diff)
		}
	}
	var certificate *unstructured.Unstructured
	for _, object := range every[*unstructured.Unstructured](objects) {
		if object.GetKind() == "Certificate" && object.GetName() == "virtward-webhook" {
			certificate = object
		}
	}
	names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	want := []string{"virtward-webhook." + namespace + ".svc", "virtward-webhook." + namespace + ".svc.cluster.local"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("DNS names (-want +got):\n%s", diff)
	}
	written, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
	mounted := only[*appsv1.Deployment](t, objects).Spec.Template.Spec.Volumes[0].Secret.SecretName
	if written != "virtward-webhook-tls" || mounted != written {
		t.Errorf("the certificate is in %q, and %q is mounted", written, mounted)
	}
}

// An upgrade must not empty the Secret that virtward has filled.
func TestSecretHasNoData(t *testing.T) {
	secret := only[*corev1.Secret](t, render(t))
	if secret.Data != nil || secret.StringData != nil {
		t.Errorf("the chart writes data: %v %v", secret.Data, secret.StringData)
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []string
		want   []string
	}{
		{name: "defaults", want: []string{
			"webhook",
			"--webhook-port=9443",
			"--deletions-port=9444",
			"--health-address=:8081",
			"--metrics-address=:8080",
			"--policy-counts-address=:9445",
			"--cert-provider=self",
			"--cert-secret=virtward-webhook-cert",
			"--mutating-webhook-configuration=mutate.virtward.io",
			"--validating-webhook-configuration=validate.virtward.io",
			"--namespace=$(POD_NAMESPACE)",
			"--mshv-cpu-model=auto",
			"--policy-exception-max-days=90",
			"--log-level=info",
			"--log-format=json",
		}},
		{
			name: "everything else",
			values: []string{
				certManager, `facts={"rolloutStrategy":"Stage","mshvCPUModel":"EPYC-v3"}`, `log={"level":"debug","format":"text"}`,
				"webhook.port=10250", "webhook.deletionsPort=10251", "webhook.policyCountsPort=9446", "policies.exceptions.maxDays=7", "metrics.port=9090", "health.port=9091", "checks.enabled=false",
				`webhook.clientCertificates={"configMap":"clients","names":["api-server"]}`,
			},
			want: []string{
				"webhook",
				"--webhook-port=10250",
				"--deletions-port=10251",
				"--health-address=:9091",
				"--metrics-address=:9090",
				"--policy-counts-address=:9446",
				"--cert-provider=files",
				"--cert-dir=/var/run/virtward/certificates",
				"--path-tokens-file=/var/run/virtward/paths/tokens",
				"--client-ca-file=/var/run/virtward/clients/ca.crt",
				"--client-name=api-server",
				"--mutating-webhook-configuration=mutate.virtward.io",
				"--namespace=$(POD_NAMESPACE)",
				"--rollout-strategy=Stage",
				"--mshv-cpu-model=EPYC-v3",
				"--policy-exception-max-days=7",
				"--log-level=debug",
				"--log-format=text",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := only[*appsv1.Deployment](t, render(t, c.values...)).Spec.Template.Spec.Containers[0].Args
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

// The ports of the webhook configuration, the Service, the container and the flag are equal.
func TestPorts(t *testing.T) {
	objects := render(t, `webhook={"port":10250,"servicePort":8443,"policyCountsPort":9445}`, "metrics.port=9090")
	container := only[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	if diff := cmp.Diff(map[string]int32{"webhook": 10250, "deletions": 9444, "policy-counts": 9445, "metrics": 9090, "health": 8081}, ports); diff != "" {
		t.Errorf("container ports (-want +got):\n%s", diff)
	}
	want := map[string][]corev1.ServicePort{
		"virtward-webhook":               {{Name: "webhook", Port: 8443, TargetPort: intstr.FromString("webhook")}, {Name: "deletions", Port: 9444, TargetPort: intstr.FromString("deletions")}},
		"virtward-webhook-policy-counts": {{Name: "policy-counts", Port: 9445, TargetPort: intstr.FromString("policy-counts")}},
		"virtward-webhook-metrics":       {{Name: "metrics", Port: 9090, TargetPort: intstr.FromString("metrics")}},
	}
	for _, service := range every[*corev1.Service](objects) {
		if diff := cmp.Diff(want[service.Name], service.Spec.Ports); diff != "" {
			t.Errorf("Service %s (-want +got):\n%s", service.Name, diff)
		}
	}
}

// TestPortsDiffer verifies that the ports of deletions are not those of the other requests.
func TestPortsDiffer(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`webhook={"servicePort":8443,"deletionsServicePort":8443}`: "webhook.servicePort and webhook.deletionsServicePort must differ",
		`webhook={"port":9444}`: "webhook.port and webhook.deletionsPort must differ",
	} {
		if output, err := helm(t, "template", release, folder, "--set-json", value); err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: %v %s", value, err, output)
		}
	}
}

// Services, budget, spread and network policy select the pods of the Deployment, and it selects them itself.
func TestSelectors(t *testing.T) {
	objects := render(t, `pod.labels={"team":"platform","app.kubernetes.io/name":"other"}`)
	deployment := only[*appsv1.Deployment](t, objects)
	want := map[string]string{
		"app.kubernetes.io/name": "virtward", "app.kubernetes.io/instance": release, "app.kubernetes.io/component": "webhook",
	}
	selectors := map[string]map[string]string{
		"Deployment":          deployment.Spec.Selector.MatchLabels,
		"PodDisruptionBudget": only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels,
		"NetworkPolicy":       only[*networkingv1.NetworkPolicy](t, objects).Spec.PodSelector.MatchLabels,
	}
	for _, service := range every[*corev1.Service](objects) {
		selectors["Service "+service.Name] = service.Spec.Selector
	}
	for _, spread := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors["spread over "+spread.TopologyKey] = spread.LabelSelector.MatchLabels
	}
	if len(selectors) != 8 {
		t.Errorf("%d selectors, not 8", len(selectors))
	}
	for name, selector := range selectors {
		if diff := cmp.Diff(want, selector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	labels := deployment.Spec.Template.Labels
	for key, value := range want {
		if labels[key] != value {
			t.Errorf("the pod's label %s is %q, not %q", key, labels[key], value)
		}
	}
}

// An update never has fewer pods than the Deployment requests, and one eviction at a time is allowed.
func TestAvailability(t *testing.T) {
	objects := render(t)
	deployment := only[*appsv1.Deployment](t, objects)
	if *deployment.Spec.Replicas != 2 {
		t.Errorf("%d replicas, not 2", *deployment.Spec.Replicas)
	}
	rolling := &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1))}
	if diff := cmp.Diff(rolling, deployment.Spec.Strategy.RollingUpdate); diff != "" {
		t.Errorf("rolling update (-want +got):\n%s", diff)
	}
	budget := only[*policyv1.PodDisruptionBudget](t, objects)
	if diff := cmp.Diff(new(intstr.FromInt32(1)), budget.Spec.MaxUnavailable); diff != "" {
		t.Errorf("disruption budget (-want +got):\n%s", diff)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	probes := []string{container.LivenessProbe.HTTPGet.Path, container.ReadinessProbe.HTTPGet.Path}
	if diff := cmp.Diff([]string{"/healthz", "/readyz"}, probes); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
}

func TestPodSecurity(t *testing.T) {
	spec := only[*appsv1.Deployment](t, render(t)).Spec.Template.Spec
	pod := &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(pod, spec.SecurityContext); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	container := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(container, spec.Containers[0].SecurityContext); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if len(spec.Volumes) != 0 {
		t.Errorf("volumes %v: the certificate is taken from the Secret, and the key stays in memory", spec.Volumes)
	}
	for _, volume := range only[*appsv1.Deployment](t, render(t, certManager)).Spec.Template.Spec.Volumes {
		for _, item := range volume.Secret.Items {
			if strings.HasPrefix(item.Key, "ca.") {
				t.Errorf("%s is a file of the pod", item.Key)
			}
		}
	}
	chosen := only[*appsv1.Deployment](t, render(t, "pod.runAsUser=null")).Spec.Template.Spec.SecurityContext
	if chosen.RunAsUser != nil || !*chosen.RunAsNonRoot {
		t.Errorf("with pod.runAsUser null: %v", chosen)
	}
}

func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for values, want := range map[string]string{
		`image.tag=""`:                  "virtward/virtward:0.1.0",
		`image.tag="v9"`:                "virtward/virtward:v9",
		`image.digest="` + digest + `"`: "virtward/virtward@" + digest,
	} {
		if got := only[*appsv1.Deployment](t, render(t, values)).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s: image is %s, not %s", values, got, want)
		}
	}
}

// TestImageOfTemplates: the API of templates has the repository of the other image, unless a value names another one.
func TestImageOfTemplates(t *testing.T) {
	for values, want := range map[string]string{
		`image.repository="registry.example.com/a/virtward"`:   "registry.example.com/a/virtward-apiserver:0.1.0",
		`templates.server.image.repository="mirror/apiserver"`: "mirror/apiserver:0.1.0",
	} {
		if got := only[*appsv1.Deployment](t, renderAPIServer(t, `templates.mode="manage"`, values)).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s: image is %s, not %s", values, got, want)
		}
	}
}

// TestImageIsRequired: the chart of the source has no images.
func TestImageIsRequired(t *testing.T) {
	output, err := helm(t, "template", release, folder, "--set-json", `image.repository=""`)
	if want := "image.repository is required in the chart of the source: name the images that make push or make image-archive has built"; err == nil || !strings.Contains(output, want) {
		t.Errorf("helm says %v\n%s\nwant: %s", err, output, want)
	}
}

// Least privilege of the process that faces the network: it writes nothing, reads one Secret by its name, and has no
// wildcard.
func TestRBAC(t *testing.T) {
	for _, values := range [][]string{nil, {certManager}} {
		objects := render(t, values...)
		for _, role := range every[*rbacv1.ClusterRole](objects) {
			if role.Name == sourceRole || strings.HasPrefix(role.Name, "virtward-template-") || strings.HasPrefix(role.Name, "virtward-rollouts-") || strings.HasPrefix(role.Name, "virtward-virtualimages-") || strings.HasPrefix(role.Name, "virtward-policy-exceptions-") { // for users
				continue
			}
			if role.Name == "virtward-uninstall" { // it exists while a release is uninstalled
				want := []rbacv1.PolicyRule{
					{APIGroups: []string{"kupenstack.io"}, Resources: []string{"virtualimages"}, Verbs: []string{"list", "patch", "release"}},
					{APIGroups: []string{"template.kubevirt.io"}, Resources: []string{"virtualmachinetemplaterequests", "virtualmachinetemplateimports"}, Verbs: []string{"list", "patch"}},
				}
				if diff := cmp.Diff(want, role.Rules); diff != "" {
					t.Errorf("%v: the Job before an uninstallation (-want +got):\n%s", values, diff)
				}
				continue
			}
			for _, rule := range role.Rules {
				checkRule(t, rule)
				if slices.Contains(rule.Resources, "secrets") {
					t.Errorf("%v: the ClusterRole may %v Secrets", values, rule.Verbs)
				}
				if isQuestion(rule) {
					continue
				}
				if written := writes(rule); len(written) > 0 {
					t.Errorf("%v: the ClusterRole may %v %v", values, written, rule.Resources)
				}
				if slices.Contains(rule.APIGroups, "admissionregistration.k8s.io") && (len(rule.ResourceNames) != 1 || !slices.Contains(rule.Verbs, "list") && !slices.Contains(rule.Verbs, "get")) {
					t.Errorf("%v: the ClusterRole may %v %v %v", values, rule.Verbs, rule.Resources, rule.ResourceNames)
				}
				for _, many := range []string{"controllerrevisions", "virtualmachineinstances"} {
					if slices.Contains(rule.Resources, many) && !cmp.Equal(rule.Verbs, []string{"get"}) {
						t.Errorf("%v: the ClusterRole may %v %s, not read one at a time", values, rule.Verbs, many)
					}
				}
			}
		}
		for _, role := range every[*rbacv1.Role](objects) {
			for _, rule := range role.Rules {
				checkRule(t, rule)
				if slices.Contains(rule.Resources, "secrets") && (len(writes(rule)) > 0 || !cmp.Equal(rule.ResourceNames, []string{"virtward-webhook-cert"})) {
					t.Errorf("the Role may %v the Secrets %v", rule.Verbs, rule.ResourceNames)
				}
			}
		}
	}
}

// Whose paths carry tokens: with cert-manager the chart writes the first one into the configurations, and all into the
// Secret that the replicas read; with provider self the controller writes them.
func TestPathTokens(t *testing.T) {
	const first, second = "aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb"
	objects := render(t, certManager, `webhook.pathTokens=["`+first+`","`+second+`"]`)
	if got := *only[*admissionv1.MutatingWebhookConfiguration](t, objects).Webhooks[0].ClientConfig.Service.Path; got != "/mutate/"+first {
		t.Errorf("the path is %s", got)
	}
	for _, webhook := range only[*admissionv1.ValidatingWebhookConfiguration](t, objects).Webhooks {
		want := "/validate/" + first
		if webhook.Name == "deletions.validate.virtward.io" {
			want = "/deletions/" + first
		}
		if got := *webhook.ClientConfig.Service.Path; got != want {
			t.Errorf("the path of %s is %s", webhook.Name, got)
		}
	}
	if got := string(only[*corev1.Secret](t, objects).Data["tokens"]); got != first+"\n"+second {
		t.Errorf("the Secret holds %q", got)
	}
	made := render(t, certManager)
	token := string(only[*corev1.Secret](t, made).Data["tokens"])
	if !regexp.MustCompile("^[a-z0-9]{32}$").MatchString(token) {
		t.Errorf("the token is %q", token)
	}
	if got := *only[*admissionv1.MutatingWebhookConfiguration](t, made).Webhooks[0].ClientConfig.Service.Path; got != "/mutate/"+token {
		t.Errorf("the path is %s, and the Secret holds %s", got, token)
	}
	for values, want := range map[string]string{ //nolint:gosec // no credentials
		`webhook.pathTokens=["short"]`: "at '/webhook/pathTokens/0': 'short' does not match pattern",
		`controller.enabled=false`:     "certificates.provider is self and controller.enabled is false: the controller makes these certificates; enable it, or set certificates.provider to cert-manager",
	} {
		output, err := helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{values})...)...)
		if err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: got %v and %s, want %s", values, err, output, want)
		}
	}
}

// Readers of policies read, in the groups of the value only, and nothing else.
func TestPolicyReaders(t *testing.T) {
	t.Parallel()
	for values, groups := range map[string][]string{
		"pod={}": {"system:authenticated"}, `policies.readers=["owners","admins"]`: {"owners", "admins"}, "policies.readers=[]": nil,
	} {
		objects := render(t, values)
		roles := slices.DeleteFunc(every[*rbacv1.ClusterRole](objects), func(r *rbacv1.ClusterRole) bool { return r.Name != "virtward-policies-view" })
		bindings := slices.DeleteFunc(every[*rbacv1.ClusterRoleBinding](objects), func(b *rbacv1.ClusterRoleBinding) bool { return b.RoleRef.Name != "virtward-policies-view" })
		if groups == nil {
			if len(roles)+len(bindings) > 0 {
				t.Errorf("%s: %d roles and %d bindings", values, len(roles), len(bindings))
			}
			continue
		}
		if len(roles) != 1 || len(bindings) != 1 {
			t.Fatalf("%s: %d roles and %d bindings", values, len(roles), len(bindings))
		}
		want := []rbacv1.PolicyRule{{APIGroups: []string{"policy.virtward.io"}, Resources: []string{"rulesettings", "virtualmachinedefaults", "virtualmachinepolicies"}, Verbs: []string{"get", "list", "watch"}}}
		if diff := cmp.Diff(want, roles[0].Rules); diff != "" || roles[0].Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" {
			t.Errorf("%s: labels %v, rules (-want +got):\n%s", values, roles[0].Labels, diff)
		}
		var got []string
		for _, subject := range bindings[0].Subjects {
			got = append(got, subject.Name)
			if subject.Kind != rbacv1.GroupKind {
				t.Errorf("%s: subject %v", values, subject)
			}
		}
		if diff := cmp.Diff(groups, got); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", values, diff)
		}
	}
	output, err := helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{`policies.readers=["system:unauthenticated"]`})...)...)
	if err == nil || !strings.Contains(output, "/policies/readers/0") {
		t.Errorf("users without an account read: %v, %s", err, output)
	}
}

// No role of templates can create virtual machines or approve, but the role of approvers, which is added to no other role.
func TestTemplateRoles(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]map[string]string{
		"templates.aggregateRoles=true":  {"viewer": "view", "user": "edit", "author": "edit", "approver": ""},
		"templates.aggregateRoles=false": {"viewer": "", "user": "", "author": "", "approver": ""},
	} {
		got := map[string]string{}
		for _, role := range every[*rbacv1.ClusterRole](render(t, values)) {
			name, found := strings.CutPrefix(role.Name, "virtward-template-")
			if !found {
				continue
			}
			got[name] = ""
			for key := range role.Labels {
				if to, ok := strings.CutPrefix(key, "rbac.authorization.k8s.io/aggregate-to-"); ok {
					got[name] += to
				}
			}
			for _, rule := range role.Rules {
				checkRule(t, rule)
				if !slices.Contains([]string{"template.kubevirt.io", "subresources.template.kubevirt.io"}, strings.Join(rule.APIGroups, ",")) {
					t.Errorf("%s: rule %v", role.Name, rule)
				}
				if approves := slices.Contains(rule.Resources, "virtualmachinetemplates/approve") || slices.Contains(rule.Verbs, "bypass-approval"); approves && name != "approver" {
					t.Errorf("%s approves: %v", role.Name, rule)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: roles and what they are added to (-want +got):\n%s", values, diff)
		}
	}
}

// The roles of users permit one kind only: not its status, and nothing with virtual machines.
func TestRolesOfUsers(t *testing.T) {
	t.Parallel()
	verbs := map[string]string{"view": "get list watch", "edit": "get list watch create update patch delete deletecollection"}
	for _, kind := range []struct {
		value, prefix, group, resource string
		to                             map[string]string
	}{
		{"rollouts", "virtward-rollouts-", "rollout.virtward.io", "virtualmachinerollouts", map[string]string{"view": "view", "edit": "edit"}},
		{"policies.exceptions", "virtward-policy-exceptions-", "policy.virtward.io", "virtualmachinepolicyexceptions", map[string]string{"view": "view", "edit": "admin"}},
	} {
		for _, aggregated := range []bool{true, false} {
			got := map[string]string{}
			for _, role := range every[*rbacv1.ClusterRole](render(t, fmt.Sprintf("%s.aggregateRoles=%t", kind.value, aggregated))) {
				name, found := strings.CutPrefix(role.Name, kind.prefix)
				if !found {
					continue
				}
				if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].APIGroups, []string{kind.group}) || !slices.Equal(role.Rules[0].Resources, []string{kind.resource}) {
					t.Errorf("%s: rules %v", role.Name, role.Rules)
					continue
				}
				got[name] = strings.Join(role.Rules[0].Verbs, " ")
				if _, to := role.Labels["rbac.authorization.k8s.io/aggregate-to-"+kind.to[name]]; to != aggregated {
					t.Errorf("%s is aggregated: %t", role.Name, to)
				}
			}
			if diff := cmp.Diff(verbs, got); diff != "" {
				t.Errorf("verbs (-want +got):\n%s", diff)
			}
		}
	}
}

// Rollouts and golden images need their guards.
func TestFeaturesWithoutGuards(t *testing.T) {
	t.Parallel()
	output, err := helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{"guards.rollouts.enabled=false"})...)...)
	if err == nil || !strings.Contains(output, "guards.rollouts.enabled is false and rollouts.enabled is true") {
		t.Errorf("rollouts without their guard: %v %s", err, output)
	}
	output, err = helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{"guards.goldenImages.enabled=false", "goldenImages.enabled=true"})...)...)
	if err == nil || !strings.Contains(output, "guards.goldenImages.enabled is false and goldenImages.enabled is true") {
		t.Errorf("golden images without their guards: %v %s", err, output)
	}
	output, err = helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{"guards.nodes.enabled=false", "nodes.labeller.enabled=true"})...)...)
	if err == nil || !strings.Contains(output, "guards.nodes.enabled is false and nodes.labeller.enabled is true") {
		t.Errorf("the node labeller without its guard: %v %s", err, output)
	}
}

// ConfigMaps are read in the namespaces that hold parameters of policies, and nowhere else.
func TestParamsNamespaces(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		`policies.paramsNamespaces=[]`:                  {namespace},
		`policies.paramsNamespaces=["params","site-a"]`: {"params", "site-a"},
	} {
		objects := render(t, values)
		granted, bound := []string{}, []string{}
		for _, role := range every[*rbacv1.Role](objects) {
			if slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Resources, "configmaps") && len(r.ResourceNames) == 0
			}) {
				granted = append(granted, role.Namespace)
				if diff := cmp.Diff([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}}, role.Rules); diff != "" {
					t.Errorf("%s: rules (-want +got):\n%s", values, diff)
				}
			}
		}
		for _, binding := range every[*rbacv1.RoleBinding](objects) {
			if binding.RoleRef.Name == "virtward-webhook-params" && cmp.Equal(binding.Subjects, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "virtward-webhook", Namespace: namespace}}) {
				bound = append(bound, binding.Namespace)
			}
		}
		slices.Sort(granted)
		slices.Sort(bound)
		if !cmp.Equal(granted, want) || !cmp.Equal(bound, want) {
			t.Errorf("%s: granted in %v, bound in %v, want %v", values, granted, bound, want)
		}
		for _, role := range every[*rbacv1.ClusterRole](objects) {
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "configmaps") {
					t.Errorf("%s: the ClusterRole may %v ConfigMaps", values, rule.Verbs)
				}
			}
		}
		for _, deployment := range every[*appsv1.Deployment](objects) {
			args := deployment.Spec.Template.Spec.Containers[0].Args
			for _, name := range want {
				if named := slices.Contains(args, "--params-namespace="+name); deployment.Name == "virtward-webhook" && named == (name == namespace) {
					t.Errorf("%s: arguments %v", values, args)
				}
			}
		}
	}
}

// isQuestion reports whether a rule is that of SubjectAccessReviews, which are created and never stored.
func isQuestion(rule rbacv1.PolicyRule) bool {
	return cmp.Equal(rule, rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}})
}

func checkRule(t *testing.T, rule rbacv1.PolicyRule) {
	t.Helper()
	for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
		if slices.Contains(words, "*") {
			t.Errorf("a wildcard in %v", rule)
		}
	}
}

func writes(rule rbacv1.PolicyRule) []string {
	return slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool {
		return slices.Contains([]string{"get", "list", "watch"}, verb)
	})
}

func TestNetworkPolicy(t *testing.T) {
	ports := func(names ...string) (all []networkingv1.NetworkPolicyPort) {
		for _, name := range names {
			all = append(all, networkingv1.NetworkPolicyPort{Port: new(intstr.FromString(name)), Protocol: new(corev1.ProtocolTCP)})
		}
		return all
	}
	from := func(namespaces ...string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
		}}}}
	}
	controller := networkingv1.NetworkPolicyIngressRule{Ports: ports("policy-counts"), From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		"app.kubernetes.io/name": "virtward", "app.kubernetes.io/instance": "virtward", "app.kubernetes.io/component": "controller",
	}}}}}
	for _, c := range []struct {
		values string
		want   []networkingv1.NetworkPolicyIngressRule
	}{
		{`networkPolicy={}`, []networkingv1.NetworkPolicyIngressRule{{Ports: ports("webhook", "deletions")}, controller, {Ports: ports("metrics"), From: from("monitoring")}}},
		{`networkPolicy={"apiServerCIDRs":["10.0.0.0/24"],"metricsNamespaces":[]}`, []networkingv1.NetworkPolicyIngressRule{
			{Ports: ports("webhook", "deletions"), From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/24"}}}}, controller,
		}},
	} {
		got := only[*networkingv1.NetworkPolicy](t, render(t, c.values)).Spec.Ingress
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: ingress (-want +got):\n%s", c.values, diff)
		}
	}
}

// The guards are those of admissionpolicies, with the chart's labels added.
func TestGuards(t *testing.T) {
	for values, namespaces := range map[string]admissionpolicies.Namespaces{
		`guards.templates.kubevirtNamespace=""`:              admissionpolicies.DefaultNamespaces,
		`guards.templates.kubevirtNamespace="openshift-cnv"`: {Virtward: namespace, KubeVirt: "openshift-cnv"},
	} {
		guardsAre(t, values, namespaces)
	}
}

func guardsAre(t *testing.T, values string, namespaces admissionpolicies.Namespaces) {
	t.Helper()
	sources, err := admissionpolicies.ObjectsFor(namespaces)
	if err != nil {
		t.Fatal(err)
	}
	rendered := map[string]map[string]any{}
	for _, object := range render(t, values, "templates.imports.enabled=true", "templates.exports.enabled=true", `templates.exports.ingress.domain="exports.example.com"`, `templates.exports.server.image={"repository":"localhost/virtward/virtward-export-server","tag":"dev"}`, `templates.imports.server.image={"repository":"localhost/virtward/virtward-import-server","tag":"dev"}`, `templates.imports.sources.verified=["Appliances.Example.com","*.verified.example.com","index.docker.io"]`) {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		rendered[kind+" "+object.GetName()] = toUnstructured(t, object)
	}
	for _, source := range sources {
		id := source.GetKind() + " " + source.GetName()
		got := &unstructured.Unstructured{Object: rendered[id]}
		if diff := cmp.Diff(source.Object["spec"], got.Object["spec"]); diff != "" {
			t.Errorf("%s (-source +chart):\n%s", id, diff)
		}
	}
}

// The definitions are those that are generated, and stay when the release goes.
func TestDefinitions(t *testing.T) {
	var files []string
	for _, definitions := range []string{"definitions", "template-definitions"} {
		some, err := filepath.Glob(filepath.Join(root, folder, definitions, "*.yaml"))
		if err != nil || len(some) == 0 {
			t.Fatalf("%s: %v %v", definitions, some, err)
		}
		files = append(files, some...)
	}
	rendered := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, definition := range every[*apiextensionsv1.CustomResourceDefinition](render(t, "templates.imports.enabled=true", "templates.exports.enabled=true")) {
		rendered[definition.Name] = definition
	}
	if len(rendered) != len(files) {
		t.Errorf("%d definitions are rendered of %d files", len(rendered), len(files))
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, want); err != nil {
			t.Fatal(err)
		}
		got := rendered[want.Name]
		if got == nil {
			t.Fatalf("%s is not rendered", want.Name)
		}
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
			t.Errorf("%s (-generated +chart):\n%s", want.Name, diff)
		}
		if policy := got.Annotations["helm.sh/resource-policy"]; policy != "keep" {
			t.Errorf("%s: the resource policy is %q", want.Name, policy)
		}
	}
}

// Approval needs Virtward's own API, and the chart says so.
func TestApprovalNeedsOwnTemplates(t *testing.T) {
	t.Parallel()
	output, err := helm(t, append([]string{"template", release, folder}, set([]string{`templates={"mode":"observe","requireApproval":true}`})...)...)
	if want := "templates.requireApproval needs Virtward to serve VM templates, but templates.mode is observe"; err == nil || !strings.Contains(output, want) {
		t.Errorf("got %v and %s, want %s", err, output, want)
	}
}

func TestSchemaRejects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, want string }{
		{`colour="red"`, "at '': additional properties 'colour' not allowed"},
		{`webhook.timeout=3`, "at '/webhook': additional properties 'timeout' not allowed"},
		{`webhook.timeoutSeconds=30`, "at '/webhook/timeoutSeconds': maximum: got 30, want 10"},
		{`webhook.timeoutSeconds="2s"`, "at '/webhook/timeoutSeconds': got string, want integer"},
		{`webhook.port=443`, "at '/webhook/port': minimum: got 443, want 1,024"},
		{`webhook.servicePort=0`, "at '/webhook/servicePort': minimum: got 0, want 1"},
		{`webhook.exemptNamespaces=["Infra"]`, "at '/webhook/exemptNamespaces/0': 'Infra' does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"},
		{`checks.enabled="yes"`, "at '/checks/enabled': got string, want boolean"},
		{`checks.failurePolicy="Warn"`, "at '/checks/failurePolicy': value must be one of 'Fail', 'Ignore'"},
		{`checks.timeoutSeconds=0`, "at '/checks/timeoutSeconds': minimum: got 0, want 1"},
		{`checks.timeoutSeconds=11`, "at '/checks/timeoutSeconds': maximum: got 11, want 10"},
		{`checks.rules=[]`, "at '/checks': additional properties 'rules' not allowed"},
		{`replicas=0`, "at '/replicas': minimum: got 0, want 1"},
		{`image.pullPolicy="Sometimes"`, "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"},
		{`image.digest="sha256:12"`, "at '/image/digest': 'sha256:12' does not match pattern '^(sha256:[a-f0-9]{64})?$'"},
		{`certificates.provider="acme"`, "at '/certificates/provider': value must be one of 'self', 'cert-manager'"},
		{`certificates.certManager.issuerRef={"kind":"ClusterIssuer"}`, "at '/certificates/certManager/issuerRef': properties 'name' required, if 'kind' exists"},
		{`certificates.certManager.duration="90d"`, "at '/certificates/certManager/duration': '90d' does not match pattern '^([0-9]+(h|m|s))+$'"},
		{`facts.rolloutStrategy="Live"`, "at '/facts/rolloutStrategy': value must be one of '', 'Stage', 'LiveUpdate'"},
		{`facts.mshvCPUModel=""`, "at '/facts/mshvCPUModel': '' does not match pattern '^[A-Za-z0-9_.-]+$'"},
		{`policies.paramsNamespaces=["Params"]`, "at '/policies/paramsNamespaces/0': 'Params' does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"},
		{`policies.references=["secrets"]`, "at '/policies/references/0': value must be one of 'configmaps', 'datasources', 'datavolumes', 'networkattachmentdefinitions', 'persistentvolumeclaims', 'storageclasses'"},
		{`policies.deletions.failurePolicy="Warn"`, "at '/policies/deletions/failurePolicy': value must be one of 'Fail', 'Ignore'"},
		{`templates.mode="serve"`, "at '/templates/mode': value must be one of 'auto', 'manage', 'observe'"},
		{`templates.requireApproval="yes"`, "at '/templates/requireApproval': got string, want boolean"},
		{`guards.ruleSettings.enabled="yes"`, "at '/guards/ruleSettings/enabled': got string, want boolean"},
		{`guards.templates.kubevirtNamespace="Kube Virt"`, "at '/guards/templates/kubevirtNamespace': 'Kube Virt' does not match pattern"},
		{`guards.policies.enabled="yes"`, "at '/guards/policies/enabled': got string, want boolean"},
		{`guards.kubevirt.enabled="yes"`, "at '/guards/kubevirt/enabled': got string, want boolean"},
		{`goldenImages.commonImages=[{"metadata":{"name":"a","namespace":"b"},"spec":{"schedule":"","managedDataSource":"a","template":{"spec":{"source":{"registry":{}}}}}}]`, "at '/goldenImages/commonImages/0/metadata': additional properties 'namespace' not allowed"},
		{`goldenImages.commonImages=[{"metadata":{"name":"a"},"spec":{"schedule":"","managedDataSource":"a","template":{"spec":{"source":{"pvc":{}}}}}}]`, "at '/goldenImages/commonImages/0/spec/template/spec/source': missing property 'registry'"},
		{`goldenImages.commonImages=[{"metadata":{"name":"a"}}]`, "at '/goldenImages/commonImages/0': missing property 'spec'"},
		{`goldenImages.registries.networks=["10.1.0.0"]`, "at '/goldenImages/registries/networks/0': '10.1.0.0' does not match pattern"},
		{`goldenImages.registries.credentials=[{"secrets":["a"]}]`, "at '/goldenImages/registries/credentials/0': missing property 'namespace'"},
		{`log.level="loud"`, "at '/log/level': value must be one of 'debug', 'info', 'warn', 'error'"},
		{`log.format="xml"`, "at '/log/format': value must be one of 'json', 'text'"},
		{`networkPolicy.apiServerCIDRs=["10.0.0.1"]`, `at '/networkPolicy/apiServerCIDRs/0': '10.0.0.1' does not match pattern '^[0-9a-fA-F.:]+/[0-9]{1,3}$'`},
		{`resources.requests.memory="96 MB"`, `at '/resources/requests/memory': '96 MB' does not match pattern '^\\+?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$'`},
		{`resources.requests.memory="1gi"`, "at '/resources/requests/memory': '1gi' does not match pattern"},
		{`resources.requests.cpu="-1"`, "at '/resources/requests/cpu': '-1' does not match pattern"},
		{`resources.requests.cpu="."`, "at '/resources/requests/cpu': '.' does not match pattern"},
		{`resources.requests.cpu="1e"`, "at '/resources/requests/cpu': '1e' does not match pattern"},
		{`resources.requests.cpu=-1`, "at '/resources/requests/cpu': minimum: got -1, want 0"},
		{`pod.runAsUser=0`, "at '/pod/runAsUser': minimum: got 0, want 1"},
	} {
		t.Run(c.value, func(t *testing.T) {
			t.Parallel()
			output, err := helm(t, "template", release, folder, "--set-json", c.value)
			if err == nil {
				t.Fatalf("rendered, but should be rejected: %s", c.want)
			}
			if !strings.Contains(output, "- "+c.want) {
				t.Errorf("rejected with\n%s\nwhich does not say\n%s", output, c.want)
			}
		})
	}
}

// The schema takes every quantity that Kubernetes takes, and what is rendered is that quantity.
func TestQuantities(t *testing.T) {
	t.Parallel()
	names := []string{
		"1", "0.5", ".5", "5.", "+1", "007", "100n", "500u", "250m", "1k", "1M", "1G", "1T", "1P", "1E",
		"1Ki", "96Mi", "1.5Gi", "1Ti", "1Pi", "1Ei", "1e9", "1E9", "1e+9", "1e-3", "12E6",
	}
	given, want := map[string]string{}, map[string]string{}
	for i, text := range names {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatalf("%s is no quantity: %v", text, err)
		}
		name := fmt.Sprintf("example.com/r%d", i)
		given[name], want[name] = text, quantity.String()
	}
	values, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	requests := only[*appsv1.Deployment](t, render(t, "resources.requests="+string(values), "resources.limits.cpu=1e9")).Spec.Template.Spec.Containers[0].Resources
	for name, quantity := range requests.Requests {
		if _, requested := want[string(name)]; requested { // not a default
			got[string(name)] = quantity.String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if cpu := requests.Limits.Cpu(); cpu.Value() != 1_000_000_000 {
		t.Errorf("a number: %s", cpu)
	}
}

// Whatever value is taken away, with null, the schema says that it is missing, or the chart does without it.
func TestNulls(t *testing.T) {
	t.Parallel()
	var paths []string
	nodes(&paths, "", chartValues(t))
	slices.Sort(paths)
	every := 3
	switch {
	case soak.On():
		every = 1
	case testing.Short():
		every = 30
	}
	for i, path := range paths {
		if i%every != 0 {
			continue // make soak takes away every value, and a short run few of them
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			// The parts that are off by default are on here, so that every value is in use.
			output, err := helm(t, "template", release, folder, "--set-json", certManager,
				"--set-json", "metrics.serviceMonitor.enabled=true", "--set-json", path+"=null")
			if err != nil && !strings.Contains(output, "missing property '") && !strings.Contains(output, "missing properties ") && !strings.Contains(output, "minProperties: got 0, want 1") {
				t.Errorf("neither rendered nor rejected as missing:\n%s", output)
			}
			if line := regexp.MustCompile(`(?m)^.*(<nil>|- --\S+=)$`).FindString(output); line != "" {
				t.Errorf("an empty value was rendered: %s", line)
			}
		})
	}
}

// nodes collects the paths of all values, leaves and groups.
func nodes(into *[]string, prefix string, values map[string]any) {
	for key, value := range values {
		*into = append(*into, prefix+key)
		if group, ok := value.(map[string]any); ok {
			nodes(into, prefix+key+".", group)
		}
	}
}

// README.md lists every value with its default.
func TestReadmeListsTheValues(t *testing.T) {
	want := map[string]string{}
	flatten(want, "", chartValues(t))

	readme, err := os.ReadFile(filepath.Join(root, folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "## Values")
	got := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		got[row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-values.yaml +README.md):\n%s", diff)
	}
}

// chartValues are the chart's own, values.yaml.
func chartValues(t *testing.T) map[string]any {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func flatten(into map[string]string, prefix string, values map[string]any) {
	for key, value := range values {
		path := prefix + key
		switch v := value.(type) {
		case map[string]any:
			if len(v) == 0 {
				into[path] = "{}"
			}
			flatten(into, path+".", v)
		case string:
			into[path] = v
			if v == "" {
				into[path] = `""`
			}
		default:
			into[path] = fmt.Sprint(v)
		}
	}
}
