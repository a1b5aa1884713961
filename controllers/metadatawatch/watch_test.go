package metadatawatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/test/await"
)

var machines = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}

func object(name string, change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Generation: 1, Labels: map[string]string{"app": "db"}},
	}
	if change != nil {
		change(o)
	}
	return o
}

// A relist tells of the difference, the first list of nothing.
func TestOnlyChangesAreTold(t *testing.T) {
	var told []string
	began := 0
	s := &sums{watch: &Watch{Began: func() { began++ }, Changed: func(name types.NamespacedName) { told = append(told, name.String()) }}}
	expect := func(what string, want ...string) {
		t.Helper()
		slices.Sort(told)
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		told = nil
	}
	list := func(objects ...any) {
		t.Helper()
		for i := range objects {
			var err error
			if objects[i], err = s.Transformer()(objects[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Replace(objects, "1"); err != nil {
			t.Fatal(err)
		}
	}
	update := func(change func(*metav1.PartialObjectMetadata)) {
		t.Helper()
		if err := s.Update(object("a", change)); err != nil {
			t.Fatal(err)
		}
	}
	list(object("a", nil), object("b", nil), object("c", nil))
	expect("the first list")
	list(object("a", nil), object("c", func(o *metav1.PartialObjectMetadata) { o.Generation = 2 }), object("d", nil))
	expect("the next list", "default/b", "default/c", "default/d")
	for what, change := range map[string]func(*metav1.PartialObjectMetadata){
		"a generation": func(o *metav1.PartialObjectMetadata) { o.Generation = 2 },
		"a label":      func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"app": "web"} },
		"no label":     func(o *metav1.PartialObjectMetadata) { o.Labels = nil },
		"an annotation that looks like the label": func(o *metav1.PartialObjectMetadata) { o.Annotations, o.Labels = o.Labels, nil },
		"a deletion":            func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{} },
		"another with its name": func(o *metav1.PartialObjectMetadata) { o.UID = "other" },
	} {
		update(change)
		expect(what, "default/a")
		update(nil)
		expect(what+" and back", "default/a")
	}
	update(func(o *metav1.PartialObjectMetadata) {
		o.ResourceVersion, o.ManagedFields = "7", []metav1.ManagedFieldsEntry{{Manager: "status"}}
	})
	expect("a status")
	if err := s.Delete(object("a", nil)); err != nil {
		t.Fatal(err)
	}
	expect("a deletion that has ended", "default/a")
	if began != 1 {
		t.Errorf("it began %d times", began)
	}
}

// A watch of statuses reports every change, and one of existing objects the first list.
func TestMoreIsReported(t *testing.T) {
	var reported []string
	s := &sums{watch: &Watch{Status: true, Existing: true, Changed: func(name types.NamespacedName) { reported = append(reported, name.String()) }}}
	condense := func(o *metav1.PartialObjectMetadata) any { return s.watch.condensed(o) }
	if err := s.Replace([]any{condense(object("a", nil)), condense(object("b", nil))}, "1"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(reported)
	if diff := cmp.Diff([]string{"default/a", "default/b"}, reported); diff != "" {
		t.Errorf("the first list (-want +got):\n%s", diff)
	}
	reported = nil
	for _, version := range []string{"", "7", "7", "8"} {
		if err := s.Update(object("a", func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = version })); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"default/a", "default/a"}, reported); diff != "" {
		t.Errorf("changes of the status (-want +got):\n%s", diff)
	}
}

// listed lists what a fake client has.
type listed struct {
	client *fake.FakeMetadataClient
	bulk   string
}

