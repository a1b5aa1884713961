package goldenimages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/images"
)

// Owner is the field manager of the writes.
const Owner = "virtward-images"

// Options configure a Reconciler.
type Options struct {
	// Client reads catalogs from the API server, without a cache, and writes.
	Client client.Client
	// Nodes are the nodes of the cluster, with their labels, taints and nodeInfo.
	Nodes client.Reader
	// Pages reads lists in pages.
	Pages *pages.Reader
	// Tell creates an event on a catalog, with its type, reason and message.
	Tell  func(catalog *v1alpha1.GoldenImageCatalog, kind, reason, message string)
	Clock clock.PassiveClock
}

// Reconciler keeps the objects of catalogs. Its keys are their names. Create it with New.
type Reconciler struct {
	Options

	trigger *controllers.Trigger

	mu sync.Mutex
	// namespaces are those of the catalogs that exist, by the names of the catalogs.
	namespaces map[string]string
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, trigger: controllers.NewTrigger(), namespaces: map[string]string{}}
}

// again is the time after writes until the next plan, idle that without a change, and removal the delay of the removal of
// an architecture unless the catalog has another.
const again, idle, removal = time.Second, 10 * time.Minute, 10 * time.Minute

// Reconcile observes the objects of a catalog, plans, writes the status and then the objects.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	catalog := &v1alpha1.GoldenImageCatalog{}
	err := r.Client.Get(ctx, key.NamespacedName, catalog)
	if apierrors.IsNotFound(err) {
		r.remember(key.Name, "")
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading GoldenImageCatalog %s: %w", key.Name, err)
	}
	if catalog.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	r.remember(catalog.Name, catalog.Spec.Namespace)
	after, err := r.plan(ctx, catalog)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// remember remembers the namespace of a catalog; an empty one forgets it.
func (r *Reconciler) remember(name, namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if namespace == "" {
		delete(r.namespaces, name)
		return
	}
	r.namespaces[name] = namespace
}

func (r *Reconciler) plan(ctx context.Context, catalog *v1alpha1.GoldenImageCatalog) (time.Duration, error) {
	in, delay, err := r.observe(ctx, catalog)
	if err != nil {
		return 0, err
	}
	result := images.Plan(in)
	written := r.apply(ctx, result.Writes)
	if err := r.writeStatus(ctx, catalog, status(in, &result)); err != nil || written != nil {
		return 0, errors.Join(written, err)
	}
	if len(result.Writes) > 0 {
		return again, nil
	}
	if delay > 0 {
		return min(delay, idle), nil
	}
	return idle, nil
}

// apply executes the writes. An object that changed since it was observed is left to the next plan.
func (r *Reconciler) apply(ctx context.Context, writes []images.Write) error {
	var errs []error
	for _, w := range writes {
		object, isObject := w.Object.(client.Object)
		if !isObject {
			continue
		}
		var err error
		switch w.Verb {
		case images.Create:
			err = r.Client.Create(ctx, object, client.FieldOwner(Owner))
		case images.Update:
			err = r.Client.Update(ctx, object, client.FieldOwner(Owner))
		case images.Delete:
			uid, version := object.GetUID(), object.GetResourceVersion()
			err = client.IgnoreNotFound(r.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version}))
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s %T %s: %w", w.Verb, object, object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// status is that after a plan.
func status(in *images.Input, result *images.Result) *v1alpha1.GoldenImageCatalogStatus {
	catalog := in.Catalog
	s := &v1alpha1.GoldenImageCatalogStatus{ObservedGeneration: catalog.Generation, Nodes: in.Nodes, Images: result.Images, Absent: in.Absent, Conditions: slices.Clone(catalog.Status.Conditions)}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Imported", Message: "all images are imported", ObservedGeneration: catalog.Generation, LastTransitionTime: in.Now}
	if pending := pendingOf(s.Images); pending != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Pending", pending
	}
	meta.SetStatusCondition(&s.Conditions, ready)
	return s
}

// pendingOf is the first import that is not done; empty if all are.
func pendingOf(list []v1alpha1.Image) string {
	for i := range list {
		for k := range list[i].Imports {
			of := &list[i].Imports[k]
			if c := meta.FindStatusCondition(of.Conditions, images.Imported); c != nil && c.Status != metav1.ConditionTrue {
				return fmt.Sprintf("DataSource %s: %s", of.DataSource, c.Message)
			}
		}
	}
	return ""
}

func (r *Reconciler) writeStatus(ctx context.Context, catalog *v1alpha1.GoldenImageCatalog, status *v1alpha1.GoldenImageCatalogStatus) error {
	if equality.Semantic.DeepEqual(&catalog.Status, status) {
		return nil
	}
	before := catalog.Status
	catalog.Status = *status
	if err := r.Client.Status().Update(ctx, catalog, client.FieldOwner(Owner)); err != nil {
		return fmt.Errorf("writing the status of GoldenImageCatalog %s: %w", catalog.Name, err)
	}
	r.transition(&before, catalog)
	return nil
}

// transition creates events for images that cannot be deployed or imported, and for another default architecture.
func (r *Reconciler) transition(before *v1alpha1.GoldenImageCatalogStatus, catalog *v1alpha1.GoldenImageCatalog) {
	for i := range catalog.Status.Images {
		image := &catalog.Status.Images[i]
		var was v1alpha1.Image
		if k := slices.IndexFunc(before.Images, func(b v1alpha1.Image) bool { return b.Name == image.Name }); k >= 0 {
			was = before.Images[k]
		}
		if reason, message := faulty(image.Conditions); reason != "" {
			if earlier, text := faulty(was.Conditions); earlier != reason || text != message {
				r.Tell(catalog, corev1.EventTypeWarning, reason, image.Name+": "+message)
			}
		}
		if was.DefaultArchitecture != "" && image.DefaultArchitecture != "" && was.DefaultArchitecture != image.DefaultArchitecture {
			r.Tell(catalog, corev1.EventTypeNormal, "DefaultArchitectureChanged", fmt.Sprintf("%s: the default architecture is %s instead of %s", image.Name, image.DefaultArchitecture, was.DefaultArchitecture))
		}
	}
}

// faulty returns the first condition that names a fault.
func faulty(conditions []metav1.Condition) (reason, message string) {
	for _, c := range conditions {
		if c.Type == images.Deployed && c.Status == metav1.ConditionFalse && c.Reason != images.ReasonDisabled || c.Type == images.MissingArchitecture && c.Status == metav1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}
