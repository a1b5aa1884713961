package configcache

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/limits/watch"
)

// Change is what a watcher of one of Virtward's kinds reports.
type Change struct {
	// Objects are the names of the active objects, sorted.
	Objects []string
	// Notes list what of them has no effect, and why.
	Notes []string
	// Err is why the objects cannot be read; then the previous ones stay active.
	Err error
}

// compiler compiles all objects of a kind into what every request reads. The objects are sorted by name, and have only
// what strip leaves.
type compiler[Object, Compiled any] struct {
	// kind is that of the objects, for messages.
	kind     string
	resource schema.GroupVersionResource
	// read decodes an object; nil for the default.
	read func(map[string]any) (Object, error)
	// strip removes what compile does not read.
	strip func(Object) Object
	// memory bounds the objects; nil for no bound. strip takes memory, and removes what does not fit. cost returns the bytes of
	// what strip leaves.
	memory *watch.Budget
	cost   func(Object) int64
	// unread returns an error while objects that they refer to have not been read; nil if they refer to none.
	unread func() error
	// compile also returns what has no effect. It is never called concurrently, and can return its previous result
	// if nothing changed.
	compile func([]Object) (*Compiled, []string)
}

// watched keeps the result of compiling the objects of a kind up to date, by watching them. Reading it is one atomic load.
// If an object cannot be decoded, the last valid state stays active, as when the kind is removed. If the kind has not
// existed since the start, there are no objects.
type watched[Object, Compiled any] struct {
	compiler[Object, Compiled]

	informer cache.SharedIndexInformer
	active   atomic.Pointer[active[Object, Compiled]]
	absent   atomic.Bool
	onChange []func(Change)

	// changed has an element while there are changes to compile. Many changes are compiled together.
	changed chan struct{}
	// again requests a compilation although the objects are the same.
	again atomic.Bool
	// rebuilding is held while something is compiled, so that an older state never replaces a newer one.
	rebuilding sync.Mutex
}

// entry is what the watch keeps of an object, which is read once.
type entry[Object any] struct {
	metav1.ObjectMeta // its name and version

	object Object
	err    error
	bytes  int64
}

// Cost implements watch.Sized.
func (e *entry[Object]) Cost() int64 { return e.bytes }

// active is what was compiled and what it was made from.
type active[Object, Compiled any] struct {
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

// newWatched prepares a watch. onChange, if not nil, is called with each change of what is active, the first
// included, and with each error.
func newWatched[Object, Compiled any](client dynamic.Interface, c compiler[Object, Compiled], onChange func(Change)) (*watched[Object, Compiled], error) {
	w := &watched[Object, Compiled]{
		compiler: c,
		changed:  make(chan struct{}, 1),
		informer: cache.NewSharedIndexInformer(watch.ListWatch(client, client.Resource(c.resource), nil), &unstructured.Unstructured{}, 0, cache.Indexers{}),
	}
	if onChange != nil {
		w.onChange = append(w.onChange, onChange)
	}
	_, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.exists(true) },
		UpdateFunc: func(before, after any) {
			f := w.active.Load()
			w.exists(f == nil || f.stale || !same[Object](before, after))
		},
		DeleteFunc: func(any) { w.exists(true) },
	})
	if c.memory != nil {
		_, bounded := w.informer.AddEventHandler(c.memory.Handler())
		err = errors.Join(err, bounded)
	}
	err = errors.Join(err, w.informer.SetTransform(w.keepEntry), w.informer.SetWatchErrorHandlerWithContext(w.watchFailed))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", c.kind, err)
	}
	return w, nil
}

// OnChange adds a function that is called with each change, as onChange. Call it before Run.
func (w *watched[Object, Compiled]) OnChange(tell func(Change)) {
	w.onChange = append(w.onChange, tell)
}

// exists notes that the kind is there, since it sends events, and whether this one changes anything.
func (w *watched[Object, Compiled]) exists(changes bool) {
	w.absent.Store(false)
	if changes {
		w.signal()
	}
}

func (w *watched[Object, Compiled]) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it is known already
	}
}

// recompile compiles the objects again, because something changed that they refer to.
func (w *watched[Object, Compiled]) recompile() {
	w.again.Store(true)
	w.signal()
}

// Run watches until the context ends.
func (w *watched[Object, Compiled]) Run(ctx context.Context) error {
	var background sync.WaitGroup
	background.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			w.signal()
		}
	})
	background.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.changed:
				w.rebuild()
			}
		}
	})
	w.informer.RunWithContext(ctx)
	background.Wait()
	return nil
}

