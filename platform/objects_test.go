package platform_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/await"
)

var (
	instancetypeKind = schema.GroupVersionKind{Group: "instancetype.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachineClusterInstancetype"}
	presetKind       = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstancePreset"}
	dataSourceKind   = schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataSource"}
	dataVolumeKind   = schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"}
	claimKind        = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	revisionKind     = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"}
	secretKind       = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// create creates a namespace, and in it an object with a spec, or without one.
func create(t *testing.T, kind schema.GroupVersionKind, namespace, name string, spec map[string]any) {
	t.Helper()
	if namespace != "" {
		if err := server(t).EnsureNamespace(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"})
	createUntilTheEnd(t, obj)
}

// createUntilTheEnd creates an object, and deletes it at the end of the test.
func createUntilTheEnd(t *testing.T, obj client.Object) {
	t.Helper()
	c := server(t).Client()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Claims have a finalizer, which no controller removes here.
		unprotect := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := errors.Join(c.Patch(context.Background(), obj, unprotect), c.Delete(context.Background(), obj)); err != nil {
			t.Error(err)
		}
	})
}

func preset(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, presetKind, namespace, name, map[string]any{"selector": map[string]any{}})
}

func instancetype(t *testing.T, name string) {
	t.Helper()
	create(t, instancetypeKind, "", name, map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "1Gi"}})
}

// revision creates a ControllerRevision with a number of bytes.
func revision(t *testing.T, name string, size int) {
	t.Helper()
	if err := server(t).EnsureNamespace(t.Context(), "revisions"); err != nil {
		t.Fatal(err)
	}
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "revisions", Name: name},
		Data:       runtime.RawExtension{Raw: []byte(`{"filling":"` + strings.Repeat("x", size) + `"}`)},
	}
	createUntilTheEnd(t, object)
}

func namesOf(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	return names
}

func runObjects(t *testing.T) (*platform.Objects, *requests) {
	t.Helper()
	counted, sent := countedConfig(t)
	objects, err := platform.NewWatchedObjects(counted)
	if err != nil {
		t.Fatal(err)
	}
	run(t, objects.Run)
	await.Until(t, objects.Ready)
	return objects, sent
}

func TestClusterWideKindsAreReadFromWatches(t *testing.T) {
	instancetype(t, "watched")
	objects, sent := runObjects(t)
	found, err := objects.Get(t.Context(), instancetypeKind, "", "watched")
	if err != nil || found.GetName() != "watched" {
		t.Fatalf("found %v, error %v", found, err)
	}
	if diff := cmp.Diff(map[string]string{"kept": "yes"}, found.GetAnnotations()); diff != "" || found.GetManagedFields() != nil {
		t.Errorf("unused fields are kept in memory: %v, annotations (-want +got):\n%s", found.GetManagedFields(), diff)
	}
	_, err = objects.Get(t.Context(), instancetypeKind, "", "none")
	if want := `virtualmachineclusterinstancetypes.instancetype.kubevirt.io "none" not found`; !apierrors.IsNotFound(err) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if n := sent.of("/watched") + sent.of("/none"); n != 0 {
		t.Errorf("%d requests were sent for it: %v", n, sent.sent)
	}

	instancetype(t, "later")
	await.Until(t, func() error {
		_, err := objects.Get(t.Context(), instancetypeKind, "", "later")
		return err
	})
}

// TestObjectsOfUsersAreNotCached verifies that there is no watch of objects that users write: it has no bound.
func TestObjectsOfUsersAreNotCached(t *testing.T) {
	for _, name := range []string{"b", "c", "a"} {
		preset(t, "users", name)
	}
	preset(t, "users-too", "d")
	objects, sent := runObjects(t)
	for range 3 {
		listed, err := objects.List(t.Context(), presetKind, "users")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, namesOf(listed)); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	}
	if n := sent.of("/namespaces/users/virtualmachineinstancepresets"); n != 1 {
		t.Errorf("%d requests in a moment, want 1: %v", n, sent.sent)
	}
	if n := sent.of("GET /apis/kubevirt.io/v1/virtualmachineinstancepresets"); n != 0 {
		t.Errorf("the presets of all namespaces are requested: %v", sent.sent)
	}
	if _, err := objects.Get(t.Context(), presetKind, "users", "a"); err != nil {
		t.Error(err)
	}
	if _, err := objects.Get(t.Context(), presetKind, "users-too", "a"); !apierrors.IsNotFound(err) {
		t.Errorf("another namespace's: %v", err)
	}
}

// TestNamesAreNotPaths verifies names that users write, because the webhook may read more than the user.
func TestNamesAreNotPaths(t *testing.T) {
	config, sent := countedConfig(t)
	objects, err := platform.NewObjects(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secrets/a", "a/status", "..", ".", "a%2f..", ""} {
		for _, namespace := range []string{"default", "../../../../api/v1/namespaces/kube-system"} {
			if _, err := objects.Get(t.Context(), claimKind, namespace, name); !apierrors.IsNotFound(err) {
				t.Errorf("%q in %q: error %v, want NotFound", name, namespace, err)
			}
		}
	}
	if len(sent.sent) != 0 {
		t.Errorf("requests were sent: %v", sent.sent)
	}
}

