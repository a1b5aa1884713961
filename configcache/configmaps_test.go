package configcache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/await"
)

// configMapOf is a ConfigMap of the namespace params with a text of so many kilobytes.
func configMapOf(name string, kilobytes int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"text": strings.Repeat("x", kilobytes<<10)}}}
	object.SetAPIVersion("v1")
	object.SetKind("ConfigMap")
	object.SetNamespace("params")
	object.SetName(name)
	object.SetResourceVersion("1")
	object.SetAnnotations(map[string]string{"large": strings.Repeat("x", 200<<10)})
	return object
}

// naming are policies that name ConfigMaps of the namespace params.
func naming(names ...string) []policyRead {
	all := make([]policyRead, len(names))
	for i, name := range names {
		all[i].Object = &policyv1alpha1.VirtualMachinePolicy{}
		all[i].Object.Spec.Params = &policyv1alpha1.PolicyParams{ConfigMap: &policyv1alpha1.PolicyConfigMap{Namespace: "params", Name: name}}
	}
	return all
}

func watchedConfigMaps(t *testing.T, changed func(), objects ...runtime.Object) (*configMaps, *fake.FakeDynamicClient) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{configMapResource: "ConfigMapList"}, objects...)
	c, err := newConfigMaps(client, []string{"params"}, changed)
	if err != nil {
		t.Fatal(err)
	}
	await.Run(t, func(ctx context.Context) error {
		c.run(ctx)
		return nil
	})
	await.Until(t, c.unread)
	return c, client
}

func gets(client *fake.FakeDynamicClient) int {
	count := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "get" {
			count++
		}
	}
	return count
}

// Other ConfigMaps in the namespace take no memory, and do not affect the parameters of policies.
func TestConfigMapsThatNoPolicyNamesAreNotRead(t *testing.T) {
	objects := []runtime.Object{configMapOf("caps", 1)}
	for i := range 20 {
		objects = append(objects, configMapOf(fmt.Sprintf("a-large-%02d", i), 900))
	}
	c, client := watchedConfigMaps(t, func() {}, objects...)
	c.want(naming("caps", "absent"))
	for range 3 {
		if found := c.find("params", "caps", true); found.unreadable != nil || len(found.data["text"]) != 1<<10 {
			t.Errorf("the parameters are %d bytes: %v", len(found.data["text"]), found.unreadable)
		}
		if found := c.find("params", "absent", true); found.found || found.unreadable != nil {
			t.Errorf("the absent one is %+v", found)
		}
	}
	if n := gets(client); n != 1 {
		t.Errorf("%d ConfigMaps are read, want 1", n)
	}
	if n := len(c.read); n != 1 {
		t.Errorf("%d ConfigMaps are kept, want 1", n)
	}
	c.want(nil)
	if n := len(c.read); n != 0 {
		t.Errorf("%d ConfigMaps are kept after the policies are gone", n)
	}
}

func TestConfigMapsOfPoliciesAreBounded(t *testing.T) {
	var objects []runtime.Object
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("large-%d", i))
		objects = append(objects, configMapOf(names[i], 900))
	}
	c, _ := watchedConfigMaps(t, func() {}, objects...)
	c.want(naming(names...))
	read := func(denies bool) (count int) {
		for _, name := range names {
			found := c.find("params", name, denies)
			limit := map[bool]int{true: 6, false: 3}[denies]
			want := fmt.Sprintf("ConfigMap params/%s is not read: the ConfigMaps that policies name need more than %d MiB together", name, limit)
			switch {
			case found.unreadable == nil:
				count++
			case found.unreadable.Error() != want:
				t.Errorf("%s: %v", name, found.unreadable)
			}
		}
		return count
	}
	if n := read(false); n != 3 {
		t.Errorf("%d are read for policies that do not deny, want 3", n)
	}
	if n := read(true); n != 6 {
		t.Errorf("%d are read for policies that deny, want 6", n)
	}
}

func TestAChangedConfigMapIsReadAgain(t *testing.T) {
	var changes atomic.Int64
	c, client := watchedConfigMaps(t, func() { changes.Add(1) }, configMapOf("caps", 1), configMapOf("other", 1))
	c.want(naming("caps"))
	c.find("params", "caps", true)
	before := changes.Load()
	update := func(name string) {
		t.Helper()
		object := configMapOf(name, 2)
		object.SetResourceVersion("2")
		if _, err := client.Resource(configMapResource).Namespace("params").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update("other")
	update("caps")
	await.Until(t, func() error {
		if changes.Load() == before {
			return errors.New("no change is reported")
		}
		return nil
	})
	if found := c.find("params", "caps", true); len(found.data["text"]) != 2<<10 {
		t.Errorf("the parameters are %d bytes: %v", len(found.data["text"]), found.unreadable)
	}
	if got := changes.Load() - before; got != 1 {
		t.Errorf("%d changes are reported, want that of the ConfigMap that is wanted", got)
	}
}

// A read that failed is repeated later, without a change of the ConfigMap.
func TestAFailedReadIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{configMapResource: "ConfigMapList"})
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no answer")
		})
		var changes atomic.Int64
		c, err := newConfigMaps(client, []string{"params"}, func() { changes.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if found := c.get(types.NamespacedName{Namespace: "params", Name: "caps"}, true); found.unreadable == nil || found.unreadable.Error() != "reading ConfigMap params/caps: no answer" {
				t.Errorf("the error is %v", found.unreadable)
			}
		}
		time.Sleep(readRetry + time.Second)
		if got := changes.Load(); got != 1 {
			t.Errorf("%d changes are reported, want 1", got)
		}
	})
}
