package guards

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

func TestGuards(t *testing.T) {
	cases, err := admissionpolicies.Cases()
	if err != nil {
		t.Fatal(err)
	}
	// Each schema is a definition of KubeVirt of its own.
	config := planes.Start(t, controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}}).Config()
	for _, schema := range schemas() {
		t.Run(string(schema.name), func(t *testing.T) {
			c := newCluster(t, config)
			c.define(schema)
			var chosen []admissionpolicies.Case
			for _, each := range cases {
				if each.Schema == schema.name {
					chosen = append(chosen, each)
				}
			}
			for i, each := range chosen {
				c.prepare(objectName(i), each)
			}
			c.guard()
			for i, each := range chosen {
				t.Run(each.Name, func(t *testing.T) { c.evaluate(t, objectName(i), each) })
			}
			t.Run("type checking", c.typeChecks)
		})
	}
}

func objectName(i int) string { return fmt.Sprintf("kubevirt-%d", i) }

// cluster is the API server, as one schema's cases see it.
type cluster struct {
	t        *testing.T
	ctx      context.Context
	client   client.Client
	warnings *warnings
}

func newCluster(t *testing.T, config *rest.Config) *cluster {
	t.Helper()
	heard := &warnings{}
	config = rest.CopyConfig(config)
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// That a definition prunes a field is what some cases are about.
	c = client.WithFieldValidation(c, metav1.FieldValidationIgnore)
	return &cluster{t: t, ctx: t.Context(), client: c, warnings: heard}
}

// prepare puts a case's old object in place, before any guard can reject it.
func (c *cluster) prepare(name string, each admissionpolicies.Case) {
	c.t.Helper()
	if each.Old == nil {
		return
	}
	object := kubeVirt(name, each, *each.Old)
	c.t.Cleanup(func() { c.remove(object) })
	c.must("creating the old object", c.client.Create(c.ctx, object))
	if each.Old.Status != nil {
		object.Object["status"] = each.Old.Status
		c.must("writing the old status", c.client.Status().Update(c.ctx, object))
	}
	if each.Deleting {
		c.must("deleting the old object", c.client.Delete(c.ctx, object))
	}
}

// guard installs the guards and returns when they are active.
func (c *cluster) guard() {
	c.t.Helper()
	objects := withSentinel(c.t)
	for _, object := range objects {
		c.must("installing "+object.GetName(), c.client.Create(c.ctx, object))
	}
	c.awaitGuards()
	c.t.Cleanup(func() {
		for _, object := range objects {
			c.must("removing "+object.GetName(), c.client.Delete(context.Background(), object))
		}
		c.await("the guards to be gone", func() bool { return !c.sentinelDenies() })
	})
}

// awaitGuards returns when the API server has taken notice of all guards before the sentinel.
func (c *cluster) awaitGuards() {
	c.t.Helper()
	c.await("the guards to be active", c.sentinelDenies)
}

// withSentinel returns the guards, and a last policy that denies one name. What the last one does reports whether the API server
// has taken notice of all of them, also where they have nothing to deny.
func withSentinel(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := admissionpolicies.Objects()
	must(t, err)
	return append(objects, sentinel(map[string]any{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"},
		"operations": []any{"CREATE"}, "resources": []any{"configmaps"},
	})...)
}

// sentinel is a policy that denies one name in the requests of a rule.
func sentinel(rule map[string]any) []*unstructured.Unstructured {
	policy := admission("ValidatingAdmissionPolicy", map[string]any{
		"failurePolicy":    "Fail",
		"matchConstraints": map[string]any{"resourceRules": []any{rule}},
		"validations":      []any{map[string]any{"expression": "object.metadata.name != 'sentinel'"}},
	})
	binding := admission("ValidatingAdmissionPolicyBinding", map[string]any{
		"policyName": "sentinel", "validationActions": []any{"Deny"},
	})
	return []*unstructured.Unstructured{policy, binding}
}

func admission(kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1",
		"kind":       kind,
		"metadata":   map[string]any{"name": "sentinel"},
		"spec":       spec,
	}}
}

func (c *cluster) sentinelDenies() bool {
	err := c.client.Create(context.Background(), untypedOf("v1", "ConfigMap", metav1.NamespaceDefault, "sentinel"), client.DryRunAll)
	if err != nil && !apierrors.IsInvalid(err) {
		c.t.Fatalf("sending the sentinel's request: %v", err)
	}
	return err != nil
}

