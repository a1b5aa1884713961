package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/limits/watch"
)

// KubeVirts is the resource with the configuration of KubeVirt.
var KubeVirts = apikinds.KubeVirts.GroupVersionResource()

// NoKubeVirtWarning is the warning to users while there is no KubeVirt resource.
const NoKubeVirtWarning = "no KubeVirt resource was found in this cluster, so KubeVirt's own defaults are assumed"

// Watcher keeps the Facts of a cluster up to date by watching its KubeVirt resource. Reading them is one atomic load.
// After a configuration that KubeVirt rejects, the last valid facts stay active.
type Watcher struct {
	settings Settings
	clock    clock.PassiveClock
	informer cache.SharedIndexInformer
	facts    atomic.Pointer[Facts]
	absent   atomic.Bool
	onChange func(*Facts, error)

	// rebuilding is locked while facts are computed, so that an older state never replaces a newer one.
	rebuilding sync.Mutex
}

// NewWatcher returns a Watcher, which Run starts. onChange, if not nil, is called with each new snapshot. If a
// configuration cannot be used, it is called with an error and the snapshot that stays active.
func NewWatcher(client dynamic.Interface, settings Settings, clk clock.PassiveClock, onChange func(*Facts, error)) (*Watcher, error) {
	w := &Watcher{
		settings: settings,
		clock:    clk,
		onChange: onChange,
		informer: cache.NewSharedIndexInformer(watch.ListWatch(client, client.Resource(KubeVirts), shrinkListed), &unstructured.Unstructured{}, 0, cache.Indexers{}),
	}
	err := errors.Join(w.informer.SetWatchErrorHandlerWithContext(w.watchFailed), w.informer.SetTransform(func(object any) (any, error) {
		if kv, ok := object.(*unstructured.Unstructured); ok {
			shrink(kv)
		}
		return object, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("watching KubeVirt resources: %w", err)
	}
	rebuild := func(any) {
		w.absent.Store(false) // a kind that sends events exists
		w.rebuild()
	}
	_, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    rebuild,
		UpdateFunc: func(_, obj any) { rebuild(obj) },
		DeleteFunc: rebuild,
	})
	if err != nil {
		return nil, fmt.Errorf("watching KubeVirt resources: %w", err)
	}
	return w, nil
}

// Run watches until the context ends.
func (w *Watcher) Run(ctx context.Context) error {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			w.rebuild()
		}
	}()
	w.informer.RunWithContext(ctx)
	return nil
}

// Facts returns the current facts, or nil before the KubeVirt resource has been read.
func (w *Watcher) Facts() *Facts { return w.facts.Load() }

// Ready returns nil once there are facts.
func (w *Watcher) Ready() error {
	if w.facts.Load() == nil {
		return errors.New("the KubeVirt resource has not been read yet")
	}
	return nil
}

// watchFailed detects a cluster without KubeVirt, which has Defaults.
func (w *Watcher) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		w.absent.Store(true)
		w.rebuild()
		return
	}
	w.absent.Store(false)
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

func (w *Watcher) rebuild() {
	w.rebuilding.Lock()
	defer w.rebuilding.Unlock()
	if !w.informer.HasSynced() && !w.absent.Load() {
		return
	}
	facts, err := w.snapshot()
	if err != nil {
		if w.facts.Load() == nil {
			facts = Defaults(w.settings)
			facts.Warnings = append(facts.Warnings, "the configuration of KubeVirt cannot be used, so KubeVirt's own defaults are assumed: "+err.Error())
		} else {
			facts = w.facts.Load()
		}
	}
	before := w.facts.Swap(facts)
	if w.onChange != nil && (err != nil || before == nil || !before.same(facts)) {
		w.onChange(facts, err)
	}
}

func (w *Watcher) snapshot() (*Facts, error) {
	var kv *unstructured.Unstructured
	if !w.absent.Load() { // if the kind was removed, the store may still have its objects
		kv = choose(w.informer.GetStore().List())
	}
	var facts *Facts
	if kv == nil {
		facts = Defaults(w.settings)
		facts.Warnings = append(facts.Warnings, NoKubeVirtWarning)
	} else {
		var err error
		if facts, err = FromKubeVirt(kv, w.settings); err != nil {
			return nil, err
		}
	}
	facts.Observed = w.clock.Now()
	return facts, nil
}

// choose returns the active KubeVirt resource: a deployed one rather than another, then the first by namespace and name.
// It ignores those that are being deleted.
func choose(objects []any) *unstructured.Unstructured {
	var candidates []*unstructured.Unstructured
	for _, o := range objects {
		if kv, ok := o.(*unstructured.Unstructured); ok && kv.GetDeletionTimestamp() == nil {
			candidates = append(candidates, kv)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

func rank(kv *unstructured.Unstructured) int {
	switch phase, _, _ := unstructured.NestedString(kv.Object, "status", "phase"); phase {
	case string(v1.KubeVirtPhaseDeployed):
		return 0
	case "":
		return 2
	}
	return 1
}

// Age returns the time since the configuration was last read, or zero if it was not read yet.
func (w *Watcher) Age() time.Duration {
	facts := w.facts.Load()
	if facts == nil || facts.Observed.IsZero() {
		return 0
	}
	return w.clock.Since(facts.Observed)
}
