package watch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func TestBudget(t *testing.T) {
	b := NewBudget(100)
	for i, step := range []struct {
		key   string
		bytes int64
		want  bool
		used  int64
	}{
		{"a", 60, true, 60},
		{"b", 50, false, 60},
		{"b", 40, true, 100},
		{"a", 60, true, 100}, // the same object once more
		{"a", 10, true, 50},  // a smaller version of it
		{"a", 61, false, 40}, // a version that does not fit
		{"c", 60, true, 100}, // its reservation is released
		{"d", 0, true, 100},  // nothing always fits
	} {
		if got := b.Take(step.key, step.bytes); got != step.want || b.Used() != step.used {
			t.Errorf("step %d: Take(%s, %d) is %v, %d bytes used; want %v, %d", i, step.key, step.bytes, got, b.Used(), step.want, step.used)
		}
	}
	b.Set("c", 0)
	b.Set("c", 0)
	if b.Used() != 40 {
		t.Errorf("%d bytes used after an object has gone", b.Used())
	}
}

type sized struct {
	metav1.ObjectMeta

	bytes int64
}

func (s *sized) Cost() int64 { return s.bytes }

func TestHandlerFollowsTheInformer(t *testing.T) {
	b := NewBudget(100)
	handler := b.Handler()
	of := func(bytes int64) *sized { return &sized{metav1.ObjectMeta{Namespace: "n", Name: "m"}, bytes} }
	handler.OnAdd(of(30), false)
	handler.OnUpdate(of(30), of(50))
	if b.Used() != 50 {
		t.Errorf("%d bytes used, want 50", b.Used())
	}
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "n/m", Obj: of(50)})
	if b.Used() != 0 {
		t.Errorf("%d bytes used, want 0", b.Used())
	}
}

// pages are what an API server answers that does not stream: some objects at a time.
type pages struct {
	total   int
	expires bool
	// asked are the limits and places of the requests, whole the objects of a page that were not reduced when the next
	// page was requested.
	asked []string
	last  *corev1.ConfigMapList
	whole int
}

func (p *pages) List(_ context.Context, options metav1.ListOptions) (*corev1.ConfigMapList, error) {
	p.asked = append(p.asked, fmt.Sprintf("%d from %q", options.Limit, options.Continue))
	if p.last != nil {
		for i := range p.last.Items {
			if p.last.Items[i].Data != nil {
				p.whole++
			}
		}
	}
	start := 0
	if options.Continue != "" {
		if p.expires {
			return nil, apierrors.NewResourceExpired("the list is too old")
		}
		start, _ = strconv.Atoi(options.Continue)
	}
	end := min(start+int(options.Limit), p.total)
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for i := start; i < end; i++ {
		list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}, Data: map[string]string{"large": "value"}})
	}
	if end < p.total {
		list.Continue = strconv.Itoa(end)
	}
	p.last = list
	return list, nil
}

func (p *pages) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewEmptyWatch(), nil
}

func TestListWatchReducesEachPageBeforeTheNext(t *testing.T) {
	p := &pages{total: 2*pageSize + 1}
	lister := ListWatch(p, p, func(object runtime.Object) { object.(*corev1.ConfigMap).Data = nil })
	got, err := cache.ToListerWatcherWithContext(lister).ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "3", Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(items) != p.total || slices.ContainsFunc(items, func(o runtime.Object) bool { return o.(*corev1.ConfigMap).Data != nil }) {
		t.Errorf("%d objects, want %d reduced ones", len(items), p.total)
	}
	if diff := cmp.Diff([]string{`50 from ""`, `50 from "50"`, `50 from "100"`}, p.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if p.whole > 0 {
		t.Errorf("%d objects were held whole while a page was requested", p.whole)
	}
	if list := got.(*corev1.ConfigMapList); list.Continue != "" || list.ResourceVersion != "7" {
		t.Errorf("the list says continue %q, version %q", list.Continue, list.ResourceVersion)
	}
}

func TestListWatchReturnsAnExpiredPage(t *testing.T) {
	p := &pages{total: pageSize + 1, expires: true}
	if _, err := cache.ToListerWatcherWithContext(ListWatch(p, p, nil)).ListWithContext(t.Context(), metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the error is %v", err)
	}
}