// evaluate sends a case's request and compares what came back.
func (c *cluster) evaluate(t *testing.T, name string, each admissionpolicies.Case) {
	object := kubeVirt(name, each, each.New)
	c.warnings.reset()
	err := c.send(object, each)

	var want []string
	for _, w := range each.Warnings {
		want = append(want, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s': %[2]s", admissionpolicies.KubeVirtHypervisorEffect, w))
	}
	if diff := cmp.Diff(want, c.warnings.heard(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if each.Denied == "" {
		if err != nil {
			t.Errorf("denied, but should be allowed: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("allowed, but should be denied: %s", each.Denied)
	}
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: %[2]s", admissionpolicies.KubeVirtHypervisor, each.Denied)
	expected := metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnprocessableEntity,
		Reason:  metav1.StatusReasonInvalid,
		Message: fmt.Sprintf("kubevirts.kubevirt.io %q is forbidden: %s", name, message),
		Details: &metav1.StatusDetails{
			Group: "kubevirt.io", Kind: "kubevirts", Name: name,
			Causes: []metav1.StatusCause{{Message: message}},
		},
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("not an answer of the API server: %v", err)
	}
	if diff := cmp.Diff(expected, status.Status(), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// send does the request of a case, on top of the object as it is now.
func (c *cluster) send(object *unstructured.Unstructured, each admissionpolicies.Case) error {
	if each.Old == nil {
		return c.client.Create(c.ctx, object, client.DryRunAll)
	}
	current := object.DeepCopy()
	c.must("reading the old object", c.client.Get(c.ctx, client.ObjectKeyFromObject(object), current))
	object.SetResourceVersion(current.GetResourceVersion())
	if each.Status {
		object.Object["status"] = each.New.Status
		return c.client.Status().Update(c.ctx, object)
	}
	return c.client.Update(c.ctx, object)
}

// typeChecks fails if the API server finds a mistake in an expression, given the definition it guards.
func (c *cluster) typeChecks(t *testing.T) {
	for _, name := range []string{admissionpolicies.KubeVirtHypervisor, admissionpolicies.KubeVirtHypervisorEffect} {
		policy := admission("ValidatingAdmissionPolicy", nil)
		policy.SetName(name)
		c.await("the type checking of "+name, func() bool {
			c.must("reading the policy", c.client.Get(c.ctx, client.ObjectKeyFromObject(policy), policy))
			_, checked, _ := unstructured.NestedMap(policy.Object, "status", "typeChecking")
			return checked
		})
		if mistakes, found, _ := unstructured.NestedSlice(policy.Object, "status", "typeChecking", "expressionWarnings"); found {
			t.Errorf("%s: %v", name, mistakes)
		}
	}
}

// remove deletes an object, finalizers or not, if it is still there.
func (c *cluster) remove(object *unstructured.Unstructured) {
	c.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	err := c.client.Patch(context.Background(), object, patch)
	c.must("removing the finalizers of "+object.GetName(), client.IgnoreNotFound(err))
	err = c.client.Delete(context.Background(), object)
	c.must("deleting "+object.GetName(), client.IgnoreNotFound(err))
}

func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, await.Patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		c.t.Fatalf("waited %s in vain for %s", await.Patience, what)
	}
}

func (c *cluster) must(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func kubeVirt(name string, each admissionpolicies.Case, content admissionpolicies.Object) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("kubevirt.io/v1")
	if each.APIVersion != "" {
		object.SetAPIVersion(each.APIVersion)
	}
	object.SetKind("KubeVirt")
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	object.SetAnnotations(content.Annotations)
	object.SetFinalizers(content.Finalizers)
	object.Object["spec"] = map[string]any{}
	if content.Spec != nil {
		object.Object["spec"] = content.Spec
	}
	return object.DeepCopy()
}

// warnings collects what policies warn of, and not that a version of the resource is deprecated.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	if !strings.HasPrefix(text, "Validation failed for ValidatingAdmissionPolicy ") {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) reset() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.texts = nil
}

func (w *warnings) heard() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return append([]string(nil), w.texts...)
}
