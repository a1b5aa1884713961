package goldenimages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/goldenimages"
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
	// Guards must have been active since a catalog was created: they check what its author is permitted to import.
	Guards *guarded.Guards
	// Common are the images of catalogs that have the common images.
	Common []v1alpha1.DataImportCronTemplate
	// Manifests reads the manifests of images, for catalogs with verifyManifest.
	Manifests *Manifests
	// Tell creates an event on a catalog.
	Tell  func(*v1alpha1.GoldenImageCatalog, events.Event)
	Clock clock.PassiveClock
}

// Reconciler keeps the objects of catalogs. Its keys are their names. Create it with New.
type Reconciler struct {
	Options

	progress *progress
	report   *report
	trigger  *controllers.Trigger
	ledger   *ledger

	mu sync.Mutex
	// namespaces are those of the catalogs that exist, by the names of the catalogs.
	namespaces map[string]string
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, trigger: controllers.NewTrigger(), namespaces: map[string]string{},
		progress: &progress{Client: options.Client, Owner: Owner, Status: statusOf, Tell: options.Tell},
		report:   &report{Client: options.Client, Owner: Owner, Status: statusOf, Own: reported, Tell: options.Tell},
		ledger:   &ledger{clock: options.Clock, catalogs: map[string]*catalogRecord{}},
	}
}

// again is the time after writes until the next plan, idle that without a change, waiting that without CDI, and removal the
// delay of the removal of an architecture unless the catalog has another.
const again, idle, waiting, removal = time.Second, 10 * time.Minute, 30 * time.Second, 10 * time.Minute

// Reconcile observes the objects of a catalog, plans, remembers the plan, writes the objects and reports.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	catalog := &v1alpha1.GoldenImageCatalog{}
	err := r.Client.Get(ctx, key.NamespacedName, catalog)
	if apierrors.IsNotFound(err) {
		r.remember(key.Name, "")
		r.ledger.forget(key.Name)
		r.Manifests.forget(key.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading GoldenImageCatalog %s: %w", key.Name, err)
	}
	if catalog.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	r.remember(catalog.Name, catalog.Spec.Namespace)
	catalog.Spec.DataImportCronTemplates = goldenimages.WithCommon(catalog, r.Common) // the spec is never written
	after, err := r.plan(ctx, catalog)
	return statuses.Requeue(again, reconcile.Result{RequeueAfter: after}, err)
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
	if err == nil {
		err = r.trusted(ctx, catalog)
	}
	if err != nil {
		return r.waits(ctx, in, err)
	}
	result := goldenimages.Plan(in)
	done := result.Done(catalog)
	if err := r.remembers(ctx, in, result.Images, result.Retired); err != nil {
		return 0, r.notRemembered(ctx, in, err)
	}
	written := r.apply(ctx, result.Writes)
	if err := errors.Join(written, r.reports(ctx, in, catalog.Generation, planned(in, result.Images, written))); err != nil {
		return 0, err
	}
	switch {
	case !done:
		return again, nil
	case delay > 0:
		return min(delay, idle), nil
	}
	return idle, nil
}

// trusted returns a notGuardedError if the guards were not active when the catalog was created.
func (r *Reconciler) trusted(ctx context.Context, catalog *v1alpha1.GoldenImageCatalog) error {
	missing, err := r.Guards.Missing(ctx, catalog)
	if err == nil && missing != "" {
		return notGuardedError(missing)
	}
	return err
}

// waits reports why there is no plan. The images stay as they were. If the observation failed, the error is returned too.
func (r *Reconciler) waits(ctx context.Context, in *goldenimages.Input, err error) (time.Duration, error) {
	conditions, waits := unplanned(in, err)
	if !waits {
		return 0, errors.Join(err, r.reports(ctx, in, in.Catalog.Status.ObservedGeneration, conditions))
	}
	if err := r.remembers(ctx, in, in.Catalog.Status.Images, in.Catalog.Status.Retired); err != nil {
		return 0, r.notRemembered(ctx, in, err)
	}
	return waiting, r.reports(ctx, in, in.Catalog.Generation, conditions)
}

// notRemembered reports that a plan could not be remembered, so that nothing of it was done. A catalog that was changed or deleted
// since it was read needs no report.
func (r *Reconciler) notRemembered(ctx context.Context, in *goldenimages.Input, err error) error {
	if statuses.Stale(err) {
		return err
	}
	return errors.Join(err, r.reports(ctx, in, in.Catalog.Generation, unwritten(in, err)))
}
