package inforce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Change is what a watcher of one of our kinds tells.
type Change struct {
	// Objects are the names of the objects in force, sorted.
	Objects []string
	// Notes say what of them has no effect, and why.
	Notes []string
	// Err says why the objects cannot be read, so that those in force are the ones before.
	Err error
}

// compiler makes of all objects of a kind what is asked for at every request. Objects are given sorted by name, with
// nothing but their names and specs.
type compiler[Object, Compiled any] struct {
	// kind is that of the objects, for messages.
	kind     string
	resource schema.GroupVersionResource
	// strip takes everything from an object that does not matter.
	strip func(Object) Object
	// compile also says what has no effect.
	compile func([]Object) (*Compiled, []string)
}

// watched keeps what is compiled from objects of one of our kinds up to date by watching them. Reading it costs one
// atomic load. An object that cannot be read leaves the last good state in place, and so does a kind that vanishes,
// maybe for a moment; where there has been none since the start, there are no objects.
type watched[Object, Compiled any] struct {
	compiler[Object, Compiled]

	informer cache.SharedIndexInformer
	inForce  atomic.Pointer[inForce[Object, Compiled]]
	absent   atomic.Bool
	onChange func(Change)

	// rebuilding is held while something is compiled, so that an older state never replaces a newer one.
	rebuilding sync.Mutex
}

// inForce is what was compiled and what it was made from.
type inForce[Object, Compiled any] struct {
	compiled *Compiled
	objects  []storedAs[Object]
	// stale says that what there is now cannot be read.
	stale bool
}

// storedAs is an object and its name.
type storedAs[Object any] struct {
	Name   string
	Object Object
}

// newWatched prepares a watch. onChange, if not nil, is called with each change of what is in force, the first
// included, and with each error.
func newWatched[Object, Compiled any](client dynamic.Interface, c compiler[Object, Compiled], onChange func(Change)) (*watched[Object, Compiled], error) {
	w := &watched[Object, Compiled]{
		compiler: c,
		onChange: onChange,
		informer: dynamicinformer.NewFilteredDynamicInformer(client, c.resource, "", 0, cache.Indexers{}, nil).Informer(),
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(w.watchFailed); err != nil {
		return nil, fmt.Errorf("watching %s: %w", c.kind, err)
	}
	rebuild := func(any) {
		w.absent.Store(false) // whoever sends events exists
		w.rebuild()
	}
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    rebuild,
		UpdateFunc: func(_, obj any) { rebuild(obj) },
		DeleteFunc: rebuild,
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", c.kind, err)
	}
	return w, nil
}

// Run watches until the context ends.
func (w *watched[Object, Compiled]) Run(ctx context.Context) error {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			w.rebuild()
		}
	}()
	w.informer.RunWithContext(ctx)
	return nil
}

// Ready returns nil once the objects have been read or their kind turned out not to exist.
func (w *watched[Object, Compiled]) Ready() error {
	if w.inForce.Load() == nil {
		return fmt.Errorf("the %s have not been read yet", w.kind)
	}
	return nil
}

// Current is what is in force; nil, which sets nothing, until the cluster has been asked for the first time.
func (w *watched[Object, Compiled]) Current() *Compiled {
	if f := w.inForce.Load(); f != nil {
		return f.compiled
	}
	return nil
}

// watchFailed notices a cluster without the kind. If it has been so since the start, there is nothing to wait for;
// if the kind has been there, what is in force stays.
func (w *watched[Object, Compiled]) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	switch {
	case !apierrors.IsNotFound(err):
		w.absent.Store(false)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	case w.informer.HasSynced():
		w.keep(fmt.Errorf("the cluster has no %s any more: %w", w.kind, err))
	default:
		w.absent.Store(true)
		w.rebuild()
	}
}

// keep leaves in force what is, and tells once why.
func (w *watched[Object, Compiled]) keep(why error) {
	w.rebuilding.Lock()
	defer w.rebuilding.Unlock()
	before := w.inForce.Load()
	if before == nil || before.stale {
		return
	}
	kept := *before
	kept.stale = true
	w.inForce.Store(&kept)
	if w.onChange == nil {
		return
	}
	names := make([]string, 0, len(kept.objects))
	for i := range kept.objects {
		names = append(names, kept.objects[i].Name)
	}
	w.onChange(Change{Objects: names, Err: why})
}

func (w *watched[Object, Compiled]) rebuild() {
	w.rebuilding.Lock()
	defer w.rebuilding.Unlock()
	if !w.informer.HasSynced() && !w.absent.Load() {
		return
	}
	before := w.inForce.Load()
	objects, err := w.objects()
	switch {
	case err == nil && before != nil && !before.stale && equality.Semantic.DeepEqual(before.objects, objects):
		return
	case err != nil && before != nil:
		objects = before.objects
	}
	names, contents := make([]string, 0, len(objects)), make([]Object, 0, len(objects))
	for i := range objects {
		names, contents = append(names, objects[i].Name), append(contents, objects[i].Object)
	}
	compiled, notes := w.compile(contents)
	w.inForce.Store(&inForce[Object, Compiled]{compiled: compiled, objects: objects, stale: err != nil})
	if w.onChange != nil {
		w.onChange(Change{Objects: names, Notes: notes, Err: err})
	}
}

// objects are those of the watch, sorted by name. All that can be read come back with the error about those that
// cannot.
func (w *watched[Object, Compiled]) objects() (objects []storedAs[Object], err error) {
	for _, stored := range w.informer.GetStore().List() {
		untyped, ok := stored.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		var object Object
		if failed := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, &object); failed != nil {
			err = errors.Join(err, fmt.Errorf("reading %s %s: %w", w.kind, untyped.GetName(), failed))
			continue
		}
		objects = append(objects, storedAs[Object]{Name: untyped.GetName(), Object: w.strip(object)})
	}
	slices.SortFunc(objects, func(a, b storedAs[Object]) int { return cmp.Compare(a.Name, b.Name) })
	return objects, err
}
