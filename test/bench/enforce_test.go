package bench

import (
	"context"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/policies"
)

// BenchmarkValidatePolicies50 is BenchmarkValidateRequest with 50 policies in CEL, which let the VMI pass.
func BenchmarkValidatePolicies50(b *testing.B) { benchmarkValidatePolicies(b, celSet(b, 50)) }

// BenchmarkValidateRego50 is the same with 50 policies in Rego.
func BenchmarkValidateRego50(b *testing.B) { benchmarkValidatePolicies(b, regoSet(b, 50)) }

func benchmarkValidatePolicies(b *testing.B, set *policies.Set) {
	b.Helper()
	request := reviewWith(b, set)
	b.ReportAllocs()
	for b.Loop() {
		if err := request(); err != nil {
			b.Fatal(err)
		}
	}
}

// heapInUse returns the heap in use after a garbage collection, in MB.
func heapInUse() float64 {
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}

// storedPolicies returns a number of stored policies: ten different ones in CEL, the others in Rego.
func storedPolicies(tb testing.TB, count int) []runtime.Object {
	tb.Helper()
	modules := regoLibrary()
	objects := make([]runtime.Object, 0, count)
	for i := range count {
		spec := map[string]any{}
		if i%2 == 0 {
			if err := yaml.Unmarshal([]byte(celPolicies[i/2%len(celPolicies)]), &spec); err != nil {
				tb.Fatal(err)
			}
		} else {
			spec["rego"] = map[string]any{"module": fmt.Sprintf("package p%d\n", i) + modules[i/2%len(modules)]}
			spec["params"] = map[string]any{"values": map[string]any{"architectures": []any{"amd64", "arm64"}}}
		}
		spec["enforcement"] = "Deny"
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
		object.SetName(fmt.Sprintf("p-%04d", i))
		objects = append(objects, object)
	}
	return objects
}

// BenchmarkPoliciesMemory measures the memory of a process with stored policies, half of them in CEL and half in Rego, that a cache
// compiles, and after requests that evaluate 100,000 policies. Measure each number of policies in a process of its own.
func BenchmarkPoliciesMemory(b *testing.B) {
	for _, count := range []int{50, 1000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			w := loadPolicies(b, count)
			request := reviewWith(b, w.Current())
			debug.FreeOSMemory()
			for b.Loop() {
				for range 100_000 / count {
					if err := request(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(ownMemory(), "RssAnon-MB")
			b.ReportMetric(heapInUse(), "heap-MB")
			goruntime.KeepAlive(w)
		})
	}
}

// loadPolicies returns a cache that has compiled stored policies.
func loadPolicies(b *testing.B, count int) *configcache.Policies {
	b.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies"): "VirtualMachinePolicyList", corev1.SchemeGroupVersion.WithResource("configmaps"): "ConfigMapList",
	}, storedPolicies(b, count)...)
	changes := make(chan configcache.Change, 10)
	w, err := configcache.NewPolicies(client, configcache.PoliciesOptions{Namespace: "virtward-system", ParamsNamespaces: []string{"virtward-system"}, Environment: environment(b)},
		func(c configcache.Change) { changes <- c })
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	if first := <-changes; len(first.Objects) != count || len(first.Notes) != 0 {
		b.Fatalf("%d policies, of which are broken: %v", len(first.Objects), first.Notes)
	}
	return w
}

// BenchmarkPoliciesLoad1000 is the time from the start of the watch to 1,000 compiled policies, half of them in CEL
// and half in Rego; and from the change of one of them, while the others are there, to its being active.
func BenchmarkPoliciesLoad1000(b *testing.B) {
	const many = 1000
	resource, configMaps := policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies"), corev1.SchemeGroupVersion.WithResource("configmaps")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		resource: "VirtualMachinePolicyList", configMaps: "ConfigMapList",
	}, storedPolicies(b, many)...)
	env := environment(b)
	start := func(b *testing.B) (*configcache.Policies, chan configcache.Change) {
		b.Helper()
		changes := make(chan configcache.Change, 10)
		w, err := configcache.NewPolicies(client, configcache.PoliciesOptions{Namespace: "virtward-system", ParamsNamespaces: []string{"virtward-system"}, Environment: env},
			func(c configcache.Change) { changes <- c })
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		b.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		})
		if first := <-changes; len(first.Objects) != many || len(first.Notes) != 0 || len(w.Current().Policies()) != many {
			b.Fatalf("%d policies, of which are broken: %v", len(first.Objects), first.Notes)
		}
		return w, changes
	}
	b.Run("all", func(b *testing.B) {
		before, kept := heapInUse(), []*configcache.Policies{}
		for b.Loop() {
			w, _ := start(b)
			kept = append(kept, w)
		}
		b.ReportMetric((heapInUse()-before)/float64(len(kept)), "heap-MB")
		goruntime.KeepAlive(kept)
	})
	b.Run("one", func(b *testing.B) {
		w, changes := start(b)
		n := 0
		for b.Loop() {
			stored, err := client.Resource(resource).Get(context.Background(), "p-0000", metav1.GetOptions{})
			if err != nil {
				b.Fatal(err)
			}
			n++
			if err := unstructured.SetNestedField(stored.Object, fmt.Sprintf("title %d", n), "spec", "title"); err != nil {
				b.Fatal(err)
			}
			if _, err := client.Resource(resource).Update(context.Background(), stored, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
			select {
			case <-changes:
			case <-time.After(10 * time.Second):
				b.Fatal("the change is not active")
			}
			if title := w.Current().Find("p-0000").Spec().Title; title != fmt.Sprintf("title %d", n) {
				b.Fatalf("the title is %q", title)
			}
		}
	})
}
