package guards

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

const policiesDoc = "docs/policy-rights.md"

// The messages of the guard to an author.
const (
	deniesMake   = "policy-enforce: spec.enforcement: this makes the policy deny: you need the verb enforce on virtualmachinepolicies.policy.virtward.io"
	deniesChange = "policy-enforce: spec: this changes a policy that denies: you need the verb enforce on virtualmachinepolicies.policy.virtward.io"
	deniesDelete = "policy-enforce: metadata.name: this deletes a policy that denies: you need the verb enforce on virtualmachinepolicies.policy.virtward.io"
)

// policyCluster is a cluster with the users of VirtualMachinePolicies.
type policyCluster struct{ *userCluster }

func TestPolicies(t *testing.T) {
	cases, err := admissionpolicies.PolicyCases()
	if err != nil {
		t.Fatal(err)
	}
	c := newPolicyCluster(t)
	for i := range cases {
		if cases[i].Object == "" {
			cases[i].Object = fmt.Sprintf("case-%d", i)
		}
		if cases[i].Old != nil { // before the guard is there
			c.create(t, policy(cases[i].Object, *cases[i].Old))
		}
	}
	exceptions := c.exceptionCases(t)
	c.guard(t)
	for _, each := range cases {
		t.Run(each.Name, func(t *testing.T) { c.evaluate(t, each) })
	}
	for i, each := range exceptions {
		t.Run(each.Name, func(t *testing.T) { c.evaluateException(t, i, each) })
	}
	t.Run("each policy of an exception is checked", c.eachExempted)
	t.Run("type checking of the guard of exceptions", func(t *testing.T) { c.typeChecks(t, admissionpolicies.PolicyExceptions) })
	t.Run("a name that the server makes", c.generatedName)
	t.Run("a delete of all", c.deleteCollection)
	t.Run("only finalizers", c.finalizers)
	t.Run("an owner that is gone", c.owner)
	t.Run("the status", c.status)
	t.Run("the largest objects", c.largest)
	t.Run("kubectl", c.kubectl)
	t.Run("type checking", func(t *testing.T) { c.typeChecks(t, admissionpolicies.Policies) })
	t.Run("type checking of the guard of statuses", func(t *testing.T) { c.typeChecks(t, admissionpolicies.PolicyStatus) })
}

func newPolicyCluster(t *testing.T) *policyCluster {
	t.Helper()
	c := &policyCluster{newUserCluster(t, policiesDoc)}
	for name, rule := range map[string]rbacv1.PolicyRule{
		"enforcer-of-caps": {Resources: []string{"virtualmachinepolicies"}, Verbs: []string{policyv1alpha1.VerbEnforce}, ResourceNames: []string{"caps"}},
		"cleaner":          {Resources: []string{"virtualmachinepolicies"}, Verbs: []string{"deletecollection"}},
		"status-writer":    {Resources: []string{"virtualmachinepolicies/status"}, Verbs: []string{"update", "patch"}},
		"exempter-of-all":  {Resources: []string{"virtualmachinepolicies"}, Verbs: []string{policyv1alpha1.VerbExempt}},
		"exempter-of-16":   {Resources: []string{"virtualmachinepolicies"}, Verbs: []string{policyv1alpha1.VerbExempt}, ResourceNames: numbered(16)},
	} {
		rule.APIGroups = []string{policyv1alpha1.GroupVersion.Group}
		c.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
	}
	c.user(t, "author", "policy-author")
	c.user(t, "enforcer", "policy-author", "policy-enforcer")
	c.user(t, "enforcer-of-caps", "policy-author", "enforcer-of-caps")
	c.user(t, "cleaner", "policy-author", "cleaner")
	c.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reviewer"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"},
	}}})
	c.user(t, "reviewer", "policy-author", "reviewer")
	for _, user := range []string{"status-writer", statusController, statusExport, statusImposter} {
		c.user(t, user, "policy-author", "status-writer")
	}
	c.user(t, "reader", "policy-author")
	if err := c.EnsureNamespace(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	limits := metav1.ObjectMeta{Namespace: "shop", Name: "read-limits"}
	c.create(t, &rbacv1.Role{ObjectMeta: limits, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}, ResourceNames: []string{"limits"},
	}}})
	c.create(t, &rbacv1.RoleBinding{
		ObjectMeta: limits,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: limits.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	})
	return c
}

