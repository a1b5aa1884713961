package webhooks

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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/validators"
)

// ruleSettings is the resource that holds the admin's severities of rules.
var ruleSettings = policyv1alpha1.GroupVersion.WithResource("rulesettings")

// SettingsWatcher keeps the settings of the rules up to date by watching the RuleSettings. Reading them costs
// one atomic load. An object that cannot be read leaves the last good settings in place; without the kind,
// nothing is set.
type SettingsWatcher struct {
	known    validators.Table
	informer cache.SharedIndexInformer
	inForce  atomic.Pointer[inForce]
	absent   atomic.Bool
	onChange func(SettingsChange)

	// rebuilding is held while settings are made, so that an older state never replaces a newer one.
	rebuilding sync.Mutex
}

// inForce are settings and what they were made from.
type inForce struct {
	settings *validators.Settings
	objects  []policyv1alpha1.RuleSettings
	// stale says that there are newer objects, which cannot be read.
	stale bool
}

// SettingsChange is what a SettingsWatcher tells.
type SettingsChange struct {
	// Objects are the names of the RuleSettings in force, sorted.
	Objects []string
	// Notes say which entries have no effect, and why.
	Notes []string
	// Err says why the objects cannot be read, so that those in force are the ones before.
	Err error
}

// NewSettingsWatcher prepares a watcher, given all rules there are. onChange, if not nil, is called with each
// change of what is in force, the first included, and with each error.
func NewSettingsWatcher(client dynamic.Interface, known validators.Table, onChange func(SettingsChange)) (*SettingsWatcher, error) {
	w := &SettingsWatcher{
		known:    known,
		onChange: onChange,
		informer: dynamicinformer.NewFilteredDynamicInformer(client, ruleSettings, "", 0, cache.Indexers{}, nil).Informer(),
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(w.watchFailed); err != nil {
		return nil, fmt.Errorf("watching RuleSettings: %w", err)
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
		return nil, fmt.Errorf("watching RuleSettings: %w", err)
	}
	return w, nil
}

// Run watches until the context ends.
func (w *SettingsWatcher) Run(ctx context.Context) error {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			w.rebuild()
		}
	}()
	w.informer.RunWithContext(ctx)
	return nil
}

// Settings are those in force; nil, which sets nothing, until the cluster has been asked for the first time.
func (w *SettingsWatcher) Settings() *validators.Settings {
	if f := w.inForce.Load(); f != nil {
		return f.settings
	}
	return nil
}

// Ready returns nil once the settings have been read or their kind turned out not to exist.
func (w *SettingsWatcher) Ready() error {
	if w.inForce.Load() == nil {
		return errors.New("the RuleSettings have not been read yet")
	}
	return nil
}

// watchFailed notices a cluster without the kind: there is nothing to wait for then.
func (w *SettingsWatcher) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		w.absent.Store(true)
		w.rebuild()
		return
	}
	w.absent.Store(false)
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

func (w *SettingsWatcher) rebuild() {
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
	settings, notes := validators.NewSettings(w.known, objects...)
	w.inForce.Store(&inForce{settings: settings, objects: objects, stale: err != nil})
	if w.onChange != nil {
		w.onChange(SettingsChange{Objects: namesOf(objects), Notes: notes, Err: err})
	}
}

// objects are those of the watch, sorted by name, with nothing but their names and specs. All that can be read
// come back with the error about those that cannot.
func (w *SettingsWatcher) objects() (objects []policyv1alpha1.RuleSettings, err error) {
	if w.absent.Load() { // the store may still hold what was there before the kind went away
		return nil, nil
	}
	for _, stored := range w.informer.GetStore().List() {
		untyped, ok := stored.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		object, failed := ruleSettingsOf(untyped)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		objects = append(objects, object)
	}
	slices.SortFunc(objects, func(a, b policyv1alpha1.RuleSettings) int { return cmp.Compare(a.Name, b.Name) })
	return objects, err
}

func ruleSettingsOf(untyped *unstructured.Unstructured) (policyv1alpha1.RuleSettings, error) {
	typed := policyv1alpha1.RuleSettings{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, &typed); err != nil {
		return typed, fmt.Errorf("reading RuleSettings %s: %w", untyped.GetName(), err)
	}
	object := policyv1alpha1.RuleSettings{Spec: typed.Spec}
	object.Name = typed.Name
	return object, nil
}

func namesOf(objects []policyv1alpha1.RuleSettings) []string {
	names := make([]string, 0, len(objects))
	for i := range objects {
		names = append(names, objects[i].Name)
	}
	return names
}