// TestNoNamespaceIsNoKind: without a namespace, the path is none of the kind, and the API server does not know it. Networks of
// a VM can be written so. Other objects of the kind must still be found.
func TestNoNamespaceIsNoKind(t *testing.T) {
	preset(t, "named", "a")
	config, sent := countedConfig(t)
	objects, err := platform.NewObjects(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Get(t.Context(), presetKind, "", "a"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want NotFound", err)
	}
	if len(sent.sent) != 0 {
		t.Errorf("requests were sent: %v", sent.sent)
	}
	if _, err := objects.Get(t.Context(), presetKind, "named", "a"); err != nil {
		t.Error(err)
	}
}

func TestLargeObjects(t *testing.T) {
	text := strings.Repeat("x", 60<<10)
	large := func(name string, spec map[string]any) { create(t, presetKind, "large", name, spec) }
	large("small", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}})
	objects, sent := runObjects(t)
	if listed, err := objects.List(t.Context(), presetKind, "large"); err != nil || len(listed) != 1 {
		t.Fatalf("listed %v, error %v", listed, err)
	}
	labels := map[string]any{}
	for i := range 2000 {
		labels[fmt.Sprintf("a-rather-long-name-of-a-label-%d", i)] = strings.Repeat("v", 60)
	}
	large("a", map[string]any{"selector": map[string]any{"matchLabels": labels}})
	if _, err := objects.Get(t.Context(), presetKind, "large", "a"); !errors.Is(err, platform.ErrTooLarge) {
		t.Errorf("one that is too large: %v", err)
	}
	for i := range 10 {
		large(fmt.Sprintf("b%d", i), map[string]any{"selector": map[string]any{"matchLabels": labels}})
	}
	await.Until(t, func() error { // the cached list expires
		if _, err := objects.List(t.Context(), presetKind, "large"); !errors.Is(err, platform.ErrTooLarge) {
			return fmt.Errorf("listed: %w", err)
		}
		return nil
	})
	for i := range 101 {
		preset(t, "many", fmt.Sprintf("p%d", i))
	}
	for range 3 {
		if _, err := objects.List(t.Context(), presetKind, "many"); !errors.Is(err, platform.ErrTooLarge) {
			t.Errorf("a hundred and one: %v", err)
		}
	}
	if n := sent.of("/namespaces/many/virtualmachineinstancepresets"); n != 1 {
		t.Errorf("%d requests for what is too large, want 1 in a while: %v", n, sent.sent)
	}
	kind := instancetypeKind
	create(t, kind, "", "large", map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "1Gi"}, "annotations": map[string]any{"a": text, "b": text}})
	await.Until(t, func() error {
		if _, err := objects.Get(t.Context(), kind, "", "large"); !errors.Is(err, platform.ErrTooLarge) {
			return fmt.Errorf("read: %w", err)
		}
		return nil
	})
	if stats := objects.Statistics(); stats.TooLarge < 4 || stats.Bytes > platform.MaxCached {
		t.Errorf("statistics %+v", stats)
	}
}

func TestObjectsAboveTheBudgetAreRead(t *testing.T) {
	if err := server(t).EnsureNamespace(t.Context(), "live"); err != nil {
		t.Fatal(err)
	}
	create(t, claimKind, "live", "claim", map[string]any{
		"accessModes": []any{string(corev1.ReadWriteOnce)},
		"resources":   map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	})
	objects, sent := runObjects(t)
	for range 2 {
		if found, err := objects.Get(t.Context(), claimKind, "live", "claim"); err != nil || found.GetName() != "claim" {
			t.Fatalf("found %v, error %v", found, err)
		}
	}
	if n := sent.of("/namespaces/live/persistentvolumeclaims/claim"); n != 1 {
		t.Errorf("%d requests in a moment, want 1", n)
	}
	if _, err := objects.Get(t.Context(), claimKind, "live", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("a claim that does not exist: %v", err)
	}
	if _, err := objects.Get(t.Context(), dataVolumeKind, "live", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("a kind that does not exist: %v", err)
	}
	if listed, err := objects.List(t.Context(), dataVolumeKind, "live"); err != nil || len(listed) != 0 {
		t.Errorf("a list of a kind that does not exist: %v, %v", listed, err)
	}
}