func policy(name string, spec policyv1alpha1.VirtualMachinePolicySpec) *policyv1alpha1.VirtualMachinePolicy {
	return &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec.DeepCopy()}
}

// denying is the shortest policy that denies.
func denying() policyv1alpha1.VirtualMachinePolicySpec {
	return policyv1alpha1.VirtualMachinePolicySpec{
		Enforcement: policyv1alpha1.PolicyDeny,
		Validations: []policyv1alpha1.PolicyValidation{{Expression: "true", Message: "never"}},
	}
}

func (c *policyCluster) evaluate(t *testing.T, each admissionpolicies.PolicyCase) {
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	var err error
	switch {
	case each.Old == nil:
		err = user.Create(t.Context(), policy(each.Object, *each.New), client.DryRunAll)
	case each.New == nil:
		err = user.Delete(t.Context(), policy(each.Object, *each.Old), client.DryRunAll)
	default:
		current := &policyv1alpha1.VirtualMachinePolicy{}
		if err := user.Get(t.Context(), client.ObjectKey{Name: each.Object}, current); err != nil {
			t.Fatal(err)
		}
		current.Spec, current.Labels = *each.New, each.Labels
		err = user.Update(t.Context(), current, client.DryRunAll)
	}
	expectPolicy(t, err, each.Object, each.Denied)
}

// expectPolicy compares an answer with the complete message of the guard.
func expectPolicy(t *testing.T, err error, name, denied string) {
	t.Helper()
	expectFrom(t, admissionpolicies.Policies, "virtualmachinepolicies", err, name, denied)
}

func (c *policyCluster) generatedName(t *testing.T) {
	object := policy("", denying())
	object.GenerateName = "generated-"
	for user, allowed := range map[string]bool{"author": false, "enforcer": true, "enforcer-of-caps": false} {
		err := c.users[user].Create(t.Context(), object.DeepCopy(), client.DryRunAll)
		if allowed && err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if !allowed && (err == nil || !strings.Contains(err.Error(), deniesMake)) {
			t.Errorf("%s: want a rejection by the guard, got %v", user, err)
		}
	}
}

// deleteCollection calls the guard for each object.
func (c *policyCluster) deleteCollection(t *testing.T) {
	labelled := client.MatchingLabels{"clean": "yes"}
	object := policy("to-be-cleaned", denying())
	object.Labels = labelled
	c.create(t, object)
	err := c.users["cleaner"].DeleteAllOf(t.Context(), &policyv1alpha1.VirtualMachinePolicy{}, labelled)
	if err == nil || !strings.Contains(err.Error(), deniesDelete) {
		t.Errorf("want a rejection by the guard, got %v", err)
	}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	if err := c.admin.DeleteAllOf(t.Context(), &policyv1alpha1.VirtualMachinePolicy{}, labelled); err != nil {
		t.Errorf("an admin may not: %v", err)
	}
}

// finalizers verifies that any user can remove the finalizers of a policy that is being deleted.
func (c *policyCluster) finalizers(t *testing.T) {
	object := policy("held", denying())
	object.Finalizers = []string{"example.com/held"}
	c.create(t, object)
	if err := c.users["enforcer"].Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := c.users["author"].Patch(t.Context(), object, patch); err != nil {
		t.Errorf("the finalizer stays: %v", err)
	}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		t.Errorf("the policy is still there: %v", err)
	}
}

// owner verifies that the garbage collector does not delete a policy for which an author sets an owner that does not
// exist: the guard also applies to its account.
func (c *policyCluster) owner(t *testing.T) {
	object := policy("orphan", denying())
	c.create(t, object)
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "never-was", UID: "00000000-0000-0000-0000-000000000000"}}
	if err := c.users["author"].Update(t.Context(), object); err != nil {
		t.Fatalf("owners need no verb: %v", err)
	}
	collector := c.client(t, "system:serviceaccount:kube-system:generic-garbage-collector")
	if err := collector.Delete(t.Context(), policy("harmless", denying())); !apierrors.IsNotFound(err) {
		t.Fatalf("the collector cannot delete policies at all: %v", err)
	}
	expectPolicy(t, collector.Delete(t.Context(), policy("orphan", denying())), "orphan", deniesDelete)
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// The accounts that write statuses, and one with the name of another namespace.
const (
	statusController = "system:serviceaccount:virtward-system:virtward-controller"
	statusExport     = "system:serviceaccount:virtward-system:virtward-export"
	statusImposter   = "system:serviceaccount:shop:virtward-controller"
)

