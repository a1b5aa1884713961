package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

// Owner is the field manager of the writes.
const Owner = "virtward-virtualimages"

// Options configure a Reconciler.
type Options struct {
	// Client reads without a cache, and writes.
	Client client.Client
	// Pages reads lists in pages.
	Pages *pages.Reader
	// Guards must have been active since an image was created: they check what its author is permitted to import.
	Guards *guarded.Guards
	// Cluster is the UID of the namespace kube-system.
	Cluster string
	// Classes are the backends by the names of their classes, and Default the class of images that name none.
	Classes map[string]backend.Backend
	Default string
	// ClassNames are the names of the classes, which the metrics have.
	ClassNames []string
	Limits     Limits
	// Settings are virtualimages.Defaults, but for tests.
	Settings virtualimages.Settings
	// Tell creates an event on an image.
	Tell  func(*v1alpha1.VirtualImage, events.Event)
	Clock clock.PassiveClock
}

// Reconciler keeps VirtualImages. Its keys are their names. Create it with New.
type Reconciler struct {
	Options

	progress    *progress
	index       *index
	ledger      *ledger
	census      *census
	clouds      *clouds
	permissions *permissions
	// changed receives images whose users changed.
	changed chan reconcile.Request

	// counts are those of namespaces, for a moment.
	counting sync.Mutex
	counts   map[string]*count

	mu sync.Mutex
	// importing are the images that are being imported.
	importing map[reconcile.Request]struct{}
	// limited are those that wait because of a limit of their namespace.
	limited map[reconcile.Request]struct{}
	// reserved are the bytes of images that begin, until their statuses have them.
	reserved map[reconcile.Request]int64
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	r := &Reconciler{
		Options: options, index: newIndex(), ledger: newLedger(options.ClassNames, options.Limits.Imports), changed: make(chan reconcile.Request), importing: map[reconcile.Request]struct{}{}, limited: map[reconcile.Request]struct{}{},
		reserved: map[reconcile.Request]int64{}, counts: map[string]*count{},
	}
	r.progress = &progress{Client: options.Client, Owner: Owner, Tell: options.Tell, Status: func(i *v1alpha1.VirtualImage) *v1alpha1.VirtualImageStatus { return &i.Status }}
	r.permissions = newPermissions(options.Client, options.Clock)
	r.census = &census{between: betweenLists, retry: loadRetry, each: r.eachHolder}
	r.census.counts = r.permissions.users
	r.clouds = newClouds(options.Clock, func(ctx context.Context, key types.NamespacedName) { r.Request(ctx, key.Namespace, key.Name) })
	return r
}

// again is the time until a plan is repeated after a write, or after a conflict.
const again = 500 * time.Millisecond

// Reconcile observes an image, plans, writes the status, and acts.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	image := &v1alpha1.VirtualImage{}
	err := r.Client.Get(ctx, key.NamespacedName, image)
	if apierrors.IsNotFound(err) {
		r.ends(ctx, key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading VirtualImage %s: %w", key, err)
	}
	after, err := r.step(ctx, image)
	if apierrors.IsNotFound(err) || errors.Is(err, errCounting) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return statuses.Requeue(again, reconcile.Result{RequeueAfter: after}, err)
}

// step makes and executes one plan. After an action of the backend or a live list, the plan is made again with the outcome.
func (r *Reconciler) step(ctx context.Context, image *v1alpha1.VirtualImage) (time.Duration, error) {
	in, store, err := r.observe(ctx, image)
	if err != nil {
		return 0, err
	}
	if store != nil && image.Status.ID != "" && controllerutil.ContainsFinalizer(image, v1alpha1.Finalizer) {
		if err := r.answer(ctx, in)(store.Observe(ctx, attemptOf(r.Cluster, image))); err != nil {
			return 0, err
		}
	}
	r.countInCloud(ctx, in, store)
	plan := virtualimages.Plan(in)
	if err := r.remembers(ctx, in, &plan); err != nil {
		return 0, err
	}
	switch plan.Action {
	case virtualimages.Nothing:
		return plan.After, nil
	case virtualimages.Claim:
		return again, r.finalizer(ctx, image, controllerutil.AddFinalizer)
	case virtualimages.Release:
		return 0, r.finalizer(ctx, image, controllerutil.RemoveFinalizer)
	case virtualimages.ListUsers:
		if after := r.look(ctx, in, store); after > 0 {
			return after, nil
		}
	case virtualimages.Ensure:
		err = r.answer(ctx, in)(store.Ensure(ctx, attemptOf(r.Cluster, image)))
		r.countInCloud(ctx, in, store) // the import can have ended
	case virtualimages.Delete:
		err = r.answer(ctx, in)(store.Delete(ctx, attemptOf(r.Cluster, image)))
	}
	if err != nil {
		return 0, err
	}
	plan = virtualimages.Plan(in)
	if err := r.remembers(ctx, in, &plan); err != nil {
		return 0, err
	}
	if plan.Action == virtualimages.Release {
		return 0, r.finalizer(ctx, image, controllerutil.RemoveFinalizer)
	}
	return plan.After, nil
}

