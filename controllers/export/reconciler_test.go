package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientretry "k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/platform"
	native "github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// cluster is an API server with our kinds, and a reconciler that works on it.
type cluster struct {
	t       *testing.T
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface

	mu    sync.Mutex
	facts *platform.Facts
}

// resource is that of policies.
var resource = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

func TestWithAPIServer(t *testing.T) {
	started := planes.Start(t, controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
	if err := started.InstallVirtwardCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, config: started.Config(), facts: platform.Defaults(platform.Settings{})}
	var err error
	if c.client, err = kubernetes.NewForConfig(started.Config()); err != nil {
		t.Fatal(err)
	}
	if c.dynamic, err = dynamic.NewForConfig(started.Config()); err != nil {
		t.Fatal(err)
	}
	t.Run("killed", c.killed)
	t.Run("rejected by the API server", c.rejected)
	t.Run("a conflicting write", c.behind)
	t.Run("another version", c.versions)
	changed := c.start()
	t.Run("made, kept in step and removed", c.lifecycle)
	t.Run("reverted", c.drift)
	t.Run("a name that is taken", c.taken)
	t.Run("what cannot be exported", c.notExportable)
	t.Run("an exception that ends", c.expiry)
	t.Run("KubeVirt moves", func(t *testing.T) { c.moved(t, changed) })
	t.Run("the policy is deleted", c.collected)
	t.Run("the other controller's status", c.shared)
}

// schemeOf has the kinds that the reconciler reads and writes.
func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// start runs the reconciler in a manager, and returns what tells it that facts changed.
func (c *cluster) start() func() {
	c.t.Helper()
	environment, err := cel.NewEnvironment()
	if err != nil {
		c.t.Fatal(err)
	}
	var reconciler *Reconciler
	policies, err := configcache.NewPolicies(c.dynamic, configcache.PoliciesOptions{Namespace: "virtward-system", Environment: environment}, func(configcache.Change) { reconciler.Changed() })
	if err != nil {
		c.t.Fatal(err)
	}
	direct, err := client.New(c.config, client.Options{Scheme: schemeOf(c.t)})
	if err != nil {
		c.t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(c.config, ctrl.Options{
		Logger: testr.New(c.t), Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: Cached(), ReaderFailOnMissingInformer: true},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	reconciler = New(Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Statuses: direct, Policies: policies.Compiled, Namespace: "virtward-system",
		Clock: clock.RealClock{}, Ready: policies.Ready, Facts: c.current,
	})
	if err := reconciler.SetupWithManager(mgr); err != nil {
		c.t.Fatal(err)
	}
	await.Run(c.t, policies.Run)
	await.Run(c.t, mgr.Start)
	return reconciler.Changed
}

func (c *cluster) current() *platform.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts
}

// write creates a policy, or changes its spec.
func (c *cluster) write(t *testing.T, name, spec string) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = fields
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	if _, err := c.dynamic.Resource(resource).Apply(t.Context(), name, object, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) policy(t *testing.T, name string) *policyv1alpha1.VirtualMachinePolicy {
	t.Helper()
	found, err := c.dynamic.Resource(resource).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

// soon waits for the condition Exported of a policy to be about its generation, and to say this.
func (c *cluster) soon(t *testing.T, name, reason, message string) *policyv1alpha1.VirtualMachinePolicy {
	t.Helper()
	var policy *policyv1alpha1.VirtualMachinePolicy
	await.Until(t, func() error {
		policy = c.policy(t, name)
		is := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.PolicyExported)
		if is == nil || is.ObservedGeneration != policy.Generation || is.Reason != reason || is.Message != message {
			return fmt.Errorf("the condition is %+v", is)
		}
		if (is.Status == metav1.ConditionTrue) != (reason == policyv1alpha1.PolicyReasonExported) {
			return fmt.Errorf("the condition is %s with the reason %s", is.Status, reason)
		}
		return nil
	})
	return policy
}