// status verifies that only Virtward's accounts write the status, that they need no verb, and that this does not change the
// spec.
func (c *policyCluster) status(t *testing.T) {
	object := policy("stated", denying())
	c.create(t, object)
	object.Spec.Enforcement = policyv1alpha1.PolicyWarn
	object.Status.Violations = new(int64(3))
	for _, user := range []string{"status-writer", statusImposter} {
		if err := c.users[user].Status().Update(t.Context(), object.DeepCopy()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "policy-status: status: only Virtward's controllers write the statuses of policies") {
			t.Errorf("%s: %v", user, err)
		}
	}
	for _, user := range []string{statusExport, statusController} {
		if err := c.users[user].Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		object.Spec.Enforcement = policyv1alpha1.PolicyWarn
	}
	if err := c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if object.Spec.Enforcement != policyv1alpha1.PolicyDeny || object.Status.Violations == nil || *object.Status.Violations != 3 {
		t.Errorf("enforcement %s, violations %v", object.Spec.Enforcement, object.Status.Violations)
	}
}

// largest writes a policy of the maximum size: the guard must stay within the API server's cost limit of an expression.
func (c *policyCluster) largest(t *testing.T) {
	spec := denying()
	spec.Validations = nil
	for i := range 64 {
		text := fmt.Sprintf("%d == 0 || '%s' == ''", i, strings.Repeat("x", 8000))
		spec.Validations = append(spec.Validations, policyv1alpha1.PolicyValidation{Expression: text, MessageExpression: text, Message: strings.Repeat("m", 1000)})
	}
	object := policy("large", spec)
	c.create(t, object)
	expectPolicy(t, c.users["author"].Update(t.Context(), object.DeepCopy(), client.DryRunAll), "large", "")
	object.Spec.Validations[63].Message = "another"
	expectPolicy(t, c.users["author"].Update(t.Context(), object.DeepCopy(), client.DryRunAll), "large", deniesChange)
	expectPolicy(t, c.users["enforcer"].Update(t.Context(), object, client.DryRunAll), "large", "")
}

// kubectl verifies the documented messages and permissions.
func (c *policyCluster) kubectl(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(repository, policiesDoc))
	if err != nil {
		t.Fatal(err)
	}
	author, err := c.UserConfig("author")
	if err != nil {
		t.Fatal(err)
	}
	asAuthor, err := c.WriteKubeconfig("author", author)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cap.yaml")
	text := "{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: memory-cap}, spec: {enforcement: Deny, validations: [{expression: 'true', message: never}]}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(kubeconfig string, words ...string) (string, error) {
		command := exec.CommandContext(t.Context(), c.Binary("sandbox/kubectl"), words...)
		command.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + t.TempDir()}
		output, err := command.CombinedOutput()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return unwrapped(string(output)), err
	}
	said, err := run(asAuthor, "apply", "-f", file)
	said = strings.ReplaceAll(said, file, "cap.yaml")
	if err == nil || !strings.Contains(unwrapped(string(content)), said) {
		t.Errorf("the documentation does not show\n%s", said)
	}
	for user, want := range map[string]string{"author": "no", "enforcer": "yes", "enforcer-of-caps": "no"} {
		question := []string{"auth", "can-i", "enforce", "virtualmachinepolicies.policy.virtward.io", "--as=" + user}
		if !strings.Contains(string(content), "kubectl "+strings.Join(question[:4], " ")) {
			t.Errorf("the documentation does not ask %v", question)
		}
		if said, _ := run(c.Kubeconfig(), question...); !strings.Contains(" "+said+" ", " "+want+" ") {
			t.Errorf("%s may enforce: %s, not %s", user, said, want)
		}
	}
}
