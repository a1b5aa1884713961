package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// pool has one control plane. A chart is what a cluster has once, so each test has it for itself.
var pool planes.Pool

func TestMain(m *testing.M) { os.Exit(pool.Main(m)) }

// The life of an installation on a real API server, in the order in which it happens.
func TestInstallation(t *testing.T) {
	started := pool.Take(t)
	i := &installation{ctx: t.Context(), controlPlane: started, client: started.Client()}
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"installs into a restricted namespace", i.installs},
		{"its pods are restricted", i.podsAreRestricted},
		{"the controller fills the Secret and the configurations", i.fill},
		{"an upgrade keeps the certificate", i.upgradeKeepsCertificate},
		{"an upgrade takes all values at once", i.everything},
		{"a value switches the checks off, and on again", i.unchecked},
		{"kubectl virtward disable switches everything off", i.disable},
		{"an upgrade leaves it off, and says so", i.upgradeWhileOff},
		{"an upgrade can take a webhook away while it is off", i.upgradeWithout},
		{"kubectl virtward enable switches it on", i.enable},
		{"one command switches everything off", i.switchOff},
		{"rule settings are written", i.settle},
		{"an upgrade switches it on again", i.switchOn},
		{"kubectl virtward uninstall leaves nothing but what it says", i.uninstall},
		{"installing again finds them", i.reinstall},
	} {
		if !t.Run(step.name, step.do) {
			return // what follows builds on it
		}
	}
}

type installation struct {
	ctx          context.Context
	controlPlane *controlplane.ControlPlane
	client       client.Client
	// held are objects with finalizers, from settle until the release is uninstalled.
	held []*unstructured.Unstructured
}

func (i *installation) install(t *testing.T, values map[string]any) {
	t.Helper()
	chart := controlplane.Chart{Dir: folder, Release: release, Namespace: namespace, Values: values}
	if err := i.controlPlane.InstallChart(i.ctx, chart); err != nil {
		t.Fatal(err)
	}
}

func (i *installation) installs(t *testing.T) {
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	must(t, i.client.Create(i.ctx, restricted))
	i.install(t, nil)
	if got := i.labelled(t); len(got) != 58 {
		t.Errorf("configurations of admission: %v, not 58", got)
	}
}

// podsAreRestricted creates the Deployment's pod by hand, for the namespace's pod security to evaluate.
func (i *installation) podsAreRestricted(t *testing.T) {
	deployment := &appsv1.Deployment{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-webhook"}, deployment))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-hand", Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	must(t, i.client.Create(i.ctx, pod, client.DryRunAll))
}

// fill writes, as the controller, what it writes of certificates.
func (i *installation) fill(t *testing.T) {
	config, err := i.controlPlane.ServiceAccountConfig(i.ctx, namespace, "virtward-controller")
	must(t, err)
	account, err := client.New(config, client.Options{Scheme: i.client.Scheme()})
	must(t, err)
	secret := &corev1.Secret{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-webhook-cert"}, secret))
	secret.Data = map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key")}
	must(t, account.Update(i.ctx, secret))
	written := func(object client.Object, path string, webhooks int) {
		t.Helper()
		var changes []map[string]any
		for n := range webhooks {
			at := fmt.Sprintf("/webhooks/%d/clientConfig", n)
			changes = append(changes, map[string]any{"op": "add", "path": at + "/caBundle", "value": i.bundle(t)}, map[string]any{"op": "add", "path": at + "/service/path", "value": path})
		}
		body, err := json.Marshal(changes)
		must(t, err)
		must(t, account.Patch(i.ctx, object, client.RawPatch(apitypes.JSONPatchType, body)))
	}
	written(i.mutator(t), pathOfMutator, 1)
	checks := &admissionv1.ValidatingWebhookConfiguration{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "validate.virtward.io"}, checks))
	written(checks, pathOfChecks, len(checks.Webhooks))
}

// The paths that the controller writes.
const (
	pathOfMutator = "/mutate/abcdefghijabcdefghijabcdef"
	pathOfChecks  = "/validate/abcdefghijabcdefghijabcdef"
)

// bundle is a CA bundle that is valid, as the API server insists.
func (i *installation) bundle(t *testing.T) []byte {
	t.Helper()
	return i.controlPlane.Config().CAData
}

