package configcache

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/virtward/virtward/test/await"
)

func TestConfigMapsAreBounded(t *testing.T) {
	var objects []runtime.Object
	for i := range 10 {
		object := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"text": strings.Repeat("x", 900<<10)}}}
		object.SetAPIVersion("v1")
		object.SetKind("ConfigMap")
		object.SetNamespace("params")
		object.SetName(fmt.Sprintf("large-%d", i))
		object.SetAnnotations(map[string]string{"large": strings.Repeat("x", 200<<10)})
		objects = append(objects, object)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{configMapResource: "ConfigMapList"}, objects...)
	c, err := newConfigMaps(client, []string{"params"}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	await.Run(t, func(ctx context.Context) error {
		c.run(ctx)
		return nil
	})
	await.Until(t, c.unread)
	read := 0
	for i := range 10 {
		name := fmt.Sprintf("large-%d", i)
		found := c.find("params", name)
		if found.unreadable == nil {
			read++
			continue
		}
		want := "ConfigMap params/" + name + " is not read: the ConfigMaps of params take more than 6 MiB together. Delete some of them, then change this one"
		if found.unreadable.Error() != want {
			t.Errorf("%s: %v", name, found.unreadable)
		}
	}
	if read != 6 {
		t.Errorf("%d of 10 are read, want 6", read)
	}
	if used := c.budget.Used(); used > MaxParameters {
		t.Errorf("%d bytes are used", used)
	}
}
