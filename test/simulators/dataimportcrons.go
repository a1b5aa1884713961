package simulators

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/conformance/imports"
)

// Importer simulates CDI's controllers of DataImportCrons and DataSources in one namespace, as package imports models them.
// No data is imported: an import succeeds at once, or fails with the reason that a test gives.
type Importer struct {
	client    client.WithWatch
	namespace string
	stop      context.CancelFunc
	done      chan struct{}
	// changed has an element if an object or what a test gives has changed.
	changed chan struct{}

	// last has what the objects were last reconciled for.
	last *imports.Objects

	mu sync.Mutex
	// lacks are the architectures whose imports fail for a reason, and held whether imports wait.
	lacks  []string
	reason string
	held   bool
	err    error
}

// Steps that the simulation makes after a change, because the model imports in several, and the interval of those in which only
// the time changes, for schedules. An importer that looked all the time would cost the API server a fifth of a core.
const (
	stepsAfterChange = 4
	idlePoll         = time.Second
)

// StartImporter runs the simulation until Stop.
func StartImporter(ctx context.Context, c client.WithWatch, namespace string) *Importer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	i := &Importer{client: c, namespace: namespace, stop: cancel, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	var running sync.WaitGroup
	for _, list := range []client.ObjectList{&cdiv1beta1.DataImportCronList{}, &cdiv1beta1.DataSourceList{}, &cdiv1beta1.DataVolumeList{}, &corev1.PersistentVolumeClaimList{}} {
		running.Go(func() { i.watch(ctx, list) })
	}
	running.Go(func() {
		for steps := stepsAfterChange; ctx.Err() == nil; steps-- {
			err := i.step(ctx)
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				i.mu.Lock()
				i.err = err
				i.mu.Unlock()
			}
			if err != nil {
				steps = stepsAfterChange
			}
			pause(ctx, poll, nil)
			if steps > 0 || pause(ctx, idlePoll, i.changed) {
				continue
			}
			steps = stepsAfterChange
		}
	})
	go func() {
		running.Wait()
		close(i.done)
	}()
	return i
}

// pause waits, and reports whether it waited for the whole time: not if the simulation ended or something changed.
func pause(ctx context.Context, interval time.Duration, changed <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return false
	case <-time.After(interval):
		return true
	}
}

// watch notices changes of a kind, and begins again when the API server ends the watch.
func (i *Importer) watch(ctx context.Context, list client.ObjectList) {
	for ctx.Err() == nil {
		events, err := i.client.Watch(ctx, list, client.InNamespace(i.namespace))
		if err != nil {
			pause(ctx, poll, nil)
			continue
		}
		for ended := false; !ended; {
			select {
			case <-ctx.Done():
				ended = true
			case _, more := <-events.ResultChan():
				ended = !more
				i.notice()
			}
		}
		events.Stop()
	}
}

// notice makes the simulation look at the objects soon.
func (i *Importer) notice() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// Stop ends the simulation. The error is the last one of the API server.
func (i *Importer) Stop() error {
	i.stop()
	<-i.done
	return i.err
}

// Lack makes imports for architectures fail: no image has them.
func (i *Importer) Lack(architectures ...string) { i.Fail("ImagePullFailed", architectures...) }

// Fail makes imports for architectures fail with a reason of CDI.
func (i *Importer) Fail(reason string, architectures ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lacks, i.reason = architectures, reason
	i.notice()
}

// Hold makes imports wait, or continue.
func (i *Importer) Hold(held bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = held
	i.notice()
}

// step reads all objects, runs the model once, and writes what changed.
func (i *Importer) step(ctx context.Context) error {
	before, after, err := i.read(ctx)
	if err != nil {
		return err
	}
	if i.last != nil {
		after.Continue(i.last)
	}
	i.last = after
	after.Now = metav1.NewTime(time.Now().Truncate(time.Second))
	after.Poll(func(url string) string {
		sum := sha256.Sum256([]byte(url))
		return hex.EncodeToString(sum[:])
	})
	_ = after.Reconcile() // a source without a digest shows in no status
	i.mu.Lock()
	lacks, reason, held := slices.Clone(i.lacks), i.reason, i.held
	i.mu.Unlock()
	if !held {
		after.Import(func(volume *cdiv1beta1.DataVolume) string {
			if slices.Contains(lacks, volume.Labels[v1alpha1.ArchitectureLabel]) {
				return reason
			}
			return ""
		})
	}
	err = errors.Join(
		write(ctx, i.client, before.Crons, after.Crons), write(ctx, i.client, before.Volumes, after.Volumes),
		write(ctx, i.client, before.Claims, after.Claims), write(ctx, i.client, before.Sources, after.Sources),
		release(ctx, i.client, before.Claims),
	)
	if err != nil {
		i.last = nil // everything is reconciled again, as after a conflict of the real controllers
	}
	return err
}