func (i *installation) upgradeKeepsCertificate(t *testing.T) {
	i.install(t, map[string]any{"webhook": map[string]any{"timeoutSeconds": 3}, "checks": map[string]any{"timeoutSeconds": 5}})
	secret := &corev1.Secret{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-webhook-cert"}, secret))
	want := map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key")}
	if diff := cmp.Diff(want, secret.Data); diff != "" {
		t.Errorf("the Secret's data (-want +got):\n%s", diff)
	}
	webhook := i.mutator(t).Webhooks[0]
	if !bytes.Equal(webhook.ClientConfig.CABundle, i.bundle(t)) {
		t.Errorf("the CA bundle is %q", webhook.ClientConfig.CABundle)
	}
	if got := *webhook.ClientConfig.Service.Path; got != pathOfMutator {
		t.Errorf("the path is %s", got)
	}
	if *webhook.TimeoutSeconds != 3 {
		t.Errorf("the timeout is %d, not 3", *webhook.TimeoutSeconds)
	}
	checks := &admissionv1.ValidatingWebhookConfiguration{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "validate.virtward.io"}, checks))
	for _, check := range checks.Webhooks {
		if !bytes.Equal(check.ClientConfig.CABundle, i.bundle(t)) {
			t.Errorf("the CA bundle of %s is %q", check.Name, check.ClientConfig.CABundle)
		}
		if got := *check.ClientConfig.Service.Path; got != pathOfChecks {
			t.Errorf("the path of %s is %s", check.Name, got)
		}
		if *check.TimeoutSeconds != 5 {
			t.Errorf("the timeout of %s is %d, not 5", check.Name, *check.TimeoutSeconds)
		}
	}
}

// everything installs the values of .ci/verify-chart, without the kinds of the Prometheus operator, which the cluster does not have. The
// API server accepts each object, and the accounts can review who reads metrics.
func (i *installation) everything(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, folder, "ci", "everything.yaml"))
	must(t, err)
	values := map[string]any{}
	must(t, yaml.Unmarshal(content, &values))
	for _, kind := range []string{"serviceMonitor", "prometheusRule"} {
		must(t, unstructured.SetNestedField(values, false, "metrics", kind, "enabled"))
	}
	i.install(t, values)
	for name := range sections() {
		deployment, account := &appsv1.Deployment{}, &corev1.ServiceAccount{}
		must(t, i.client.Get(i.ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment))
		must(t, i.client.Get(i.ctx, client.ObjectKey{Namespace: namespace, Name: name}, account))
		if deployment.Labels["team"] != "platform" || deployment.Annotations["example.com/contact"] != "platform@example.com" || account.Annotations["example.com/role"] != "virtward" {
			t.Errorf("%s has the labels %v and the annotations %v, %v", name, deployment.Labels, deployment.Annotations, account.Annotations)
		}
		config, err := i.controlPlane.ServiceAccountConfig(i.ctx, namespace, name)
		must(t, err)
		reviewer, err := client.New(config, client.Options{Scheme: i.client.Scheme()})
		must(t, err)
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: config.BearerToken}}
		must(t, reviewer.Create(i.ctx, review))
		if !review.Status.Authenticated {
			t.Errorf("%s: its own token is not valid: %+v", name, review.Status)
		}
	}
}

// apis returns the names of the APIServices of VM templates, sorted.
func (i *installation) apis(t *testing.T) []string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apiregistration.k8s.io/v1")
	list.SetKind("APIServiceList")
	must(t, i.client.List(i.ctx, list, client.MatchingLabels{"app.kubernetes.io/part-of": "virtward"}))
	var names []string
	for n := range list.Items {
		names = append(names, list.Items[n].GetName())
	}
	slices.Sort(names)
	return names
}

// unanswered waits until the API server knows that no process serves the API of VM templates.
func (i *installation) unanswered(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextTimeout(i.ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return strings.Count(i.status(t), "not available: ") == 2, nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, i.status(t))
	}
}

// unchecked installs everything but the checks.
func (i *installation) unchecked(t *testing.T) {
	i.install(t, map[string]any{"checks": map[string]any{"enabled": false}})
	if got := i.labelled(t); len(got) != 57 || slices.Contains(got, "ValidatingWebhookConfiguration validate.virtward.io") {
		t.Errorf("configurations of admission: %v, not all but the checks", got)
	}
	i.admits(t)
	i.install(t, map[string]any{"checks": map[string]any{"enabled": true}})
	if got := i.labelled(t); len(got) != 58 {
		t.Errorf("configurations of admission: %v, not 58", got)
	}
}

