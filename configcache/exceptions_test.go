package configcache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/await"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var (
	guardPolicies = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	guardBindings = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
)

// exceptionObject is an exception that ends in a day, and that was created at noon.
func exceptionObject(name, reason string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"policies": []any{"caps"}, "virtualMachines": []any{"db"}, "reason": reason, "expires": noon.AddDate(0, 0, 1).Format(time.RFC3339),
		},
	}}
	object.SetGroupVersionKind(apikinds.PolicyExceptions.GroupVersionKind)
	object.SetNamespace("shop")
	object.SetName(name)
	object.SetUID("u-1")
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(noon))
	return object
}

// guardObjects are the guard and its binding, created before noon.
func guardObjects(t *testing.T) (objects []runtime.Object) {
	t.Helper()
	all, err := admissionpolicies.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		if object.GetName() == admissionpolicies.PolicyExceptions {
			object.SetCreationTimestamp(metav1.NewTime(noon.Add(-time.Minute)))
			objects = append(objects, object)
		}
	}
	return objects
}

// fakeExceptions watches exceptions of a fake API server.
func fakeExceptions(t *testing.T, objects ...runtime.Object) (x *Exceptions, client *fake.FakeDynamicClient) {
	t.Helper()
	client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		apikinds.PolicyExceptions.GroupVersionResource(): "VirtualMachinePolicyExceptionList",
		guardPolicies: "ValidatingAdmissionPolicyList", guardBindings: "ValidatingAdmissionPolicyBindingList",
	}, objects...)
	x, err := NewExceptions(client, 90*24*time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x.Ready() == nil || x.Current() != nil {
		t.Error("it is ready before it runs")
	}
	await.Run(t, x.Run)
	await.Until(t, x.Ready)
	return x, client
}

// soonStates waits until these are the states of the exceptions, by name, a moment after noon.
func soonStates(t *testing.T, x *Exceptions, want string) {
	t.Helper()
	await.Until(t, func() error {
		var got []string
		for _, s := range x.Current().States(noon.Add(time.Second)) {
			got = append(got, s.Object.Name+" "+s.Reason)
		}
		if text := strings.Join(got, ", "); text != want {
			return fmt.Errorf("states %q, want %q", text, want)
		}
		return nil
	})
}

// Without the guard, no exception is active. The guard can come and go.
func TestExceptionsNeedTheirGuard(t *testing.T) {
	x, client := fakeExceptions(t, exceptionObject("granted", "r"))
	soonStates(t, x, "granted "+policyv1alpha1.ExceptionReasonNotPermitted)
	if x.Current().Possible() {
		t.Error("exceptions are possible without a guard")
	}
	for _, object := range guardObjects(t) {
		if err := client.Tracker().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	soonStates(t, x, "granted "+policyv1alpha1.ExceptionReasonExpiring)
	if err := client.Tracker().Delete(guardBindings, "", admissionpolicies.PolicyExceptions); err != nil {
		t.Fatal(err)
	}
	soonStates(t, x, "granted "+policyv1alpha1.ExceptionReasonNotPermitted)
}

// A status or a label is no change: the controller that writes statuses would otherwise cause another audit.
func TestStatusesOfExceptionsAreNoChange(t *testing.T) {
	x, err := NewExceptions(fake.NewSimpleDynamicClient(runtime.NewScheme()), 90*24*time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := func(change func(*unstructured.Unstructured)) any {
		object := exceptionObject("granted", "r")
		change(object)
		stored, err := x.keep(object)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	before := kept(func(*unstructured.Unstructured) {})
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		same   bool
	}{
		"a status": {func(o *unstructured.Unstructured) {
			o.SetResourceVersion("2")
			o.Object["status"] = map[string]any{"observedGeneration": int64(1)}
		}, true},
		"a label":                       {func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"team": "shop"}) }, true},
		"a spec":                        {func(o *unstructured.Unstructured) { o.SetGeneration(2) }, false},
		"another exception of the name": {func(o *unstructured.Unstructured) { o.SetUID("u-2") }, false},
	} {
		if got := sameSpec(before, kept(c.change)); got != c.same {
			t.Errorf("%s: the same: %t", name, got)
		}
	}
	if sameSpec(before, &unstructured.Unstructured{}) || sameSpec(&unstructured.Unstructured{}, &unstructured.Unstructured{}) {
		t.Error("a change of the guard is none")
	}
}

// Exceptions for which there is no memory are not active, until others are gone.
func TestMemoryOfExceptions(t *testing.T) {
	objects := guardObjects(t)
	large := exceptionObject("large", "r")
	names := make([]any, 0, MaxExceptions>>12)
	for i := range cap(names) {
		names = append(names, fmt.Sprintf("%d-%s", i, strings.Repeat("x", 4<<10)))
	}
	large.Object["spec"].(map[string]any)["virtualMachines"] = names
	large.SetUID("u-2")
	x, _ := fakeExceptions(t, append(objects, large, exceptionObject("small", "r"))...)
	soonStates(t, x, "large "+policyv1alpha1.ExceptionReasonTooMany+", small "+policyv1alpha1.ExceptionReasonExpiring)
}
