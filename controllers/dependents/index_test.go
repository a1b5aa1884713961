package dependents

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func key(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
}

func object(name string) Object {
	return Object{Resource: schema.GroupResource{Resource: "disks"}, NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
}

func TestIndexFollowsItsKeys(t *testing.T) {
	x := New(3)
	for i, s := range []struct {
		key     string
		objects []Object
		fits    bool
		len     int
		of      map[string][]reconcile.Request
	}{
		{"a", []Object{object("1"), object("2")}, true, 2, map[string][]reconcile.Request{"1": {key("a")}, "2": {key("a")}}},
		{"b", []Object{object("2")}, true, 3, map[string][]reconcile.Request{"2": {key("a"), key("b")}}},
		{"c", []Object{object("3")}, false, 3, map[string][]reconcile.Request{"3": nil}},
		{"a", []Object{object("2"), object("3")}, true, 3, map[string][]reconcile.Request{"1": nil, "2": {key("b"), key("a")}, "3": {key("a")}}},
		{"a", []Object{object("1"), object("2"), object("3")}, false, 1, map[string][]reconcile.Request{"1": nil, "2": {key("b")}}},
		{"b", nil, true, 0, map[string][]reconcile.Request{"2": nil}},
	} {
		if fits := x.Set(key(s.key), s.objects); fits != s.fits || x.Len() != s.len {
			t.Errorf("step %d: Set is %v, Len %d; want %v, %d", i, fits, x.Len(), s.fits, s.len)
		}
		for name, want := range s.of {
			if diff := cmp.Diff(want, x.Keys(object(name))); diff != "" {
				t.Errorf("step %d: keys of %s (-want +got):\n%s", i, name, diff)
			}
		}
	}
	if len(x.of)+len(x.by) != 0 {
		t.Errorf("an empty index keeps %v and %v", x.of, x.by)
	}
}
