package configcache

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// TestWithAPIServer shares one control plane, which takes longer to start than the tests take.
func TestWithAPIServer(t *testing.T) {
	cluster := planes.Start(t, controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
	t.Run("Settings", func(t *testing.T) { testSettings(t, cluster) })
	t.Run("Defaults", func(t *testing.T) { testDefaults(t, cluster) })
	t.Run("Policies", func(t *testing.T) { testPolicies(t, cluster) })
	t.Run("Namespaces", func(t *testing.T) { testNamespaces(t, cluster) })
	t.Run("NamespacesBound", func(t *testing.T) { testNamespacesBound(t, cluster) })
}

// defaultsObject is a VirtualMachineDefaults as the API server keeps it, with its spec given in YAML.
func defaultsObject(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = fields
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachineDefaults"))
	object.SetName(name)
	return object
}

// testDefaults is run by TestWithAPIServer.
func testDefaults(t *testing.T, cluster *controlplane.ControlPlane) {
	if err := cluster.InstallVirtwardCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	resource := client.Resource(siteDefaults)
	create := func(name, spec string) {
		t.Helper()
		if _, err := resource.Create(t.Context(), defaultsObject(t, name, spec), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("b", `{template: {schedulerName: b}}`)
	create("broken", `{template: {scheduler: b}}`)
	var mu sync.Mutex
	var told []string
	w, err := NewDefaults(client, func(change Change) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(change.Objects, change.Notes, change.Err))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(); err == nil || err.Error() != "the VirtualMachineDefaults have not been read yet" || w.Current() != nil {
		t.Errorf("before it runs: ready %v, site %v", err, w.Current())
	}
	await.Run(t, w.Run)
	soon := func(want ...string) {
		t.Helper()
		await.Until(t, func() error {
			var got []string
			for _, s := range w.Current().For(nil) {
				got = append(got, s.Layer())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("active (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	soon("site/b")
	create("a", `{template: {schedulerName: a}}`)
	soon("site/a", "site/b")
	if err := resource.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	soon("site/a")
	mu.Lock()
	defer mu.Unlock()
	note := "[VirtualMachineDefaults broken has no effect: spec.template.scheduler: Invalid value: there is no such field in the spec of a virtual machine instance] <nil>"
	want := []string{"[b broken] " + note, "[a b broken] " + note, "[a broken] " + note}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