// Ready returns nil once the objects, and what they refer to, have been read and compiled, or their kind turned out
// not to exist.
func (w *watched[Object, Compiled]) Ready() error {
	if w.active.Load() != nil {
		return nil
	}
	if w.unread != nil {
		if err := w.unread(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the %s have not been read yet", w.kind)
}

// Current returns the active state; nil, which sets nothing, until the objects have been read for the first time.
func (w *watched[Object, Compiled]) Current() *Compiled {
	if f := w.active.Load(); f != nil {
		return f.compiled
	}
	return nil
}

// watchFailed notices a cluster without the kind. If it has been so since the start, there is nothing to wait for;
// if the kind has been there, what is active stays.
func (w *watched[Object, Compiled]) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	switch {
	case !apierrors.IsNotFound(err):
		w.absent.Store(false)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	case w.informer.HasSynced():
		w.keep(fmt.Errorf("the cluster no longer has %s: %w", w.kind, err))
	default:
		w.absent.Store(true)
		w.rebuild()
	}
}

// keep leaves active what is, and tells once why.
func (w *watched[Object, Compiled]) keep(why error) {
	w.rebuilding.Lock()
	defer w.rebuilding.Unlock()
	before := w.active.Load()
	if before == nil || before.stale {
		return
	}
	kept := *before
	kept.stale = true
	w.active.Store(&kept)
	names := make([]string, 0, len(kept.objects))
	for i := range kept.objects {
		names = append(names, kept.objects[i].Name)
	}
	w.tell(Change{Objects: names, Err: why})
}

func (w *watched[Object, Compiled]) tell(change Change) {
	for _, tell := range w.onChange {
		tell(change)
	}
}

func (w *watched[Object, Compiled]) rebuild() {
	w.rebuilding.Lock()
	defer w.rebuilding.Unlock()
	if !w.informer.HasSynced() && !w.absent.Load() || w.unread != nil && w.unread() != nil {
		return
	}
	again := w.again.Swap(false)
	before := w.active.Load()
	objects, err := w.objects()
	same := err == nil && before != nil && !before.stale && equality.Semantic.DeepEqual(before.objects, objects)
	if same && !again {
		return
	}
	if err != nil && before != nil {
		objects = before.objects
	}
	names, contents := make([]string, 0, len(objects)), make([]Object, 0, len(objects))
	for i := range objects {
		names, contents = append(names, objects[i].Name), append(contents, objects[i].Object)
	}
	compiled, notes := w.compile(contents)
	if same && compiled == before.compiled {
		return
	}
	w.active.Store(&active[Object, Compiled]{compiled: compiled, objects: objects, stale: err != nil})
	w.tell(Change{Objects: names, Notes: notes, Err: err})
}

// keepEntry makes of what the API server sends what the watch keeps.
func (w *watched[Object, Compiled]) keepEntry(obj any) (any, error) {
	untyped, ok := obj.(*unstructured.Unstructured)
	if !ok { // it has been here before
		return obj, nil
	}
	kept := &entry[Object]{ObjectMeta: metav1.ObjectMeta{Name: untyped.GetName(), ResourceVersion: untyped.GetResourceVersion()}}
	read := w.read
	if read == nil {
		read = converted[Object]
	}
	object, err := read(untyped.Object)
	if err != nil {
		kept.err = fmt.Errorf("reading %s %s: %w", w.kind, kept.Name, err)
		return kept, nil
	}
	kept.object = w.strip(object)
	if w.cost != nil {
		kept.bytes = w.cost(kept.object)
	}
	return kept, nil
}

func converted[Object any](fields map[string]any) (Object, error) {
	var object Object
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &object)
	return object, err
}

// same reports whether two entries of the watch mean the same.
func same[Object any](before, after any) bool {
	a, _ := before.(*entry[Object])
	b, _ := after.(*entry[Object])
	return a != nil && b != nil && a.err == nil && b.err == nil && equality.Semantic.DeepEqual(a.object, b.object)
}

// objects are those of the watch, sorted by name. All that can be read come back with the error about those that
// cannot.
func (w *watched[Object, Compiled]) objects() (objects []storedAs[Object], err error) {
	for _, stored := range w.informer.GetStore().List() {
		kept, ok := stored.(*entry[Object])
		if !ok {
			continue
		}
		if kept.err != nil {
			err = errors.Join(err, kept.err)
			continue
		}
		objects = append(objects, storedAs[Object]{Name: kept.Name, Object: kept.object})
	}
	slices.SortFunc(objects, func(a, b storedAs[Object]) int { return cmp.Compare(a.Name, b.Name) })
	return objects, err
}
