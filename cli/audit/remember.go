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

// maxRemembered bounds the objects that are remembered; those that many virtual machines refer to are few.
const maxRemembered = 4096

// remembered asks for an object once, for the many virtual machines that refer to the same. It is for as long as an audit
// takes, in which nothing is expected to change.
type remembered struct {
	references.Objects

	answers *lru.Cache
	// asking holds back who asks for what is being asked for already.
	asking sync.Map
}

func remember(objects references.Objects) references.Objects {
	return &remembered{Objects: objects, answers: lru.New(maxRemembered)}
}

// question is what is asked; without a name it is about all objects of a kind.
type question struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// answer is what came of it. That there is no object is an answer too.
type answer struct {
	objects []*unstructured.Unstructured
	err     error
}

// Get implements references.Objects.
func (r *remembered) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	a := r.ask(ctx, question{kind, namespace, name}, func() answer {
		object, err := r.Objects.Get(ctx, kind, namespace, name)
		return answer{[]*unstructured.Unstructured{object}, err}
	})
	return a.objects[0], a.err
}

// List implements references.Objects.
func (r *remembered) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	a := r.ask(ctx, question{kind: kind, namespace: namespace}, func() answer {
		objects, err := r.Objects.List(ctx, kind, namespace)
		return answer{objects, err}
	})
	return slices.Clone(a.objects), a.err
}

func (r *remembered) ask(ctx context.Context, q question, answers func() answer) answer {
	held, _ := r.asking.LoadOrStore(q, &sync.Mutex{})
	mutex, _ := held.(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	defer r.asking.Delete(q)
	if known, ok := r.answers.Get(q); ok {
		if a, ok := known.(answer); ok {
			return a
		}
	}
	a := answers()
	if ctx.Err() == nil {
		r.answers.Add(q, a)
	}
	return a
}