func (c *cluster) exported(t *testing.T, name string) *policyv1alpha1.VirtualMachinePolicy {
	t.Helper()
	return c.soon(t, name, "Exported", "the API server enforces the ValidatingAdmissionPolicy "+native.Prefix+name)
}

func (c *cluster) native(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	found, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), native.Prefix+name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (c *cluster) binding(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	t.Helper()
	found, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), native.Prefix+name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// gone waits until there is neither a native policy nor a binding.
func (c *cluster) gone(t *testing.T, name string) {
	t.Helper()
	await.Until(t, func() error {
		_, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(context.Background(), native.Prefix+name, metav1.GetOptions{})
		_, errToo := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(context.Background(), native.Prefix+name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(errToo) {
			return errors.Join(errors.New("they are still there"), err, errToo)
		}
		return nil
	})
}

const head = "match: {kinds: [VirtualMachine]}\nexportTo: [APIServer]\n"

func (c *cluster) lifecycle(t *testing.T) {
	two := "variables: [{name: a, expression: object.spec}, {name: b, expression: variables.a.runStrategy}]\nvalidations: [{expression: \"variables.b != 'Always'\", message: m, fieldPath: spec.runStrategy}]"
	c.write(t, "caps", "enforcement: Deny\n"+head+two)
	policy := c.exported(t, "caps")
	if diff := cmp.Diff([]policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByAPIServer}, policy.Status.EnforcedBy); diff != "" {
		t.Errorf("enforced by (-want +got):\n%s", diff)
	}
	if notes := policy.Status.ExportNotes; len(notes) < 3 || !strings.HasPrefix(notes[0], "The API server reports only its first violation") {
		t.Errorf("notes %q", notes)
	}
	native, binding := c.native(t, "caps"), c.binding(t, "caps")
	owner := []metav1.OwnerReference{{APIVersion: "policy.virtward.io/v1alpha1", Kind: "VirtualMachinePolicy", Name: "caps", UID: policy.UID, Controller: new(true)}}
	for _, object := range []metav1.Object{native, binding} {
		if diff := cmp.Diff(owner, object.GetOwnerReferences()); diff != "" {
			t.Errorf("owner (-want +got):\n%s", diff)
		}
		if got := object.GetAnnotations()[AnnotationGeneration]; got != "1" {
			t.Errorf("generation %q", got)
		}
		if got := object.GetLabels()["app.kubernetes.io/managed-by"]; got != "virtward" {
			t.Errorf("managed by %q", got)
		}
	}

	// The order of variables is part of what they mean: one reads those before it.
	three := "variables: [{name: c, expression: object.spec}, {name: b, expression: variables.c.runStrategy}, {name: a, expression: variables.b}]\nvalidations: [{expression: \"variables.a != 'Halted'\", message: m, fieldPath: spec.runStrategy}]"
	c.write(t, "caps", "enforcement: Warn\n"+head+three)
	c.exported(t, "caps")
	native, binding = c.native(t, "caps"), c.binding(t, "caps")
	var names []string
	for _, v := range native.Spec.Variables {
		names = append(names, v.Name)
	}
	if diff := cmp.Diff([]string{"c", "cBefore", "b", "bBefore", "a", "aBefore"}, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if native.Annotations[AnnotationGeneration] != "2" || binding.Spec.ValidationActions[0] != admissionregistrationv1.Warn {
		t.Errorf("generation %s, actions %v", native.Annotations[AnnotationGeneration], binding.Spec.ValidationActions)
	}

	c.write(t, "caps", "enforcement: Warn\nmatch: {kinds: [VirtualMachine]}\n"+two)
	c.gone(t, "caps")
	await.Until(t, func() error {
		s := c.policy(t, "caps").Status
		if len(s.Conditions) > 0 || len(s.ExportNotes) > 0 || len(s.EnforcedBy) > 0 {
			return fmt.Errorf("the status still says %+v", s)
		}
		return nil
	})
}

const never = "validations: [{expression: \"object.spec.runStrategy != 'Always'\", message: m, fieldPath: spec.runStrategy}]"

// drift: manual changes are reverted, and additional metadata stays.
func (c *cluster) drift(t *testing.T) {
	c.write(t, "drift", "enforcement: Deny\n"+head+never)
	c.exported(t, "drift")
	native := c.native(t, "drift")
	want := native.Spec.DeepCopy()
	policies := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	err := clientretry.RetryOnConflict(clientretry.DefaultRetry, func() error { // the API server notes in its status what the types are
		native = c.native(t, "drift")
		native.Spec.Validations[0].Expression = "true"
		native.Labels["example.com/team"] = "a"
		_, err := policies.Update(t.Context(), native, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		if diff := cmp.Diff(want, &c.native(t, "drift").Spec); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if c.native(t, "drift").Labels["example.com/team"] != "a" {
		t.Error("the label of another owner is gone")
	}
	for name, remove := range map[string]func(context.Context, string, metav1.DeleteOptions) error{
		"policy": policies.Delete, "binding": c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete,
	} {
		before := c.native(t, "drift").UID
		if name == "binding" {
			before = c.binding(t, "drift").UID
		}
		if err := remove(t.Context(), "virtward-policy-drift", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		await.Until(t, func() error {
			var found metav1.Object
			var err error
			if name == "binding" {
				found, err = c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), "virtward-policy-drift", metav1.GetOptions{})
			} else {
				found, err = policies.Get(t.Context(), "virtward-policy-drift", metav1.GetOptions{})
			}
			if err == nil && found.GetUID() == before {
				err = errors.New("it is the same")
			}
			return err
		})
	}
}

// taken: what is not made of the policy is never touched.
func (c *cluster) taken(t *testing.T) {
	foreign := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "virtward-policy-mine", Labels: map[string]string{"app.kubernetes.io/managed-by": "virtward"}},
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "another", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}},
	}
	bindings := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	made, err := bindings.Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "mine", "enforcement: Deny\n"+head+never)
	policy := c.soon(t, "mine", "NameTaken", "there is a ValidatingAdmissionPolicyBinding virtward-policy-mine that this policy does not own: rename one of them")
	if len(policy.Status.EnforcedBy) > 0 || len(policy.Status.ExportNotes) > 0 {
		t.Errorf("the status says %+v", policy.Status)
	}
	if _, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), "virtward-policy-mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("half of it was made: %v", err)
	}
	c.write(t, "mine", "enforcement: Warn\n"+head+never)
	c.soon(t, "mine", "NameTaken", "there is a ValidatingAdmissionPolicyBinding virtward-policy-mine that this policy does not own: rename one of them")
	if found := c.binding(t, "mine"); found.ResourceVersion != made.ResourceVersion {
		t.Error("it was changed")
	}
	if err := bindings.Delete(t.Context(), "virtward-policy-mine", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.exported(t, "mine") // the watch tells that the name is free
}