// answer notes what a backend answers, or why it does not. A conflict with another write is returned, and repeated at once.
func (r *Reconciler) answer(ctx context.Context, in *virtualimages.Input) func(virtualimages.Observation, error) error {
	return func(o virtualimages.Observation, err error) error {
		switch {
		case err == nil:
			in.Observation = &o
			return nil
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return err
		}
		in.Observation = nil
		in.Unreachable = &virtualimages.Fault{Reason: virtualimages.ReasonUnreachable, Message: fmt.Sprintf("the backend of class %s does not answer", in.Class)}
		var fault *backend.Unavailable
		if errors.As(err, &fault) {
			in.Unreachable = &virtualimages.Fault{Reason: fault.Reason, Message: fmt.Sprintf("class %s: %s", in.Class, fault.Message)}
		}
		log.FromContext(ctx).Error(err, "a backend does not answer", "class", in.Class)
		return nil
	}
}

// observe reads what a plan needs.
func (r *Reconciler) observe(ctx context.Context, image *v1alpha1.VirtualImage) (*virtualimages.Input, backend.Backend, error) {
	in := &virtualimages.Input{Settings: r.Settings, Image: image, Cluster: r.Cluster, Now: metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second))}
	var err error
	if in.Users, in.Templates, in.Uncounted, err = r.usersOf(ctx, image); err != nil {
		return nil, nil, err
	}
	if image.DeletionTimestamp != nil {
		if in.Leaving, err = r.leaving(ctx, image.Namespace); err != nil {
			return nil, nil, err
		}
	}
	in.Class = r.classOf(image)
	store := r.Classes[in.Class]
	if store == nil {
		in.Fault = &virtualimages.Fault{Reason: reasonNoClass, Message: fmt.Sprintf("there is no class %q: an admin configures virtualImages.classes", in.Class)}
		return in, nil, nil
	}
	if image.DeletionTimestamp == nil && !meta.IsStatusConditionTrue(image.Status.Conditions, v1alpha1.ConditionImported) { // what is imported is not imported again
		missing, err := r.Guards.Missing(ctx, image)
		if err != nil {
			return nil, nil, err
		}
		if missing != "" {
			in.Fault = &virtualimages.Fault{Reason: guarded.Reason, Message: missing}
			return in, store, nil
		}
	}
	if image.DeletionTimestamp == nil && image.Status.SizeBytes == 0 {
		fault, err := r.check(ctx, image)
		if err != nil {
			return nil, nil, err
		}
		in.Fault = fault
	}
	return in, store, nil
}

// leaving reports whether a namespace is being deleted.
func (r *Reconciler) leaving(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// classOf is the class that stores an image: the one that stored it before, the one that it names, or the default.
func (r *Reconciler) classOf(image *v1alpha1.VirtualImage) string {
	switch {
	case image.Status.ID != "" && image.Status.ImageClassName != "":
		return image.Status.ImageClassName
	case image.Spec.ImageClassName != "":
		return image.Spec.ImageClassName
	}
	return r.Default
}

func attemptOf(cluster string, image *v1alpha1.VirtualImage) *backend.Image {
	return &backend.Image{
		Cluster: cluster, Namespace: image.Namespace, Name: image.Name, UID: image.UID,
		ID: image.Status.ID, Attempt: image.Status.Attempt, Spec: image.Spec,
	}
}

// finalizer adds or removes the finalizer of an image as it was read.
func (r *Reconciler) finalizer(ctx context.Context, image *v1alpha1.VirtualImage, change func(client.Object, string) bool) error {
	before := image.DeepCopy()
	if !change(image, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, image, patch, client.FieldOwner(Owner)); err != nil {
		return fmt.Errorf("writing the finalizer of VirtualImage %s/%s: %w", image.Namespace, image.Name, err)
	}
	return nil
}
