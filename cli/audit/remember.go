package audit

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"github.com/virtward/virtward/references"
)

// maxRemembered is the number of cached objects. Many virtual machines refer to few objects.
const maxRemembered = 4096

// remembered caches objects for the duration of an audit, because many virtual machines refer to the same ones.
type remembered struct {
	references.Objects

	answers *lru.Cache
	// reading has a lock for each object that is being read, so that it is read once.
	reading sync.Map
}

func remember(objects references.Objects) references.Objects {
	return &remembered{Objects: objects, answers: lru.New(maxRemembered)}
}

// key identifies an object, or all objects of a kind if the name is empty.
type key struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// answer is the cached answer, which may be an error.
type answer struct {
	objects []*unstructured.Unstructured
	err     error
}

// Get implements references.Objects.
func (r *remembered) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	a := r.get(ctx, key{kind, namespace, name}, func() answer {
		object, err := r.Objects.Get(ctx, kind, namespace, name)
		return answer{[]*unstructured.Unstructured{object}, err}
	})
	return a.objects[0], a.err
}

// List implements references.Objects.
func (r *remembered) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	a := r.get(ctx, key{kind: kind, namespace: namespace}, func() answer {
		objects, err := r.Objects.List(ctx, kind, namespace)
		return answer{objects, err}
	})
	return slices.Clone(a.objects), a.err
}

func (r *remembered) get(ctx context.Context, k key, read func() answer) answer {
	held, _ := r.reading.LoadOrStore(k, &sync.Mutex{})
	mutex, _ := held.(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	defer r.reading.Delete(k)
	if known, ok := r.answers.Get(k); ok {
		if a, ok := known.(answer); ok {
			return a
		}
	}
	a := read()
	if ctx.Err() == nil {
		r.answers.Add(k, a)
	}
	return a
}
