package metadatawatch

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/controllers/pages"
)

// Reader reads the metadata of objects. The watches of a process share one.
type Reader struct {
	// Client of the metadata of objects.
	Client metadata.Interface
	// Pages list the metadata if the API server cannot stream it.
	Pages Pages
}

// Watch reports changes of the objects of one resource.
type Watch struct {
	Reader

	// Resource is watched in all namespaces. It need not exist.
	Resource schema.GroupVersionResource
	// LabelSelector restricts the watch; empty for none.
	LabelSelector string
	// Status also reports changes of the status, and of everything else.
	Status bool
	// Existing also reports the objects of the first list.
	Existing bool
	// Delay is the time after a change until a Source requests a reconciliation.
	Delay time.Duration
	// Began is called after the first list, if it is not nil.
	Began func()
	// Changed is called with every object that is created, changed or deleted.
	Changed func(types.NamespacedName)
}

// Run watches until the context ends.
func (w *Watch) Run(ctx context.Context) error {
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return w.await(ctx) },
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = w.LabelSelector
			return w.Client.Resource(w.Resource).Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lister, w.Client), &metav1.PartialObjectMetadata{}, &sums{watch: w}, cache.ReflectorOptions{
		Name: w.Resource.String(), MinWatchTimeout: 5 * time.Minute,
	})
	reflector.RunWithContext(ctx)
	return nil
}

// Pages read lists in pages that are bounded by bytes: see pages.Reader.
type Pages interface {
	Each(ctx context.Context, list pages.List, found func(pages.Object) error) (version string, err error)
}

// The time between two requests about a kind that does not exist, at first and in the end.
const firstPause, lastPause = time.Second, 30 * time.Second

// await returns the whole list, once the kind exists: of a kind that a cluster does not have, the reflector would log errors.
func (w *Watch) await(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		list, err := w.list(ctx)
		if !apierrors.IsNotFound(err) {
			return list, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// list returns the whole list, with condensed objects.
func (w *Watch) list(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	version, err := w.Pages.Each(ctx, pages.List{Resource: w.Resource, Form: pages.Metadata, LabelSelector: w.LabelSelector}, func(found pages.Object) error {
		object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name}}
		if found.JSON != nil { // else it is too large, and evaluated when something else changes
			if err := json.Unmarshal(found.JSON, &object); err != nil {
				return fmt.Errorf("reading the metadata of %s: %w", w.Resource.Resource, err)
			}
		}
		list.Items = append(list.Items, *w.condensed(&object))
		return nil
	})
	list.ResourceVersion = version
	return list, err
}

// condensed returns an object with only its name and its hash, in the place of its generation. It does not refer to the
// original, whose annotations can have 256 kB.
func (w *Watch) condensed(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: strings.Clone(object.Namespace), Name: strings.Clone(object.Name), ResourceVersion: strings.Clone(object.ResourceVersion),
		Generation: int64(w.sum(object)), //nolint:gosec // the same bits
	}}
}

// sums is the store of a reflector: a hash of every object. Only the reflector's goroutine uses it.
type sums struct {
	watch *Watch
	known map[types.NamespacedName]uint64
}

// Transformer condenses the objects of a streamed list.
func (s *sums) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if found, ok := object.(*metav1.PartialObjectMetadata); ok {
			return s.watch.condensed(found), nil
		}
		return object, nil
	}
}

// Add is called with a new object.
func (s *sums) Add(object any) error { return s.Update(object) }

// Update is called with an object that can have changed.
func (s *sums) Update(object any) error {
	found, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil
	}
	if s.known == nil {
		s.known = map[types.NamespacedName]uint64{}
	}
	s.note(nameOf(found), s.watch.sum(found))
	return nil
}

func (s *sums) note(name types.NamespacedName, is uint64) {
	if was, known := s.known[name]; !known || was != is {
		s.known[name] = is
		s.watch.Changed(name)
	}
}

// Delete is called with a deleted object.
func (s *sums) Delete(object any) error {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		delete(s.known, nameOf(found))
		s.watch.Changed(nameOf(found))
	}
	return nil
}

// Replace is called with all objects, condensed.
func (s *sums) Replace(objects []any, _ string) error {
	now := make(map[types.NamespacedName]uint64, len(objects))
	for _, object := range objects {
		if found, ok := object.(*metav1.PartialObjectMetadata); ok {
			now[nameOf(found)] = uint64(found.Generation) //nolint:gosec // the same bits
		}
	}
	if s.known == nil {
		s.known = now
		s.began()
		return nil
	}
	for name := range s.known {
		if _, still := now[name]; !still {
			delete(s.known, name)
			s.watch.Changed(name)
		}
	}
	for name, is := range now {
		s.note(name, is)
	}
	return nil
}

// began reports the first list.
func (s *sums) began() {
	if s.watch.Began != nil {
		s.watch.Began()
	}
	if s.watch.Existing {
		for name := range s.known {
			s.watch.Changed(name)
		}
	}
}

// Resync does nothing.
func (s *sums) Resync() error { return nil }

func nameOf(object *metav1.PartialObjectMetadata) types.NamespacedName {
	return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
}

// sum returns a hash of an object, without its status unless the watch reports that. Without a status subresource, the
// generation also counts writes of the status: then changes are reported too often.
func (w *Watch) sum(object *metav1.PartialObjectMetadata) uint64 {
	h := fnv.New64a()
	word := func(text string) {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text)))) // a hash takes everything
		_, _ = h.Write([]byte(text))
	}
	number := func(n int64) { _, _ = h.Write(binary.AppendVarint(nil, n)) }
	word(string(object.UID))
	number(object.Generation)
	if w.Status {
		word(object.ResourceVersion)
	}
	if object.DeletionTimestamp != nil {
		number(1)
	}
	for _, pairs := range []map[string]string{object.Labels, object.Annotations} {
		number(int64(len(pairs)))
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			word(key)
			word(pairs[key])
		}
	}
	return h.Sum64()
}