// disable runs Virtward's command. No webhook is served here, so validated objects are rejected before, and admitted
// after.
func (i *installation) disable(t *testing.T) {
	i.rejects(t)
	i.unanswered(t)
	said := i.virtward(t, "disable", "--reason", "a test of the chart")
	for _, want := range []string{
		"APIService v1alpha1.subresources.template.kubevirt.io: removed, because it does not answer",
		"APIService v1beta1.subresources.template.kubevirt.io: removed, because it does not answer",
		"MutatingWebhookConfiguration mutate.virtward.io: switched off\n",
		"ValidatingWebhookConfiguration validate.virtward.io: switched off\n",
		"ValidatingAdmissionPolicy virtward-policies: switched off\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q, but:\n%s", want, said)
		}
	}
	i.admits(t)
}

// upgradeWhileOff changes a value. What was switched off by hand is switched on by hand.
func (i *installation) upgradeWhileOff(t *testing.T) {
	i.install(t, map[string]any{"webhook": map[string]any{"timeoutSeconds": 4}})
	if got := *i.mutator(t).Webhooks[0].TimeoutSeconds; got != 4 {
		t.Errorf("the timeout is %d, not 4", got)
	}
	i.isOff(t, 13)
	if apis := i.apis(t); len(apis) > 0 {
		t.Errorf("the upgrade registers %v again", apis)
	}
	notes := i.helm(t, "get", "notes", release, "--namespace", namespace)
	if want := "Virtward is switched off, and stays so: a test of the chart (by "; !strings.Contains(notes, want) {
		t.Errorf("the notes do not say %q, but:\n%s", want, notes)
	}
}

// upgradeWithout upgrades to a chart that has one webhook less. It goes, although a part of it is not Helm's; what
// would be left of it otherwise is nothing that the API server accepts.
func (i *installation) upgradeWithout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "virtward")
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, folder))))
	file := filepath.Join(dir, "templates", "validatingwebhookconfiguration.yaml")
	content, err := os.ReadFile(file)
	must(t, err)
	before, rest, found := strings.Cut(string(content), "  - name: instancetypes.")
	_, after, ended := strings.Cut(rest, "\n  - name: ")
	if !found || !ended {
		t.Fatal("the template has no webhook of instancetypes, or none behind it")
	}
	must(t, os.WriteFile(file, []byte(before+"  - name: "+after), 0o600))
	must(t, i.controlPlane.InstallChart(i.ctx, controlplane.Chart{Dir: dir, Release: release, Namespace: namespace}))
	i.isOff(t, 12)
	i.install(t, nil)
	if status := i.status(t); !strings.Contains(status, "off in part (10 of 11)") {
		t.Errorf("a webhook that an upgrade adds is on; the status says\n%s", status)
	}
}

// enable switches on again what is off.
func (i *installation) enable(t *testing.T) {
	said := i.virtward(t, "enable")
	if want := "Virtward is on. It takes effect within seconds.\n"; !strings.Contains(said, want) {
		t.Errorf("it does not say %q, but:\n%s", want, said)
	}
	if status := i.status(t); switchedOff.MatchString(status) {
		t.Errorf("the status is\n%s", status)
	}
	if diff := cmp.Diff([]string{"v1alpha1.subresources.template.kubevirt.io", "v1beta1.subresources.template.kubevirt.io"}, i.apis(t)); diff != "" {
		t.Errorf("APIs of VM templates (-want +got):\n%s", diff)
	}
	i.rejects(t)
}

// isOff fails unless so many webhooks and policies are there, and every one of them has the condition that never holds.
func (i *installation) isOff(t *testing.T, count int) {
	t.Helper()
	mark := admissionv1.MatchCondition{Name: admissionpolicies.Disabled, Expression: "false"}
	found := 0
	expect := func(name string, conditions []admissionv1.MatchCondition) {
		found++
		if !slices.Contains(conditions, mark) {
			t.Errorf("%s is on: %v", name, conditions)
		}
	}
	for _, webhook := range i.mutator(t).Webhooks {
		expect(webhook.Name, webhook.MatchConditions)
	}
	checks := &admissionv1.ValidatingWebhookConfiguration{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "validate.virtward.io"}, checks))
	for _, webhook := range checks.Webhooks {
		expect(webhook.Name, webhook.MatchConditions)
	}
	guard := &admissionv1.ValidatingAdmissionPolicy{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "virtward-policies"}, guard))
	expect(guard.Name, guard.Spec.MatchConditions)
	if found != count {
		t.Errorf("%d webhooks and policies, not %d", found, count)
	}
}

