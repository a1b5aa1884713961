package guards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/validators"
)

// library is the folder of the policy library.
const library = repository + "/policies/library"

// labelExported selects the objects for one native policy. Its value is the name of the policy.
const labelExported = "test.virtward.io/exported"

// exports is an API server with native policies.
type exports struct {
	*controlplane.ControlPlane
	environment *cel.Environment
	// natives has the installed native policies, by the exported policy and its parameters.
	natives map[string]*admissionregistrationv1.ValidatingAdmissionPolicy
}

// situation is a case of a suite with one of its policies, and the webhook's answer.
type situation struct {
	*policytest.Situation
	name   string
	policy *policyv1alpha1.VirtualMachinePolicy
	native *admissionregistrationv1.ValidatingAdmissionPolicy
	// denied reports whether the webhook denies, or would deny with enforcement Deny.
	denied bool
}

// TestExportsAgree sends the objects of all suites whose policies can be exported to an API server that has the
// native forms, and compares its answers with those of the webhook. It does the same with policies of other engines, and
// what they are converted to.
func TestExportsAgree(t *testing.T) {
	started := pool.Take(t)
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	e := &exports{ControlPlane: started, environment: environment, natives: map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}}
	allowAllUsers(t, e.Client())
	own, ofLibrary := e.situations(t, "testdata/exports"), e.situations(t, library)
	if len(own) < 40 {
		t.Errorf("only %d cases of testdata", len(own))
	}
	converted := e.installOriginals(t)
	if len(converted) < 40 {
		t.Errorf("only %d cases of originals", len(converted))
	}
	e.active(t)
	for i, each := range slices.Concat(own, ofLibrary, converted) {
		if isLibrary := i >= len(own) && i < len(own)+len(ofLibrary); isLibrary && i%3 != 0 && !soak.On() {
			continue // make soak has all of the library
		}
		t.Run(each.name, func(t *testing.T) { e.compare(t, i, &each) })
	}
	t.Logf("%d cases of testdata, %d of the library, %d of originals, %d native policies", len(own), len(ofLibrary), len(converted), len(e.natives))
	t.Run("the answer", e.answer)
	t.Run("type checking", e.typeChecks)
}

// allowAllUsers allows all users to write virtual machines.
func allowAllUsers(t *testing.T, admin client.Client) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all-users"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"kubevirt.io", "pool.kubevirt.io"}, Resources: []string{"*"}, Verbs: []string{"get", "create", "update", "delete"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// situations returns the cases of the suites in a directory, each with every exportable policy.
func (e *exports) situations(t *testing.T, directory string) []situation {
	t.Helper()
	files := os.DirFS(directory)
	all, problems := policytest.Load(files, ".")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	report := runner.Run(t.Context(), all, policytest.Options{})
	var found []situation
	for i, suite := range all {
		for j := range suite.Tests {
			for k := range suite.Tests[j].Cases {
				outcome := report.Suites[i].Tests[j].Cases[k]
				if outcome.Status == policytest.Skipped || suite.Tests[j].Cases[k].PostMutation {
					continue
				}
				s, err := suite.Situation(j, k)
				if err != nil || outcome.Status == policytest.Broken { // one that fails has a verdict, which is all that is compared
					t.Fatalf("%s, %s, %s: %v, %v", suite.File, suite.Tests[j].Name, outcome.Name, err, outcome.Problem)
				}
				if s.Old != nil && len(s.Object.GetOwnerReferences()) > len(s.Old.GetOwnerReferences()) {
					continue // only the webhook evaluates it as a deletion
				}
				for _, policy := range s.Policies {
					if native := e.native(t, s, policy); native != nil {
						found = append(found, situation{
							Situation: s, policy: policy, native: native, denied: denies(&outcome, policy),
							name: fmt.Sprintf("%s/%s/%s/%s", suite.Metadata.Name, suite.Tests[j].Name, outcome.Name, policy.Name),
						})
					}
				}
			}
		}
	}
	return found
}

// denies reports whether the webhook rejects an object for a policy, or would if the policy denied.
func denies(outcome *policytest.CaseOutcome, policy *policyv1alpha1.VirtualMachinePolicy) bool {
	return slices.ContainsFunc(outcome.Findings, func(f validators.Finding) bool {
		return f.Rule == policies.RulePrefix+policy.Name && !f.PreExisting && (!policies.IsEvaluationError(&f) || policy.Spec.FailurePolicy != policyv1alpha1.PolicyIgnore)
	})
}