// release lets deleted claims go, as the controller of their protection does, which the sandbox does not run.
func release(ctx context.Context, c client.Client, claims map[imports.Name]*corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil && len(claim.Finalizers) > 0 {
			errs = append(errs, client.IgnoreNotFound(c.Patch(ctx, claim.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		}
	}
	return errors.Join(errs...)
}

// read returns the objects of the namespace twice.
func (i *Importer) read(ctx context.Context) (before, after *imports.Objects, err error) {
	crons, sources, volumes, claims := &cdiv1beta1.DataImportCronList{}, &cdiv1beta1.DataSourceList{}, &cdiv1beta1.DataVolumeList{}, &corev1.PersistentVolumeClaimList{}
	for _, list := range []client.ObjectList{crons, sources, volumes, claims} {
		if err := i.client.List(ctx, list, client.InNamespace(i.namespace)); err != nil {
			return nil, nil, fmt.Errorf("listing: %w", err)
		}
	}
	both := [2]*imports.Objects{imports.NewObjects(), imports.NewObjects()}
	for _, objects := range both {
		for k := range crons.Items {
			objects.Crons[nameOf(&crons.Items[k])] = crons.Items[k].DeepCopy()
		}
		for k := range sources.Items {
			objects.Sources[nameOf(&sources.Items[k])] = sources.Items[k].DeepCopy()
		}
		for k := range volumes.Items {
			objects.Volumes[nameOf(&volumes.Items[k])] = volumes.Items[k].DeepCopy()
		}
		for k := range claims.Items {
			objects.Claims[nameOf(&claims.Items[k])] = claims.Items[k].DeepCopy()
		}
	}
	return both[0], both[1], nil
}

func nameOf(o client.Object) imports.Name {
	return imports.Name{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// object is a pointer to a type that is an object.
type object[T any] interface {
	*T
	client.Object
}

// write creates, updates and deletes what the model changed. Claims get the fields that the API server requires.
func write[T any, P object[T]](ctx context.Context, c client.Client, before, after map[imports.Name]*T) error {
	var errs []error
	for name, is := range after {
		was := before[name]
		switch {
		case was == nil:
			errs = append(errs, create(ctx, c, P(is)))
		case !equality.Semantic.DeepEqual(was, is):
			errs = append(errs, update(ctx, c, P(is)))
		}
	}
	for name, was := range before {
		if after[name] == nil {
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, P(was))))
		}
	}
	return errors.Join(errs...)
}

func create(ctx context.Context, c client.Client, o client.Object) error {
	if claim, isClaim := o.(*corev1.PersistentVolumeClaim); isClaim {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	}
	status := o.DeepCopyObject()
	if err := c.Create(ctx, o); err != nil {
		return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
	}
	written, isObject := status.(client.Object)
	if !isObject {
		return nil
	}
	written.SetResourceVersion(o.GetResourceVersion())
	written.SetUID(o.GetUID())
	return update(ctx, c, written)
}

// update writes an object, and its status where that is a subresource.
func update(ctx context.Context, c client.Client, o client.Object) error {
	status, isObject := o.DeepCopyObject().(client.Object)
	if err := c.Update(ctx, o); err != nil {
		return fmt.Errorf("updating %T %s: %w", o, o.GetName(), err)
	}
	if !isObject {
		return nil
	}
	status.SetResourceVersion(o.GetResourceVersion())
	data, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", o.GetName(), err)
	}
	err = c.Status().Patch(ctx, o, client.RawPatch("application/merge-patch+json", data))
	if apierrors.IsNotFound(err) { // the kind has no such subresource
		return nil
	}
	return err
}