// virtward runs our own command as the cluster admin, and returns all that it said.
func (i *installation) virtward(t *testing.T, words ...string) string {
	t.Helper()
	return i.run(t, filepath.Join(root, "bin", "kubectl-virtward"), words...)
}

// switchedOff matches a result of an object that is off.
var switchedOff = regexp.MustCompile(`(?m)^(switch|guards) .* off\b`)

// status returns what kubectl virtward status prints. Its exit code is not asserted: not all processes run.
func (i *installation) status(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(i.ctx, filepath.Join(root, "bin", "kubectl-virtward"), "status")
	command.Env = i.controlPlane.Environment(i.controlPlane.Kubeconfig())
	output, err := command.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(output)
}

// helm runs Helm against the cluster.
func (i *installation) helm(t *testing.T, words ...string) string {
	t.Helper()
	return i.run(t, filepath.Join(root, "bin", "tools", "helm"), words...)
}

func (i *installation) run(t *testing.T, binary string, words ...string) string {
	t.Helper()
	command := exec.CommandContext(i.ctx, binary, words...)
	command.Env = i.controlPlane.Environment(i.controlPlane.Kubeconfig())
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(binary), words, err, output)
	}
	return string(output)
}

// rejects waits until no validated object is admitted, because no webhook is served.
func (i *installation) rejects(t *testing.T) {
	t.Helper()
	for name, object := range i.checked() {
		i.eventually(t, name+" is rejected because the check cannot be called", func() error {
			err := i.client.Create(i.ctx, object, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "failed calling webhook \""+name+".validate.virtward.io\"") {
				return errors.New(fmt.Sprint("the answer is: ", err))
			}
			return nil
		})
	}
}

// admits waits until everything is admitted that is checked otherwise.
func (i *installation) admits(t *testing.T) {
	t.Helper()
	for name, object := range i.checked() {
		i.eventually(t, name+" is admitted", func() error { return i.client.Create(i.ctx, object, client.DryRunAll) })
	}
}

// switchOff runs the command in the README. No webhook is served here, so validated objects are rejected before, and
// admitted after.
func (i *installation) switchOff(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, folder, "README.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(content), "## Switching everything off\n\n")
	_, section, _ = strings.Cut(section, "-->\n\n") // why the tests of the pages do not run it
	line, _, _ := strings.Cut(section, "\n")
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "kubectl" {
		t.Fatalf("the README gives no command, but %q", line)
	}
	notes, err := os.ReadFile(filepath.Join(root, folder, "templates", "NOTES.txt"))
	must(t, err)
	if command := strings.TrimSpace(line); !strings.Contains(string(notes), command) {
		t.Errorf("the notes do not give the command %s", command)
	}
	i.rejects(t)
	i.run(t, filepath.Join(root, "bin", "sandbox", "kubectl"), words[1:]...)
	// The policies stay, and do nothing without their bindings.
	want := []string{
		"ValidatingAdmissionPolicy virtward-accounts", "ValidatingAdmissionPolicy virtward-copy-authors", "ValidatingAdmissionPolicy virtward-exempt-namespaces",
		"ValidatingAdmissionPolicy virtward-golden-image-catalogs", "ValidatingAdmissionPolicy virtward-golden-image-deletes", "ValidatingAdmissionPolicy virtward-golden-image-pointers", "ValidatingAdmissionPolicy virtward-golden-image-status", "ValidatingAdmissionPolicy virtward-golden-image-templates",
		"ValidatingAdmissionPolicy virtward-kubevirt-hypervisor", "ValidatingAdmissionPolicy virtward-kubevirt-hypervisor-effect",
		"ValidatingAdmissionPolicy virtward-node-labels",
		"ValidatingAdmissionPolicy virtward-policies", "ValidatingAdmissionPolicy virtward-policy-exceptions", "ValidatingAdmissionPolicy virtward-policy-status", "ValidatingAdmissionPolicy virtward-rollout-status", "ValidatingAdmissionPolicy virtward-rollouts", "ValidatingAdmissionPolicy virtward-rule-settings",
		"ValidatingAdmissionPolicy virtward-snapshot-contents",
		"ValidatingAdmissionPolicy virtward-template-approved-only", "ValidatingAdmissionPolicy virtward-template-capture", "ValidatingAdmissionPolicy virtward-template-cluster-kinds", "ValidatingAdmissionPolicy virtward-template-namespaces",
		"ValidatingAdmissionPolicy virtward-template-provenance", "ValidatingAdmissionPolicy virtward-template-request-labels", "ValidatingAdmissionPolicy virtward-template-status",
		"ValidatingAdmissionPolicy virtward-virtual-image-copies", "ValidatingAdmissionPolicy virtward-virtual-image-status", "ValidatingAdmissionPolicy virtward-virtual-images",
	}
	if diff := cmp.Diff(want, i.labelled(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	i.admits(t)
}

// checked is an object for each of the webhooks that check.
func (i *installation) checked() map[string]client.Object {
	vm := untyped("kubevirt.io/v1", "VirtualMachine", "checked")
	vm.SetNamespace(metav1.NamespaceDefault)
	vm.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}}
	instancetype := untyped("instancetype.kubevirt.io/v1beta1", "VirtualMachineClusterInstancetype", "checked")
	instancetype.Object["spec"] = map[string]any{"cpu": map[string]any{"guest": int64(1)}, "memory": map[string]any{"guest": "1Gi"}}
	return map[string]client.Object{"virtualmachines": vm, "instancetypes": instancetype, "rulesettings": ruleSettings("checked")}
}

