package virtualimages

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/virtualimages"
)

var images = v1alpha1.GroupVersion.WithResource("virtualimages")

// workers is the number of images that are reconciled at the same time, settled the delay after a change of a DataVolume.
const (
	workers = 4
	settled = 200 * time.Millisecond
)

// loadRetry is the time until the list of all users is repeated.
const loadRetry = 5 * time.Second

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	own := metadatawatch.Watch{Reader: reader, Resource: images, Existing: true}
	volumes := metadatawatch.Watch{
		Reader: reader, Resource: apikinds.DataVolumes.GroupVersionResource(), LabelSelector: v1alpha1.LabelImage, Status: true, Delay: settled,
	}
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	err := ctrl.NewControllerManagedBy(mgr).Named("virtualimages").WithOptions(options).
		WatchesRawSource(own.Source(metadatawatch.Itself)).
		WatchesRawSource(volumes.Source(imagesOfVolume)).
		WatchesRawSource(source.Func(r.deliver)).
		Complete(r)
	errs := []error{err}
	for i := range kinds {
		w := metadatawatch.Watch{Reader: reader, Resource: kinds[i].GroupVersionResource()}
		users := reconcile.Func(func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) { return r.user(ctx, i, key) })
		errs = append(errs, ctrl.NewControllerManagedBy(mgr).Named("virtualimages-"+kinds[i].Plural).WithOptions(controllers.Options()).
			WatchesRawSource(w.Source(metadatawatch.Itself)).Complete(users))
	}
	return errors.Join(append(errs, mgr.Add(manager.RunnableFunc(r.Load)))...)
}

// imagesOfVolume is the image of a DataVolume, by its name. A name that was shortened leads to none, and the image is
// observed at an interval.
func imagesOfVolume(name types.NamespacedName) []reconcile.Request {
	at := strings.LastIndexByte(name.Name, '-')
	if at < 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: name.Namespace, Name: name.Name[:at]}}}
}

// deliver puts the images whose users changed into the queue.
func (r *Reconciler) deliver(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case key := <-r.changed:
				queue.AddAfter(key, settled)
			}
		}
	}()
	return nil
}

// user updates the references of an object, and requests the images that they are to.
func (r *Reconciler) user(ctx context.Context, of int, key reconcile.Request) (reconcile.Result, error) {
	o, err := r.Pages.Get(ctx, kinds[of].GroupVersionResource(), key.Namespace, key.Name)
	if err != nil {
		return reconcile.Result{}, err //nolint:wrapcheck // it names the request
	}
	u := user{}
	if o != nil {
		o.Namespace, o.Name = key.Namespace, key.Name
		u = kinds[of].userOf(o)
	}
	r.request(ctx, r.index.set(objectKey{of, key.NamespacedName}, u))
	return reconcile.Result{}, nil
}

// request requests the images of references.
func (r *Reconciler) request(ctx context.Context, list []virtualimages.Reference) {
	for _, ref := range list {
		name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		keys := []reconcile.Request{{NamespacedName: name}}
		if ref.Claim {
			keys = imagesOfVolume(name)
		}
		r.send(ctx, keys...)
	}
}

// Request requests an image. It waits until the Reconciler takes it, or the context is done.
func (r *Reconciler) Request(ctx context.Context, namespace, name string) {
	r.send(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
}

func (r *Reconciler) send(ctx context.Context, keys ...reconcile.Request) {
	for _, key := range keys {
		select {
		case <-ctx.Done():
		case r.changed <- key:
		}
	}
}

// Load reads all users at the start. What fails is repeated.
func (r *Reconciler) Load(ctx context.Context) error {
	for i := range kinds {
		for err := r.index.load(ctx, i, r.Pages); err != nil; err = r.index.load(ctx, i, r.Pages) {
			log.FromContext(ctx).Error(err, "the users of images cannot be read")
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(loadRetry):
			}
		}
	}
	return nil
}
