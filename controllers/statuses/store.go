package statuses

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/events"
)

// Store is for controllers whose objects come from configcache, without their statuses. It remembers the parts that the API server
// has, so that it reads and writes nothing while a plan has the same result. Create it with NewStore.
type Store[O client.Object, S any] struct {
	client     client.Client
	status     func(O) *S
	writer     Writer[O, S]
	transition func(before, after *S) []events.Event

	mu sync.Mutex
	// stored are the parts that the API server has.
	stored map[types.NamespacedName]stored[S]
}

type stored[S any] struct {
	uid        types.UID
	generation int64
	part       *S
}

// Writer writes a part of the status of an object: a Memory or a Report.
type Writer[O client.Object, S any] interface {
	Write(ctx context.Context, object O, part *S, transition func(before, after *S) []events.Event) (written bool, err error)
}

// NewStore returns a Store, which reads with a client without a cache and writes with a Writer. transition has the events of a
// change; nil for none.
func NewStore[O client.Object, S any](c client.Client, status func(O) *S, writer Writer[O, S], transition func(before, after *S) []events.Event) *Store[O, S] {
	return &Store[O, S]{client: c, status: status, writer: writer, transition: transition, stored: map[types.NamespacedName]stored[S]{}}
}

// Keep writes the part of one object that a plan makes of its status. The plan is pure. The Writer gets the object without its
// spec. If the object was deleted, or has another uid or generation, nothing is written: its watch reports it soon.
func (s *Store[O, S]) Keep(ctx context.Context, object O, plan func(before *S) *S) error {
	key := client.ObjectKeyFromObject(object)
	if known, ok := s.find(key); ok && known.uid == object.GetUID() && known.generation == object.GetGeneration() &&
		equality.Semantic.DeepEqual(known.part, plan(known.part)) {
		return nil
	}
	read, found, err := s.read(ctx, object)
	if err != nil || !found || read.GetUID() != object.GetUID() || read.GetGeneration() != object.GetGeneration() {
		return err
	}
	part := plan(s.status(read))
	if _, err := s.writer.Write(ctx, read, part, s.transition); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[key] = stored[S]{uid: object.GetUID(), generation: object.GetGeneration(), part: part}
	return nil
}

func (s *Store[O, S]) find(key types.NamespacedName) (stored[S], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.stored[key]
	return known, ok
}

// Keys returns the objects in the Store, sorted.
func (s *Store[O, S]) Keys() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.stored), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Forget removes a deleted object.
func (s *Store[O, S]) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, key)
}

// read reads an object without its spec, which can have fields that cannot be decoded.
func (s *Store[O, S]) read(ctx context.Context, object O) (read O, found bool, err error) {
	kind, err := s.client.GroupVersionKindFor(object)
	if err != nil {
		return read, false, fmt.Errorf("reading the status: %w", err)
	}
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(kind)
	err = s.client.Get(ctx, client.ObjectKeyFromObject(object), raw)
	if apierrors.IsNotFound(err) {
		return read, false, nil
	}
	if err != nil {
		return read, false, fmt.Errorf("reading the status: %w", err)
	}
	unstructured.RemoveNestedField(raw.Object, "spec")
	read, _ = reflect.TypeAssert[O](reflect.New(reflect.TypeFor[O]().Elem())) // O is a pointer
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, read); err != nil {
		return read, false, fmt.Errorf("reading the status: %w", err)
	}
	return read, true, nil
}