// eventually waits for what the API server does a moment after its configuration has changed.
func (i *installation) eventually(t *testing.T, what string, do func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(i.ctx, 50*time.Millisecond, await.Patience, true, func(context.Context) (bool, error) {
		last = do()
		return last == nil, nil
	})
	if err != nil {
		t.Errorf("%s: %v", what, last)
	}
}

// left is a namespace with objects that have finalizers of Virtward.
const left = "left"

// settle writes a RuleSettings, and objects with finalizers, while no webhook is called.
func (i *installation) settle(t *testing.T) {
	must(t, i.client.Create(i.ctx, ruleSettings("kept")))
	must(t, i.controlPlane.EnsureNamespace(i.ctx, left))
	i.held = []*unstructured.Unstructured{
		untyped("kupenstack.io/v1alpha1", "VirtualImage", "held"), untyped("kupenstack.io/v1alpha1", "VirtualImage", "deleted"),
		untyped("template.kubevirt.io/v1beta1", "VirtualMachineTemplateRequest", "held"),
	}
	finalizers := map[string]string{"VirtualImage": "kupenstack.io/virtual-image", "VirtualMachineTemplateRequest": "template.kubevirt.io/SnapshotCleanup"}
	for _, object := range i.held {
		object.SetNamespace(left)
		object.SetFinalizers([]string{"example.com/others", finalizers[object.GetKind()]})
		object.Object["spec"] = map[string]any{"src": "https://example.com/a.qcow2", "format": "qcow2"}
		if object.GetKind() != "VirtualImage" {
			object.Object["spec"] = map[string]any{"virtualMachineRef": map[string]any{"namespace": left, "name": "web"}}
		}
		must(t, i.client.Create(i.ctx, object))
	}
	must(t, i.client.Delete(i.ctx, i.held[1]))
	i.leaveTraces(t)
}

// leaveTraces creates one of everything that processes and users write, while no guard is active.
func (i *installation) leaveTraces(t *testing.T) {
	t.Helper()
	closed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "closed", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}}}
	exported := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: export.Prefix + "cap", Labels: map[string]string{export.ManagedBy: export.Manager}},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualmachines"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "true"}},
		},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: processes.Controller}}
	// A user can set the labels of Virtward on their own objects.
	imitation := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: left, Name: "imitation", Labels: map[string]string{"app.kubernetes.io/part-of": "virtward"}}}
	vm := i.checked()["virtualmachines"]
	vm.SetName("changed")
	vm.SetAnnotations(map[string]string{"rollout.virtward.io/pending": "{}"})
	for _, object := range []client.Object{closed, exported, lease, imitation, vm} {
		must(t, i.client.Create(i.ctx, object))
	}
}

