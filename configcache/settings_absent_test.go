package configcache

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/virtward/virtward/test/await"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/validators"
)

// A kind that vanishes, as it may for a moment while an API server starts, changes nothing.
func TestSettingsOutliveTheirKind(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"rules": []any{map[string]any{"rule": "disk-bus", "severity": "Warn"}},
	}}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("RuleSettings"))
	object.SetName("a")
	resource := policyv1alpha1.GroupVersion.WithResource("rulesettings")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "RuleSettingsList"})
	if _, err := client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var told []string
	w, err := NewSettings(client, validators.Table{{ID: "disk-bus"}}, func(change Change) {
		text := "active: " + strings.Join(change.Objects, ",")
		if change.Err != nil {
			text += "; " + change.Err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		told = append(told, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	gone := apierrors.NewNotFound(resource.GroupResource(), "")
	w.watchFailed(t.Context(), nil, gone) // it has not been there since the start
	if err := w.Ready(); err != nil || w.Current().For(nil) != nil {
		t.Errorf("without the kind: ready %v, set %v", err, w.Current().For(nil))
	}
	await.Run(t, w.Run)
	want := validators.Severities{"disk-bus": validators.Warn}
	active := func() string { return cmp.Diff(want, w.Current().For(nil)) }
	await.Until(t, func() error {
		if diff := active(); diff != "" {
			return errors.New(diff)
		}
		return nil
	})

	for range 3 {
		w.watchFailed(t.Context(), nil, gone)
		if diff := active(); diff != "" {
			t.Fatalf("the kind vanished, and with it (-want +got):\n%s", diff)
		}
	}
	w.rebuild() // it is back
	if diff := active(); diff != "" {
		t.Errorf("the kind came back, and (-want +got):\n%s", diff)
	}
	wantTold := []string{
		"active: ", "active: a",
		`active: a; the cluster no longer has RuleSettings: rulesettings.policy.virtward.io "" not found`,
		"active: a",
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(wantTold, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
