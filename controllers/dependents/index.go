package dependents

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Object names an object of the cluster.
type Object struct {
	Resource schema.GroupResource
	types.NamespacedName
}

// Index maps objects to keys. It is safe for concurrent use. Create it with New.
type Index struct {
	limit int

	mu sync.Mutex
	// of has the objects of each key, and by the keys of each object.
	of    map[reconcile.Request][]Object
	by    map[Object][]reconcile.Request
	total int
}

// New returns an Index that keeps at most limit pairs of a key and an object.
func New(limit int) *Index {
	return &Index{limit: limit, of: map[reconcile.Request][]Object{}, by: map[Object][]reconcile.Request{}}
}

// Set replaces the objects of a key. It returns false, and keeps none of them, if there is no room.
func (x *Index) Set(key reconcile.Request, objects []Object) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, object := range x.of[key] {
		if keys := slices.DeleteFunc(x.by[object], func(k reconcile.Request) bool { return k == key }); len(keys) > 0 {
			x.by[object] = keys
		} else {
			delete(x.by, object)
		}
	}
	x.total -= len(x.of[key])
	delete(x.of, key)
	if x.total+len(objects) > x.limit {
		return false
	}
	if len(objects) == 0 {
		return true
	}
	x.of[key] = slices.Clone(objects)
	x.total += len(objects)
	for _, object := range objects {
		x.by[object] = append(x.by[object], key)
	}
	return true
}

// Keys returns the keys that wait for an object.
func (x *Index) Keys(object Object) []reconcile.Request {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.by[object])
}

// Len returns the number of pairs.
func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.total
}