func TestAbsentKindIsCached(t *testing.T) {
	objects, sent := runObjects(t)
	for range 3 {
		_, _ = objects.Get(t.Context(), dataSourceKind, "default", "absent")
	}
	if _, err := objects.Get(t.Context(), dataSourceKind, "default", "absent"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
	if listed, err := objects.List(t.Context(), dataSourceKind, "default"); err != nil || len(listed) != 0 {
		t.Errorf("listed %v, error %v", listed, err)
	}
	if n := sent.of("/namespaces/default/datasources"); n > 1 {
		t.Errorf("%d requests for a kind that is known not to exist", n)
	}
}

func TestRevisionsAreCached(t *testing.T) {
	revision(t, "small", 1<<10)
	revision(t, "large", 900<<10)
	objects, sent := runObjects(t)
	for range 3 {
		if found, err := objects.Get(t.Context(), revisionKind, "revisions", "small"); err != nil || found.GetName() != "small" {
			t.Fatalf("found %v, error %v", found, err)
		}
		if found, err := objects.Get(t.Context(), revisionKind, "revisions", "large"); !errors.Is(err, platform.ErrTooLarge) {
			t.Fatalf("found %v, error %v", found, err)
		}
	}
	if n := sent.of("/controllerrevisions/small"); n != 1 {
		t.Errorf("%d requests for one revision, want 1: it cannot change", n)
	}
	if n := sent.of("/controllerrevisions/large"); n != 1 {
		t.Errorf("%d requests for a large revision, want 1: that it is too large is remembered for a while", n)
	}
	for range 2 {
		if _, err := objects.Get(t.Context(), revisionKind, "revisions", "none"); !apierrors.IsNotFound(err) {
			t.Errorf("a revision that does not exist: %v", err)
		}
	}
	if n := sent.of("/controllerrevisions/none"); n != 2 {
		t.Errorf("%d requests for a revision that does not exist, want 2: it may appear", n)
	}
}

func TestObjectsWithoutWatches(t *testing.T) {
	instancetype(t, "unwatched")
	preset(t, "unwatched", "b")
	preset(t, "unwatched", "a")
	counted, sent := countedConfig(t)
	objects, err := platform.NewObjects(counted)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Ready(); err != nil {
		t.Errorf("there is nothing to wait for: %v", err)
	}
	if _, err := objects.Get(t.Context(), instancetypeKind, "", "unwatched"); err != nil {
		t.Error(err)
	}
	if n := sent.of("GET /apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes/unwatched"); n != 1 {
		t.Errorf("%d requests, want 1: %v", n, sent.sent)
	}
	listed, err := objects.List(t.Context(), presetKind, "unwatched")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, namesOf(listed)); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if _, err := objects.Get(t.Context(), dataSourceKind, "default", "absent"); !apierrors.IsNotFound(err) {
		t.Errorf("a kind that does not exist: %v", err)
	}
}

func TestUnknownKinds(t *testing.T) {
	counted, sent := countedConfig(t)
	objects, err := platform.NewObjects(counted)
	if err != nil {
		t.Fatal(err)
	}
	_, err = objects.Get(t.Context(), secretKind, "default", "password")
	if want := "reading Secret password: virtual machines do not refer to this kind"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = objects.List(t.Context(), secretKind, "default")
	if want := "listing Secret: virtual machines do not refer to this kind"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if len(sent.sent) != 0 {
		t.Errorf("requests were sent: %v", sent.sent)
	}
}

func TestReadyReportsTheSameError(t *testing.T) {
	counted, _ := countedConfig(t)
	objects, err := platform.NewWatchedObjects(counted)
	if err != nil {
		t.Fatal(err)
	}
	first := objects.Ready()
	if first == nil || !strings.Contains(first.Error(), "not synced yet") {
		t.Fatalf("got %v before it runs", first)
	}
	for range 50 {
		if again := objects.Ready(); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Fatalf("%v\nand then %v", first, again)
		}
	}
}

// TestPoolsOfOlderClusters: KubeVirt 1.6 serves pools in the older version only.
func TestPoolsOfOlderClusters(t *testing.T) {
	const older, newer = "/apis/pool.kubevirt.io/v1alpha1/namespaces/shop/virtualmachinepools/web", "/apis/pool.kubevirt.io/v1beta1/namespaces/shop/virtualmachinepools/web"
	for path, requests := range map[string]map[string]int{newer: {newer: 1}, older: {newer: 1, older: 1}} {
		objects, reads := recorded(t, map[string]string{path: `{"metadata":{"name":"web"},"spec":{"replicas":2}}`})
		found, err := objects.Get(t.Context(), apikinds.Pools.GroupVersionKind, "shop", "web")
		if err != nil {
			t.Fatal(err)
		}
		if replicas, _, _ := unstructured.NestedInt64(found.Object, "spec", "replicas"); replicas != 2 {
			t.Errorf("%v", found.Object)
		}
		if diff := cmp.Diff(requests, reads); diff != "" {
			t.Errorf("reads (-want +got):\n%s", diff)
		}
	}
}

// TestOtherKindsHaveNoOlderVersion: each supported cluster serves the first version of the others.
func TestOtherKindsHaveNoOlderVersion(t *testing.T) {
	objects, reads := recorded(t, nil)
	if _, err := objects.Get(t.Context(), apikinds.VirtualMachines.GroupVersionKind, "shop", "web"); !apierrors.IsNotFound(err) {
		t.Fatalf("the error is %v", err)
	}
	if diff := cmp.Diff(map[string]int{"/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/web": 1}, reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}
