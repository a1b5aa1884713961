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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/boundedwatch"
)

// KubeVirts is the resource that holds the configuration of a KubeVirt installation.
var KubeVirts = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "kubevirts"}

// NoKubeVirtWarning is what users are told while the facts are guesses.
const NoKubeVirtWarning = "no KubeVirt resource was found in this cluster, so KubeVirt's own defaults are assumed"

// Watcher keeps the Facts of a cluster up to date by watching its KubeVirt resource. Reading them costs one
// atomic load. A configuration that KubeVirt would reject leaves the last good facts in place.
type Watcher struct {
	settings Settings
	clock    clock.PassiveClock
	informer cache.SharedIndexInformer
	facts    atomic.Pointer[Facts]
	absent   atomic.Bool
	onChange func(*Facts, error)

	// rebuilding is held while facts are made, so that an older state never replaces a newer one.
	rebuilding sync.Mutex
}

// NewWatcher prepares a watcher. onChange, if not nil, is called with each new snapshot, and with an error
// and the snapshot that stays active when a configuration cannot be used.
func NewWatcher(client dynamic.Interface, settings Settings, clk clock.PassiveClock, onChange func(*Facts, error)) (*Watcher, error) {
	w := &Watcher{
		settings: settings,
		clock:    clk,
		onChange: onChange,
		informer: cache.NewSharedIndexInformer(boundedwatch.ListWatch(client, client.Resource(KubeVirts), shrinkListed), &unstructured.Unstructured{}, 0, cache.Indexers{}),
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
		w.absent.Store(false) // whoever sends events exists
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

// Facts are the present facts; nil until the cluster has been asked for the first time.
func (w *Watcher) Facts() *Facts { return w.facts.Load() }

// Ready returns nil once facts are there, and what is missing before.
func (w *Watcher) Ready() error {
	if w.facts.Load() == nil {
		return errors.New("the KubeVirt resource has not been read yet")
	}
	return nil
}

// watchFailed notices a cluster in which KubeVirt is not installed: there is nothing to wait for then.
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
	if !w.absent.Load() { // the store may still hold what was there before its kind went away
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

// choose takes the KubeVirt resource that counts: one that is deployed before one that is not, none that is
// being deleted; by name where that does not decide.
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

// Age is how long ago the configuration was last read; zero before the first time.
func (w *Watcher) Age() time.Duration {
	facts := w.facts.Load()
	if facts == nil || facts.Observed.IsZero() {
		return 0
	}
	return w.clock.Since(facts.Observed)
}