// native installs the native form of a policy for objects with its label. It returns nil if there is none.
func (e *exports) native(t *testing.T, s *policytest.Situation, policy *policyv1alpha1.VirtualMachinePolicy) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	compiled, _ := policies.Compile(e.environment, policy, func(namespace, name string) (map[string]string, bool) {
		for _, object := range s.Objects {
			if object.GetKind() == "ConfigMap" && object.GetName() == name && object.GetNamespace() == namespace {
				data, _, _ := unstructured.NestedStringMap(object.Object, "data")
				return data, true
			}
		}
		return nil, false
	})
	made, problems := export.Export(compiled, export.Cluster{Namespace: "virtward-system", KubeVirt: s.Facts.KubeVirtUsers()}, s.Now)
	if made == nil {
		t.Logf("%s is not exported: %v", policy.Name, problems[0])
		return nil
	}
	key, err := json.Marshal(made.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if known := e.natives[string(key)]; known != nil {
		return known
	}
	id := fmt.Sprintf("n%d", len(e.natives))
	made.Policy.Name, made.Binding.Name = export.Prefix+policy.Name+"-"+id, export.Prefix+policy.Name+"-"+id
	made.Binding.Spec.PolicyName = made.Policy.Name
	made.Binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	made.Binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelExported: id}}}
	made.Policy.Labels[labelExported] = id
	for _, object := range []client.Object{made.Policy, made.Binding} {
		if err := e.Client().Create(t.Context(), object); err != nil {
			t.Fatalf("the API server does not take %s: %v", policy.Name, err)
		}
	}
	e.natives[string(key)] = made.Policy
	return made.Policy
}

// active waits until the API server runs the native policies. The last one denies one name.
func (e *exports) active(t *testing.T) {
	t.Helper()
	rule := map[string]any{"apiGroups": []any{"kubevirt.io"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"virtualmachines"}}
	for _, object := range sentinel(rule) {
		if err := e.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	probe := machine("sentinel")
	eventually(t, "the native policies to be active", func() bool {
		err := e.Client().Create(context.Background(), probe.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "'sentinel'")
	})
}

func machine(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}},
	}}
}

// compare sends a situation to the API server. It repeats an unexpected answer for a while, because the API server may not
// have read the labels of the namespace or the permissions yet.
func (e *exports) compare(t *testing.T, i int, s *situation) {
	e.prepare(t, i, s)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		denied, err := e.send(t, s, s.Object)
		if denied == s.denied {
			return
		}
		if time.Since(began) > 3*time.Second && s.Old != nil && s.denied && e.before(t, s) {
			t.Logf("a violation that grows: rejected by the webhook, and let through by the API server")
			return
		}
		if time.Since(began) > await.Patience {
			t.Fatalf("the webhook denies: %v; the API server denies: %v, %v\n%s", s.denied, denied, err, describe(s.native))
		}
	}
}

// prepare creates the namespace, the old object and the permissions of a situation.
func (e *exports) prepare(t *testing.T, i int, s *situation) {
	t.Helper()
	admin := e.Client()
	if err := e.EnsureNamespace(t.Context(), s.Namespace.Name); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: s.Namespace.Name}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Labels = map[string]string{corev1.LabelMetadataName: namespace.Name}
	maps.Copy(namespace.Labels, s.Namespace.Labels)
	if err := admin.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	switch {
	case s.Old != nil:
		e.make(t, s.Old.DeepCopy())
	case s.Operation == string(policyv1alpha1.PolicyDelete):
		e.make(t, s.Object.DeepCopy())
		stored := s.Object.DeepCopy()
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
			t.Fatal(err)
		}
		if err := admin.Update(t.Context(), e.labelled(s, stored)); err != nil { // what it violates is older
			t.Fatal(err)
		}
	}
	for j := range s.May {
		e.grant(t, fmt.Sprintf("case-%d-%d", i, j), s.User.Username, &s.May[j])
	}
}

// grant gives a user a permission during a test.
func (e *exports) grant(t *testing.T, name, user string, may *policytest.Permission) {
	t.Helper()
	if may.User != "" {
		user = may.User
	}
	meta := metav1.ObjectMeta{Name: name}
	rule := rbacv1.PolicyRule{Verbs: anyOr(may.Verb), APIGroups: []string{may.Group}, Resources: anyOr(may.Resource)}
	if may.Name != "" && may.Name != "*" {
		rule.ResourceNames = []string{may.Name}
	}
	e.make(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}})
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if meta.Namespace = may.Namespace; may.Namespace == "" || may.Namespace == "*" {
		e.make(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects})
	} else {
		if err := e.EnsureNamespace(t.Context(), may.Namespace); err != nil {
			t.Fatal(err)
		}
		e.make(t, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects})
	}
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: rule.Verbs[0], Group: may.Group, Resource: rule.Resources[0], Name: may.Name, Namespace: may.Namespace,
	}}}
	eventually(t, "the rights of "+user, func() bool {
		answer := question.DeepCopy()
		return e.Client().Create(context.Background(), answer) == nil && answer.Status.Allowed
	})
}

// anyOr returns a value, or RBAC's "*" if it is empty.
func anyOr(value string) []string {
	if value == "" {
		value = "*"
	}
	return []string{value}
}

// make creates an object during a test.
func (e *exports) make(t *testing.T, object client.Object) {
	t.Helper()
	made := object.DeepCopyObject().(client.Object)
	if err := e.Client().Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.unlabel(made); err != nil {
			t.Errorf("removing the label of %s: %v", made.GetName(), err)
		}
		if err := e.Client().Delete(context.Background(), made); err != nil {
			t.Errorf("deleting %s: %v", made.GetName(), err)
		}
	})
}