// rejected: a policy that can no longer be exported has no native form any more.
func (c *cluster) notExportable(t *testing.T) {
	c.write(t, "reads", "enforcement: Deny\n"+head+never)
	c.exported(t, "reads")
	c.write(t, "reads", "enforcement: Deny\n"+head+"validations: [{expression: \"vm.spec.architecture == 'amd64'\", message: m, fieldPath: spec.architecture}]")
	c.soon(t, "reads", "NotExportable", "spec.validations[0].expression: it reads vm, which the API server does not have")
	c.gone(t, "reads")
	c.write(t, "reads", "enforcement: Deny\n"+head+"validations: [{expression: \"object.spec.runStrategyy == ''\", message: m, fieldPath: spec.runStrategy}]")
	await.Until(t, func() error {
		is := meta.FindStatusCondition(c.policy(t, "reads").Status.Conditions, policyv1alpha1.PolicyExported)
		if is == nil || is.ObservedGeneration != 3 || is.Reason != "NotExportable" || !strings.HasPrefix(is.Message, "spec: the policy is invalid: spec.validations[0].expression:1:") {
			return fmt.Errorf("the condition is %+v", is)
		}
		return nil
	})
}

func (c *cluster) expiry(t *testing.T) {
	end := time.Now().Add(5 * time.Second).UTC().Truncate(time.Second)
	c.write(t, "until", "enforcement: Deny\n"+head+never+"\nexceptions: [{names: [old], expires: \""+end.Format(time.RFC3339)+"\", reason: r}]")
	policy := c.exported(t, "until")
	excepted := func() bool {
		return slices.ContainsFunc(c.native(t, "until").Spec.MatchConditions, func(m admissionregistrationv1.MatchCondition) bool { return m.Name == "not-excepted" })
	}
	if !excepted() || !slices.ContainsFunc(policy.Status.ExportNotes, func(note string) bool {
		return strings.HasSuffix(note, "the next one at "+end.Format(time.RFC3339)+".")
	}) {
		t.Errorf("the exception is there: %v; notes %q", excepted(), policy.Status.ExportNotes)
	}
	await.Until(t, func() error {
		if excepted() {
			return errors.New("it is still excepted")
		}
		return nil
	})
	if now := time.Now(); now.Before(end) {
		t.Errorf("it ended %s too early", end.Sub(now))
	}
}

