package killswitch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

const apiName = "v1beta1.subresources.template.kubevirt.io"

// apiService is the registration of an API of Virtward, with the state of its condition Available.
func apiService(name, available string) *unstructured.Unstructured {
	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{
			"name": name, "uid": "1", "resourceVersion": "7", "labels": map[string]any{"app.kubernetes.io/part-of": "virtward"},
			"annotations": map[string]any{"meta.helm.sh/release-name": "virtward"},
		},
		"spec": map[string]any{"group": "subresources.template.kubevirt.io", "version": strings.SplitN(name, ".", 2)[0], "caBundle": "Yg==", "service": map[string]any{"namespace": "virtward-system", "name": "virtward-apiserver"}},
	}}
	if available != "" {
		api.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": available}}}
	}
	return api
}

// apis are the registered APIs, without what the API server sets.
func (b *bench) apis(t *testing.T) map[string]any {
	t.Helper()
	list, err := b.Client.Resource(APIServices).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for i := range list.Items {
		api := list.Items[i].Object
		delete(api, "status")
		for _, field := range []string{"uid", "resourceVersion"} {
			unstructured.RemoveNestedField(api, "metadata", field)
		}
		found[list.Items[i].GetName()] = api
	}
	return found
}

// TestAPIsThatDoNotAnswer: disable removes them, and enable creates them again as they were. Others stay.
func TestAPIsThatDoNotAnswer(t *testing.T) {
	const other, fresh = "v1alpha1.subresources.template.kubevirt.io", "v2.subresources.template.kubevirt.io"
	b := newBench(t, installation(apiService(apiName, "False"), apiService(other, "True"), apiService(fresh, ""))...)
	before, admission := b.apis(t), b.snapshot(t)

	b.DryRun = true
	if err := b.Disable(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	if said := b.printed(); !strings.Contains(said, "APIService "+apiName+": would be removed, because it does not answer\n") || strings.Contains(said, other) {
		t.Errorf("a dry run says\n%s", said)
	}
	if diff := cmp.Diff(before, b.apis(t)); diff != "" {
		t.Errorf("after a dry run (-before +after):\n%s", diff)
	}
	b.DryRun = false

	for range 2 { // the second time, nothing is left to remove, and what is recorded stays
		if err := b.Disable(t.Context(), "a test"); err != nil {
			t.Fatal(err)
		}
	}
	if said := b.printed(); strings.Count(said, "APIService "+apiName+": removed, because it does not answer: no namespace would be deleted meanwhile\n") != 1 {
		t.Errorf("disable says\n%s", said)
	}
	after := b.apis(t)
	if _, there := after[apiName]; there || len(after) != 2 {
		t.Errorf("after disable, the APIs are %v", after)
	}
	if names, err := Removed(t.Context(), b.Client); err != nil || len(names) != 1 || names[0] != apiName {
		t.Errorf("removed are %v, %v", names, err)
	}

	if err := b.Enable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := b.printed(); !strings.Contains(said, "APIService "+apiName+": created again\n") {
		t.Errorf("enable says\n%s", said)
	}
	if diff := cmp.Diff(before, b.apis(t)); diff != "" {
		t.Errorf("after enable (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(admission, b.snapshot(t)); diff != "" {
		t.Errorf("the configurations after enable (-before +after):\n%s", diff)
	}
}

// TestAPIsAreRecordedFirst: an API whose record cannot be written stays, and disable says so and switches off the rest.
func TestAPIsAreRecordedFirst(t *testing.T) {
	b := newBench(t, installation(apiService(apiName, "False"))...)
	b.fake.PrependReactor("update", "mutatingwebhookconfigurations", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, _ := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		if object.GetAnnotations()[removedAnnotation] != "" {
			return true, nil, errors.New("no")
		}
		return false, nil, nil
	})
	err := b.Disable(t.Context(), "a test")
	if said := b.printed(); err == nil || !strings.Contains(said, "error: APIService "+apiName+": no\n") || !strings.Contains(said, "MutatingWebhookConfiguration mutate.virtward.io: switched off") {
		t.Errorf("%v\n%s", err, said)
	}
	if len(b.apis(t)) != 1 {
		t.Error("the API is removed without a record")
	}
}

// TestAPIsThatAreThereAgain: Helm or a user created it meanwhile.
func TestAPIsThatAreThereAgain(t *testing.T) {
	b := newBench(t, installation(apiService(apiName, "False"))...)
	if err := b.Disable(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.Resource(APIServices).Create(t.Context(), apiService(apiName, ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Enable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, err := Removed(t.Context(), b.Client); err != nil || len(names) != 0 {
		t.Errorf("removed are %v, %v", names, err)
	}
}

// TestAPIsThatCannotBeListed: disable switches off the rest, and fails.
func TestAPIsThatCannotBeListed(t *testing.T) {
	b := newBench(t, installation()...)
	b.fake.PrependReactor("list", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(APIServices.GroupResource(), "", errors.New("no"))
	})
	err := b.Disable(t.Context(), "a test")
	if said := b.printed(); err == nil || !strings.Contains(said, "error: listing apiservices: ") || !strings.Contains(said, "ValidatingWebhookConfiguration validate.virtward.io: switched off") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestAPIsOfOthers: the annotation can be written while its guard is off. No other API is registered with the rights of the admin.
func TestAPIsOfOthers(t *testing.T) {
	for name, content := range map[string]string{
		"v1.apps": `{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1"}}`,
		apiName:   `{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.apps"}, "spec": {"group": "subresources.template.kubevirt.io", "version": "v1beta1"}}`,
		"v1beta2.subresources.template.kubevirt.io": `{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta2.subresources.template.kubevirt.io"}, "spec": {"group": "apps", "version": "v1beta2"}}`,
		"v1.\u001b[2J": `[]`,
	} {
		b := newBench(t, installation()...)
		holder, err := (&Switch{Client: b.Client}).holder(t.Context())
		if err != nil || holder == nil {
			t.Fatal(err)
		}
		record, err := json.Marshal(map[string]json.RawMessage{name: json.RawMessage(content)})
		if err != nil {
			t.Fatal(err)
		}
		holder.SetAnnotations(map[string]string{removedAnnotation: string(record)})
		if _, err := b.Client.Resource(Kinds()[0].Resource).Update(t.Context(), holder, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		err = b.Enable(t.Context())
		if said := b.printed(); err == nil || !strings.Contains(said, "of the annotation "+removedAnnotation) || strings.Contains(said, "\x1b") {
			t.Errorf("%q: %v\n%s", name, err, said)
		}
		if got := b.apis(t); len(got) != 0 {
			t.Errorf("%q: registered are %v", name, got)
		}
	}
}