// unlabel removes the label of an object, so that no native policy is for its deletion.
func (e *exports) unlabel(object client.Object) error {
	if err := e.Client().Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil || object.GetLabels()[labelExported] == "" {
		return err
	}
	labels := object.GetLabels()
	delete(labels, labelExported)
	object.SetLabels(labels)
	return e.Client().Update(context.Background(), object)
}

// send sends an object, and reports whether the native policy of the situation denies it.
func (e *exports) send(t *testing.T, s *situation, object *unstructured.Unstructured) (bool, error) {
	t.Helper()
	sent := e.labelled(s, object)
	user := e.as(t, s)
	var err error
	switch {
	case s.Operation == string(policyv1alpha1.PolicyDelete):
		err = user.Delete(t.Context(), sent, client.DryRunAll)
	case s.Operation == string(policyv1alpha1.PolicyUpdate) && object == s.Object:
		there := s.Old.DeepCopy()
		if err := e.Client().Get(t.Context(), client.ObjectKeyFromObject(sent), there); err != nil {
			t.Fatal(err)
		}
		sent.SetResourceVersion(there.GetResourceVersion())
		sent.SetUID(there.GetUID())
		err = user.Update(t.Context(), sent, client.DryRunAll)
	default:
		err = user.Create(t.Context(), sent, client.DryRunAll)
	}
	if err == nil {
		return false, nil
	}
	if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+s.native.Name+"'") {
		t.Fatalf("the API server rejects it for something else: %v", err)
	}
	return true, err
}

// labelled returns an object with the label that selects the native policy of a situation.
func (e *exports) labelled(s *situation, object *unstructured.Unstructured) *unstructured.Unstructured {
	sent := object.DeepCopy()
	labels := sent.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelExported] = s.native.Labels[labelExported]
	sent.SetLabels(labels)
	return sent
}

// as returns a client of the user of a situation.
func (e *exports) as(t *testing.T, s *situation) client.Client {
	t.Helper()
	config := e.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: s.User.Username, UID: s.User.UID, Groups: s.User.Groups}
	for key, values := range s.User.Extra {
		if config.Impersonate.Extra == nil {
			config.Impersonate.Extra = map[string][]string{}
		}
		config.Impersonate.Extra[key] = values
	}
	made, err := client.New(config, client.Options{Scheme: e.Client().Scheme(), Mapper: e.Client().RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return client.WithFieldValidation(made, metav1.FieldValidationStrict)
}

// before reports whether the native policy would deny the old object of a situation as a new object.
func (e *exports) before(t *testing.T, s *situation) bool {
	t.Helper()
	old := s.Old.DeepCopy()
	old.SetName(old.GetName() + "-new")
	denied, _ := e.send(t, s, old)
	return denied
}

func describe(native *admissionregistrationv1.ValidatingAdmissionPolicy) string {
	text, err := json.MarshalIndent(native.Spec, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// answer compares the complete text of one answer.
func (e *exports) answer(t *testing.T) {
	var cores *admissionregistrationv1.ValidatingAdmissionPolicy
	for _, native := range e.natives {
		if strings.HasPrefix(native.Name, export.Prefix+"cores-") && strings.Contains(native.Spec.Variables[0].Expression, `"most": dyn(4)`) {
			cores = native
		}
	}
	if cores == nil {
		t.Fatal("the native form of the policy cores is not there")
	}
	object := machine("db's")
	object.SetName("greedy")
	object.SetLabels(map[string]string{labelExported: cores.Labels[labelExported]})
	if err := unstructured.SetNestedField(object.Object, int64(8), "spec", "template", "spec", "domain", "cpu", "cores"); err != nil {
		t.Fatal(err)
	}
	err := e.Client().Create(t.Context(), object, client.DryRunAll)
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: 8 cores are more than 4", cores.Name)
	want := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `virtualmachines.kubevirt.io "greedy" is forbidden: ` + message,
		Details: &metav1.StatusDetails{Group: "kubevirt.io", Kind: "virtualmachines", Name: "greedy", Causes: []metav1.StatusCause{{Message: message}}},
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("not an answer of the API server: %v", err)
	}
	if diff := cmp.Diff(want, status.Status(), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// typeChecks verifies that the controller manager has type-checked every native policy, and still runs.
func (e *exports) typeChecks(t *testing.T) {
	for _, native := range e.natives {
		eventually(t, "the type checking of "+native.Name, func() bool {
			if err := e.Client().Get(context.Background(), client.ObjectKeyFromObject(native), native); err != nil {
				t.Fatal(err)
			}
			return native.Status.TypeChecking != nil && native.Status.ObservedGeneration == native.Generation
		})
		if warnings := native.Status.TypeChecking.ExpressionWarnings; len(warnings) > 0 {
			t.Logf("%s: %s", native.Name, warnings[0].Warning)
		}
	}
}