// moved: the native form names the accounts of KubeVirt's namespace.
func (c *cluster) moved(t *testing.T, changed func()) {
	c.write(t, "accounts", "enforcement: Deny\n"+head+never)
	c.exported(t, "accounts")
	c.mu.Lock()
	facts := *c.facts
	facts.Namespace = "virt"
	c.facts = &facts
	c.mu.Unlock()
	changed()
	await.Until(t, func() error {
		for _, condition := range c.native(t, "accounts").Spec.MatchConditions {
			if strings.Contains(condition.Expression, `"system:serviceaccount:virt:kubevirt-controller"`) {
				return nil
			}
		}
		return errors.New("it names the accounts of before")
	})
}

// collected: Kubernetes removes the native form with its policy.
func (c *cluster) collected(t *testing.T) {
	c.write(t, "short-lived", "enforcement: Deny\n"+head+never)
	c.exported(t, "short-lived")
	if err := c.dynamic.Resource(resource).Delete(t.Context(), "short-lived", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.gone(t, "short-lived")
}

// shared: the rest of the status belongs to another controller.
func (c *cluster) shared(t *testing.T) {
	c.write(t, "shared", "enforcement: Deny\n"+head+never)
	c.exported(t, "shared")
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "shared"},
		"status": map[string]any{
			"observedGeneration": int64(1), "enforcedBy": []any{"Webhook"},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-21T12:00:00Z"}},
		},
	}}
	theirs.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	if _, err := c.dynamic.Resource(resource).ApplyStatus(t.Context(), "shared", theirs, metav1.ApplyOptions{FieldManager: "virtward-controller", Force: true}); err != nil {
		t.Fatal(err)
	}
	c.write(t, "shared", "enforcement: Warn\n"+head+never)
	policy := c.exported(t, "shared")
	both := slices.Sorted(slices.Values(policy.Status.EnforcedBy))
	if diff := cmp.Diff([]policyv1alpha1.PolicyEnforcer{"APIServer", "Webhook"}, both); diff != "" {
		t.Errorf("enforced by (-want +got):\n%s", diff)
	}
	if meta.FindStatusCondition(policy.Status.Conditions, "Ready") == nil || policy.Status.ObservedGeneration != 1 {
		t.Errorf("what the other one wrote is gone: %+v", policy.Status)
	}
	c.write(t, "shared", "enforcement: Warn\nmatch: {kinds: [VirtualMachine]}\n"+never)
	await.Until(t, func() error {
		if s := c.policy(t, "shared").Status; !slices.Equal(s.EnforcedBy, []policyv1alpha1.PolicyEnforcer{"Webhook"}) || len(s.Conditions) != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}