func (i *installation) switchOn(t *testing.T) {
	i.install(t, map[string]any{"audit": map[string]any{"reports": map[string]any{"installCRDs": true}}})
	if got := i.labelled(t); len(got) != 58 {
		t.Errorf("configurations of admission: %v, not 58", got)
	}
}

// plan is what kubectl virtward uninstall prints.
type plan struct {
	Steps []struct{ Name string }
	Left  []struct {
		Kind  string
		Names []string
	}
	Needs []struct{ Flag string }
}

// runUninstall runs the command, and returns what it prints and its exit code.
func (i *installation) runUninstall(ctx context.Context, t *testing.T, words ...string) (printed plan, errOut string, code int) {
	t.Helper()
	command := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-virtward"), append([]string{"uninstall", "-o", "json", "--helm", filepath.Join(root, "bin", "tools", "helm")}, words...)...)
	command.Env = i.controlPlane.Environment(i.controlPlane.Kubeconfig())
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
	}
	return printed, errs.String(), command.ProcessState.ExitCode()
}

// said are the objects that the command says are left, except for objects of users that it does not name.
func (p *plan) said() []string {
	var all []string
	for _, l := range p.Left {
		for _, name := range l.Names {
			all = append(all, l.Kind+" "+name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// traces are all objects of the cluster that have a name, a label or an annotation of Virtward, or are of its kinds.
func (i *installation) traces(t *testing.T) []string {
	t.Helper()
	config := i.controlPlane.Config()
	config.WarningHandler = rest.NoWarnings{}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	objects, err := metadata.NewForConfig(config)
	must(t, err)
	lists, err := discoverer.ServerPreferredResources()
	if !discovery.IsGroupDiscoveryFailedError(err) { // nothing serves the APIs of VM templates here
		must(t, err)
	}
	own := regexp.MustCompile(`(^|[ ./])virtward\b|kupenstack\.io|template\.kubevirt\.io`)
	var all []string
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, resource := range list.APIResources {
			if resource.Kind == "Event" || version.Group == "apps" && resource.Kind == "ReplicaSet" {
				continue
			}
			found, err := objects.Resource(version.WithResource(resource.Name)).List(i.ctx, metav1.ListOptions{})
			must(t, err)
			for n := range found.Items {
				o := &found.Items[n]
				if o.Labels["kube-aggregator.kubernetes.io/automanaged"] != "" {
					continue // the API server makes it of a definition
				}
				title := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
				text := o.Name + " " + version.Group
				if resource.Kind == "CustomResourceDefinition" {
					text = "" // the name of the kind says nothing about who installed it
				}
				for _, pairs := range []map[string]string{o.Labels, o.Annotations} {
					for key, value := range pairs {
						if key != "kubectl.kubernetes.io/last-applied-configuration" && key != "kubernetes.io/metadata.name" {
							text += " " + key + " " + value
						}
					}
				}
				if own.MatchString(text) {
					all = append(all, resource.Kind+" "+title)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// uninstall: no finalizer of Virtward keeps an object or a namespace, and nothing is left but what the command says.
func (i *installation) uninstall(t *testing.T) {
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "virtward-approval-keys"}}
	must(t, i.client.Patch(i.ctx, keys, client.RawPatch(apitypes.MergePatchType, []byte(`{"stringData":{"key.1":"kept"}}`))))
	report := untyped("openreports.io/v1alpha1", "Report", "virtward")
	delete(report.Object, "spec")
	report.SetNamespace(left)
	report.SetLabels(map[string]string{export.ManagedBy: export.Manager})
	report.Object["source"] = "virtward"
	i.eventually(t, "the Report is created", func() error { return i.client.Create(i.ctx, report) })

	before := i.traces(t)
	promised, said, code := i.runUninstall(i.ctx, t, "--dry-run")
	if code != 0 || len(promised.Steps) != 3 || len(promised.Needs) != 1 || !strings.Contains(said, "needed: --open-namespaces: ") {
		t.Errorf("the dry run: code %d, %+v\n%s", code, promised, said)
	}
	for words, want := range map[string]string{"": "add --open-namespaces", "--yes": "add --open-namespaces", "--open-namespaces": "add --yes to uninstall without confirmation"} {
		if _, said, code := i.runUninstall(i.ctx, t, strings.Fields(words)...); code != 2 || !strings.Contains(said, want) {
			t.Errorf("%q: code %d, want %q in\n%s", words, code, want, said)
		}
	}
	if diff := cmp.Diff(before, i.traces(t)); diff != "" {
		t.Fatalf("without confirmation (-before +after):\n%s", diff)
	}
	must(t, i.controlPlane.Uninstall(i.ctx, namespace, func(ctx context.Context) error {
		got, said, code := i.runUninstall(ctx, t, "--yes", "--open-namespaces")
		if code != 0 || len(got.Steps) > 0 {
			return fmt.Errorf("code %d, %+v\n%s", code, got.Steps, said)
		}
		if diff := cmp.Diff(promised.said(), got.said()); diff != "" {
			t.Errorf("what is left (-dry run +afterwards):\n%s", diff)
		}
		return nil
	}))
	// A user has this one, and the command says nothing about labels of users' objects.
	want := slices.Concat(promised.said(), []string{"ConfigMap " + left + "/imitation"})
	slices.Sort(want)
	if diff := cmp.Diff(want, i.traces(t)); diff != "" {
		t.Errorf("what the cluster has (-said +is there):\n%s", diff)
	}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "kept"}, ruleSettings("kept")))
	i.keepsApprovalKeys(t)
	if got := i.labelled(t); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	for _, object := range i.held {
		must(t, i.client.Get(i.ctx, client.ObjectKeyFromObject(object), object))
		if got := object.GetFinalizers(); !slices.Equal(got, []string{"example.com/others"}) {
			t.Errorf("%s %s has the finalizers %v", object.GetKind(), object.GetName(), got)
		}
		object.SetFinalizers(nil)
		must(t, i.client.Update(i.ctx, object))
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: left}}
	must(t, i.client.Delete(i.ctx, space))
	await.Until(t, func() error {
		if err := i.client.Get(i.ctx, client.ObjectKeyFromObject(space), space); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace exists: %w, %+v", err, space.Status)
		}
		return nil
	})
	for kind, name := range map[string]client.Object{"Job": &batchv1.Job{}, "ClusterRole": &rbacv1.ClusterRole{}, "ServiceAccount": &corev1.ServiceAccount{}} {
		if err := i.client.Get(i.ctx, client.ObjectKey{Namespace: namespaceOf(name), Name: "virtward-uninstall"}, name); !apierrors.IsNotFound(err) {
			t.Errorf("the %s of the uninstallation: %v", kind, err)
		}
	}
}

// namespaceOf is the namespace of an object of the release; empty if its kind has none.
func namespaceOf(object client.Object) string {
	if _, cluster := object.(*rbacv1.ClusterRole); cluster {
		return ""
	}
	return namespace
}

// reinstall takes over the definition that the release before has left, with the objects of its kind.
func (i *installation) reinstall(t *testing.T) {
	i.install(t, nil)
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "kept"}, ruleSettings("kept")))
	i.keepsApprovalKeys(t)
}

// keepsApprovalKeys fails unless approvals of before count still.
func (i *installation) keepsApprovalKeys(t *testing.T) {
	t.Helper()
	keys := &corev1.Secret{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-approval-keys"}, keys))
	if string(keys.Data["key.1"]) != "kept" {
		t.Errorf("the keys of approvals are %d entries", len(keys.Data))
	}
}

func ruleSettings(name string) *unstructured.Unstructured {
	return untyped("policy.virtward.io/v1alpha1", "RuleSettings", name)
}

// untyped is an object of a kind that says nothing.
func untyped(version, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetName(name)
	return object
}

func (i *installation) mutator(t *testing.T) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	object := &admissionv1.MutatingWebhookConfiguration{}
	must(t, i.client.Get(i.ctx, client.ObjectKey{Name: "mutate.virtward.io"}, object))
	return object
}

// labelled returns Virtward's objects that take part in admission.
func (i *installation) labelled(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(kind + "List"))
		must(t, i.client.List(i.ctx, list, client.MatchingLabels{"app.kubernetes.io/part-of": "virtward"}))
		for _, item := range list.Items {
			names = append(names, kind+" "+item.GetName())
		}
	}
	return names
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