func (l *listed) Each(ctx context.Context, list pages.List, found func(pages.Object) error) (string, error) {
	all, err := l.client.Resource(list.Resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range all.Items {
		if l.bulk != "" {
			all.Items[i].Annotations = map[string]string{"bulk": l.bulk}
		}
		data, err := json.Marshal(&all.Items[i])
		if err != nil {
			return "", err
		}
		if err := found(pages.Object{JSON: data}); err != nil {
			return "", err
		}
	}
	return all.ResourceVersion, found(pages.Object{Namespace: "default", Name: "too-large"})
}

// Nothing of what an object says is kept, whether the list comes in pages or as a stream.
func TestOnlySumsAreKept(t *testing.T) {
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, runtime.Object(object("a", nil)), object("b", nil))
	bulk := strings.Repeat("x", 256<<10)
	w := &Watch{Reader: Reader{Client: client, Pages: &listed{client, bulk}}, Resource: machines}
	inPages, err := w.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &sums{watch: w}
	if len(inPages.Items) != 3 {
		t.Fatalf("%d objects, not 3", len(inPages.Items))
	}
	for i := range inPages.Items[:2] {
		big := object(inPages.Items[i].Name, func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"bulk": bulk} })
		streamed, err := s.Transformer()(big)
		if err != nil {
			t.Fatal(err)
		}
		want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: big.Name, Generation: int64(w.sum(big))}} //nolint:gosec // the same bits
		if diff := cmp.Diff(want, streamed); diff != "" {
			t.Errorf("streamed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, &inPages.Items[i]); diff != "" {
			t.Errorf("in pages (-want +got):\n%s", diff)
		}
	}
}

func TestWatchFollowsTheAPIServer(t *testing.T) {
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, runtime.Object(object("a", nil)))
	var mu sync.Mutex
	told, began := map[string]bool{}, false
	w := &Watch{
		Reader: Reader{Client: client, Pages: &listed{client: client}}, Resource: machines,
		Began:   func() { mu.Lock(); defer mu.Unlock(); began = true },
		Changed: func(name types.NamespacedName) { mu.Lock(); defer mu.Unlock(); told[name.Name] = true },
	}
	await.Run(t, w.Run)
	seen := func(check func() bool, what string) {
		t.Helper()
		await.Until(t, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !check() {
				return fmt.Errorf("not yet: %s; told %v", what, told)
			}
			return nil
		})
	}
	seen(func() bool { return began }, "the first list")
	creator := client.Resource(machines).Namespace("default").(fake.MetadataClient)
	await.Until(t, func() error { // the watch begins a moment after the list
		name := fmt.Sprintf("new-%d", len(client.Actions()))
		if _, err := creator.CreateFake(object(name, nil), metav1.CreateOptions{}); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 0 {
			return fmt.Errorf("%s is not reported", name)
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if told["a"] {
		t.Error("the objects of the first list are reported")
	}
}

// absentPages have no list for a number of requests.
type absentPages struct{ left, requests int }

// Each implements Pages.
func (p *absentPages) Each(context.Context, pages.List, func(pages.Object) error) (string, error) {
	p.requests++
	if p.requests <= p.left {
		return "", fmt.Errorf("listing: %w", apierrors.NewNotFound(machines.GroupResource(), ""))
	}
	return "7", nil
}

// TestAwait holds how a kind is awaited that the cluster does not have.
func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		absent, requests int
		after            time.Duration
		version          string
	}{
		"it exists":      {0, 1, 0, "7"},
		"it comes":       {3, 4, 7 * time.Second, "7"},
		"it comes late":  {7, 8, 91 * time.Second, "7"},
		"it never comes": {1 << 20, 8, 100 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
				defer cancel()
				began, none := time.Now(), &absentPages{left: c.absent}
				w := &Watch{Reader: Reader{Pages: none}, Resource: machines}
				list, err := w.await(ctx)
				switch {
				case c.version == "" && !apierrors.IsNotFound(err), c.version != "" && (err != nil || list.ResourceVersion != c.version):
					t.Errorf("got %v, %v", list, err)
				case none.requests != c.requests || time.Since(began) != c.after:
					t.Errorf("got %d requests in %s, want %d in %s", none.requests, time.Since(began), c.requests, c.after)
				}
			})
		})
	}
}
